"""Equal noise gives equal statements, whoever makes them: topdown, group sizes, ledgers, audits by runs, verify."""

from fractions import Fraction
from pathlib import Path

import pytest

import topdown
from pgsr.privacy_section import step_numbers
from topdown.privacy.accountant import PureLoss
from topdown.privacy.ledger import LEDGER_VERSION, Book, Choice, DrawnLaw, Intent, LedgerBinding, Opened
from topdown.privacy.statement import EVERY_DELTA, Claim, Measurement, attribute_rows
from topdown.publish import spent_statement
from topdown.selection import subsampling
from topdown.verify import ALPHAS, MovedCounts, loss_of

LAWS = {"geometric": "two_sided_geometric", "gaussian": "discrete_gaussian"}
MANY = [Fraction(1000 + 7 * k * k, 999) for k in range(1, 12)]  # their sums have too many values
CASES = [
    ("geometric", [Fraction(1)]),
    ("geometric", [Fraction(3), Fraction(5, 2)]),
    ("geometric", MANY),
    ("gaussian", [Fraction(4)]),
    ("gaussian", [Fraction(9), Fraction(25, 2)]),
]
each_case = pytest.mark.parametrize(("noise", "parameters"), CASES)


def stated(noise: str, parameters: list[Fraction]) -> dict:
    """Return the row of a replaced record whose two counts move at each level."""
    rows = [
        Measurement(i, f"level {i}", "total", frozenset(), parameter, LAWS[noise])
        for i, parameter in enumerate(parameters)
    ]
    return attribute_rows(rows, [Claim("everything", "", "protected")])[0]


def spent(noise: str, parameters: list[Fraction]) -> dict:
    """Return the row of a ledger that was charged for the same noise."""
    levels = tuple(f"level {i}" for i in range(len(parameters)))
    laws = tuple(
        DrawnLaw(LAWS[noise], parameter, 1, 2, level, "total")
        for parameter, level in zip(parameters, levels, strict=True)
    )
    binding = LedgerBinding("people", "bounded", "person")
    book = Book()
    book.add(Opened("0" * 16, LEDGER_VERSION, *vars(binding).values()), "2020-01-01T00:00:00Z", "0" * 64)
    book.add(Intent("r", "p", laws, (), 1, levels, "j", "bounded"), "2020-01-01T00:00:01Z", "1" * 64)
    return spent_statement(book).secrets[0]


@each_case
def test_equal_noise_is_stated_alike(noise: str, parameters: list[Fraction]) -> None:
    """A reader who compares two certificates must not take a cruder bound for a weaker promise."""
    row, ledger = stated(noise, parameters), spent(noise, parameters)
    step = step_numbers(noise, [(parameter, 2) for parameter in parameters])
    assert step == {key: row[key] for key in step} == {key: ledger[key] for key in step}


@each_case
def test_verify_finds_the_same_by_its_own_code(noise: str, parameters: list[Fraction]) -> None:
    """What two programs agree on by shared code could be wrong in both."""
    own = loss_of(LAWS[noise], [MovedCounts(parameter, 1, 2) for parameter in parameters])
    low, high = map(float, stated(noise, parameters)["best_guess"])
    room = 1e-9 if noise == "gaussian" else 1e-12  # float64 of other sums
    assert float(own.guess.lower) == pytest.approx(low, abs=room)
    assert float(own.guess.upper) == pytest.approx(high, abs=room)


def test_two_counts_in_geometric_noise_of_scale_1() -> None:
    """One answer right with odds e to 1, and a second alike: a tie is a coin, so the pair tells no more than one."""
    assert float(PureLoss.of_geometric([(Fraction(1), 2)]).best_guess()) == pytest.approx(0.7310585786300049)
    assert stated("geometric", [Fraction(1)])["right_in_100"] == 74


@pytest.mark.parametrize("parameters", [own for noise, own in CASES if noise == "geometric"])
def test_the_curve_is_that_of_the_same_noise(parameters: list[Fraction]) -> None:
    """The power of the best attack is stated at some rates of false alarms, and verify finds it otherwise."""
    own = loss_of(LAWS["geometric"], [MovedCounts(parameter, 1, 2) for parameter in parameters]).powers
    curve = PureLoss.of_geometric((parameter, 2) for parameter in parameters).trade_off_curve(ALPHAS)
    for power, missed in zip(own, curve, strict=True):
        assert float(power.upper) == pytest.approx(1 - float(missed.lower), abs=1e-12)
        assert float(power.lower) == pytest.approx(1 - float(missed.upper), abs=1e-12)


KINDS = {
    "gaussian": (topdown.noise(gaussian=9), topdown.noise(gaussian="25/2")),
    "geometric": (topdown.noise(geometric="1/3"), topdown.noise(geometric="2/5")),
    "optimal": (topdown.noise(epsilon="1/2", delta="1/1000"), topdown.noise(epsilon=1, delta="1e-6")),
}


@pytest.fixture(scope="module")
def town_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run file of people who are there or not."""
    schema = topdown.Schema.from_lists({"sex": ["f", "m"]})
    tree = topdown.Geography.from_table({"town": ["1", "2"]}, ["land", "town"])
    planned = topdown.plan(schema=schema, geography=tree, rho=1, neighbours="add_remove")
    return planned.write(tmp_path_factory.mktemp("made") / "town").prepared.path


def half_of(noise: topdown.Noise) -> tuple[str, ...]:
    """Return the weights of 0, 1, .. of optimal noise, as ledgers hold them; none of other noise."""
    weights = getattr(noise.law, "weights", ())
    return tuple(map(str, weights[len(weights) // 2 :]))


def charged(noises: list[topdown.Noise], epsilons: list[str]) -> dict:
    """Return what a ledger says of one count in each noise, and of choices."""
    laws = tuple(
        DrawnLaw(of.law, of.parameter, 1, 1, "land", "total", (), of.delta, half_of(one))
        for one, of in ((one, one.counts()) for one in noises)
    )
    book = Book()
    book.add(
        Opened("0" * 16, LEDGER_VERSION, "people", "add_remove", "person"), "2020-01-01T00:00:00Z", "0" * 64
    )
    for n, law in enumerate(laws):
        one = Intent(f"r{n}", f"{n:064x}", (law,), (), 1, ("land",), f"i{n}", "add_remove")
        book.add(one, "2020-01-01T00:00:01Z", f"{n:064x}")
    for n, epsilon in enumerate(epsilons, 1):
        plan = subsampling(Fraction(epsilon), "add_remove")
        asked = (f"sites{n}", f"{n + 100:064x}", "add_remove", Fraction(epsilon), plan.rate, plan.base)
        book.add(Choice(*asked, 1, ("answer",), f"j{n}"), "2020-01-01T00:00:02Z", f"{n + 100:064x}")
    return spent_statement(book).secrets[0]


@pytest.mark.parametrize(
    ("kinds", "choices"),
    [
        (["gaussian"], []),
        (["geometric"], []),
        (["gaussian", "geometric"], []),
        (["gaussian", "optimal"], []),
        (["geometric", "optimal"], ["1/2"]),
        (["gaussian", "geometric", "optimal"], ["1/2", "1/4"]),
    ],
)
def test_an_account_states_what_a_ledger_states(kinds: list[str], choices: list[str], town_run: Path) -> None:
    """Who composes in a notebook what an office charged must read the number of its certificate."""
    noises = [one for kind in kinds for one in KINDS[kind]]
    planned = [topdown.select(town_run, "frequent", epsilon, query=["sex"]) for epsilon in choices]
    account, said = topdown.account(*noises, *planned), charged(noises, choices)
    assert said["best_guess"] == list(account.best_guess().texts())
    ((delta, ends),) = said["epsilon"].items()
    assert ends == list(account.epsilon(0 if delta == EVERY_DELTA else Fraction(delta)).texts())
    assert account.delta(account.epsilon("1/100").upper).lower <= Fraction(1, 100)
