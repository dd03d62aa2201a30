"""One ledger for every kind of loss: its composition against all pairs of a toy data set, its limits, its relations."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import repeats
from tests.helpers.failing import fails_with
from tests.helpers.model_disk import ModelDisk
from topdown.errors import BudgetError
from topdown.plan import count_weights
from topdown.privacy import steps_between
from topdown.privacy.accountant import Composition, NoisyCounts, WholeLoss
from topdown.privacy.laws import LAWS
from topdown.privacy.ledger import (
    Book,
    Choice,
    DrawnLaw,
    Intent,
    Ledger,
    LedgerBinding,
    LedgerLocation,
    Limits,
    Opened,
    create_ledger,
    from_fields,
    open_ledger,
    to_fields,
)
from topdown.selection import subsampling
from topdown.verify import MovedCounts, composed_loss

F = Fraction
PATH, FOLDER = Path("/ledger/people.jsonl"), Path("/secret")
ENOUGH = Limits(epsilon=F(100), delta=F(1, 10))
STEPS = "steps of group sizes: move+new"
DELTA = F(1, 1000)  # of one count of the optimal noise
WEIGHTS = count_weights(LAWS["optimal_integer"], F(1, 2), DELTA)


def law(name: str, parameter: Fraction, counts: int = 1) -> DrawnLaw:
    """Return the noise on some counts that one person who is there or not moves by one."""
    delta, weights = (DELTA, WEIGHTS) if name == "optimal_integer" else (F(0), ())
    return DrawnLaw(name, parameter, 1, counts, "land", "total", (), delta, weights)


GAUSSIAN, GEOMETRIC = law("discrete_gaussian", F(2)), law("two_sided_geometric", F(1))
OPTIMAL, SIZES = law("optimal_integer", F(1, 2)), law("two_sided_geometric", F(4, 3))
KINDS = {"gaussian": GAUSSIAN, "geometric": GEOMETRIC, "optimal": OPTIMAL, "sizes": SIZES}


def intent(kind: str, n: int = 1, neighbours: str = "add_remove") -> Intent:
    """Return a charge for noise of one kind."""
    relation = STEPS if kind == "sizes" and neighbours == "add_remove" else neighbours
    return Intent(f"r{n}", f"{n:064x}", (KINDS[kind],), (), 1, ("land",), f"j{n}", relation)


def choice(epsilon: str = "7/10", n: int = 9, neighbours: str = "add_remove") -> Choice:
    """Return a charge for a choice."""
    plan = subsampling(epsilon, neighbours)
    asked = ("sites", f"{n:064x}", neighbours, F(epsilon), plan.rate, plan.base)
    return Choice(*asked, 1, ("answer",), f"j{n}")


def charged(ledger: Ledger, *charges: Intent | Choice) -> Book:
    """Charge a ledger, and return its book."""
    for one in charges:
        ledger.intent(one, ENOUGH)
    return ledger.book


@pytest.fixture
def disk() -> ModelDisk:
    """Return an empty disk."""
    return ModelDisk()


def place(disk: ModelDisk, neighbours: str = "add_remove") -> LedgerLocation:
    """Make a ledger."""
    return create_ledger(
        LedgerLocation(PATH, FOLDER, "", LedgerBinding("people", neighbours, "person")), disk
    )


REACH = {"gaussian": 6, "geometric": 12, "optimal": len(WEIGHTS), "sizes": 16}
"""Noise beyond has about 1 in 100,000; leaving it out on both sides alike makes a delta found here smaller."""


@cache
def outputs(groups: tuple[int, ...], kinds: tuple[str, ...]) -> np.ndarray:
    """Return the probability of every output of all mechanisms together, on groups of one or two persons."""
    people, large = sum(groups), sum(size > 1 for size in groups)
    each = []
    for kind in kinds:
        if kind == "choice":  # of two, the second likelier with everybody more; odds below e^(7/10)
            each.append(np.array([4.0, 2.0**people]) / (4 + 2.0**people))
            continue
        k = np.abs(np.arange(-REACH[kind], REACH[kind] + 4) - (large if kind == "sizes" else people))
        spread = float(KINDS[kind].parameter)
        if kind == "optimal":
            each.append(np.array([int(w) / 2**128 for w in WEIGHTS] + [0.0] * 99)[k])
        else:
            mass = [
                math.exp(-(x**2) / (2 * spread) if kind == "gaussian" else -x / spread) for x in range(99)
            ]
            each.append(np.array(mass)[k] / (2 * sum(mass) - 1))
    return reduce(np.multiply.outer, each).reshape(-1)


@cache
def true_delta(kinds: tuple[str, ...], epsilon: float) -> float:
    """Return delta at epsilon: of all pairs that differ in one person and agree on the number of groups, the worst."""
    every = list(itertools.combinations_with_replacement((1, 2), 2))
    found = 0.0
    for one, other in itertools.product(every, every):
        if sum(map(abs, np.subtract(one, other))) == 1:
            odds = math.exp(epsilon)
            found = max(
                found, float(np.maximum(outputs(one, kinds) - odds * outputs(other, kinds), 0.0).sum())
            )
    return found


ALL = ("gaussian", "geometric", "optimal", "sizes", "choice")
SUBSETS = [
    ALL,
    ALL[:4],
    ("gaussian", "choice"),
    ("optimal", "sizes"),
]


def composed(disk: ModelDisk, kinds: tuple[str, ...]) -> WholeLoss:
    """Charge each kind to one ledger, and return the composition of all of it."""
    where = place(disk)
    with open_ledger(where, disk) as ledger:
        every = [choice() if kind == "choice" else intent(kind, n) for n, kind in enumerate(kinds, 1)]
        return charged(ledger, *every).composed()


@pytest.mark.parametrize("kinds", SUBSETS, ids="+".join)
def test_the_composition_is_that_of_all_pairs(disk, kinds):
    """A number below what the worst pair of data sets shows would promise more than all releases keep."""
    whole = composed(disk, kinds)
    guess = (1 + true_delta(kinds, 0.0)) / 2
    assert guess <= float(whole.best_guess().upper) * (1 + 1e-12)
    for delta in (F(1, 20), F(1, 100))[-repeats(1, 2) :]:
        box = whole.epsilon_at(delta)
        assert true_delta(kinds, float(box.upper)) <= float(delta) * (1 + 1e-9)
        if "choice" not in kinds:  # whose laws are known: what is stated is reached
            assert true_delta(kinds, float(box.upper) - 0.004) > float(delta)
    if "choice" not in kinds:
        assert float(whole.best_guess().upper) == pytest.approx(guess, abs=1e-4)
    assert whole.is_exact == ("choice" not in kinds)


@pytest.mark.parametrize("dropped", ALL)
def test_a_composition_that_forgets_a_kind_is_rejected(disk, dropped):
    """The test above must see a ledger that leaves out one kind of loss."""
    every = (
        ALL if dropped == "choice" else ALL[:4]
    )  # a choice tells less than its bound, which could hide a law
    less = composed(disk, tuple(kind for kind in every if kind != dropped))
    assert float(less.best_guess().upper) < (1 + true_delta(every, 0.0)) / 2
    assert true_delta(every, float(less.epsilon_at(F(1, 100)).upper)) > 0.01


few = st.lists(st.sampled_from([*ALL, "again"]), min_size=1, max_size=3)


@settings(max_examples=repeats(4, 16), deadline=None)
@given(few, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_sums_are_never_exceeded(kinds, random):
    """A release that is dearer because of another's place, or than by adding up, would be charged for nothing."""
    noise, pure, sums = [], [], F(0)
    own = sum((DELTA for kind in kinds if kind == "optimal"), F(0))
    for kind in kinds:
        if kind in KINDS:
            x = KINDS[kind]
            noise.append(NoisyCounts(x.law, x.parameter, 1, 1, x.delta, x.whole_weights))
            sums += F(0) if kind == "gaussian" else x.loss
        else:
            one = choice("1/2" if kind == "again" else "7/10")
            pure.append((one.epsilon, one.exp_epsilon))
            sums += one.epsilon
    n = kinds.count("gaussian")
    if n:
        sums += Composition.of([(F(2), 1, n)]).epsilon("1/1000").upper
    at = own + F(1, 1000)
    whole = WholeLoss(tuple(noise), tuple(pure))
    box = whole.epsilon_at(at)
    assert box.upper <= sums * (1 + F(1, 10**9))
    mixed = [random.sample(rows, len(rows)) for rows in (noise, pure)]
    again = WholeLoss(*map(tuple, mixed)).epsilon_at(at)
    assert float(again.upper) == pytest.approx(float(box.upper), rel=1e-9)
    own_code = composed_loss(
        [(m.law, MovedCounts(m.parameter, 1, 1, m.delta, tuple(map(str, m.weights)))) for m in noise], pure
    )
    if not isinstance(own_code.rho, Fraction) and own_code.stated_at != ("0",):
        ends = own_code.epsilon(str(at))
        assert (
            float(ends.lower) * 0.998 <= float(box.upper) <= float(ends.upper) * 1.002 + 0.002 * float(sums)
        )
        assert float(own_code.guess.lower) - 1e-3 <= float(whole.best_guess().upper)
        assert float(whole.best_guess().upper) <= float(own_code.guess.upper) + 2e-3


@pytest.mark.parametrize("gaussian", [0, 1])
def test_losses_of_many_values_are_bounded_closely(gaussian):
    """Losses that are not listed are rounded up on a lattice: never below the sum over all of them, nor far above."""
    scales, n = (F(7, 2), F(9, 2), F(11, 2)), 8
    loss, p = np.zeros(1), np.ones(1)
    for scale in scales:
        right = 1 / (1 + math.exp(-1 / scale))
        mass = [math.comb(n, k) * right**k * (1 - right) ** (n - k) for k in range(n + 1)]
        loss = np.add.outer(loss, [float((2 * k - n) / scale) for k in range(n + 1)]).reshape(-1)
        p = np.multiply.outer(p, mass).reshape(-1)
    if gaussian:
        x = np.arange(-40, 41)
        mass = np.exp(-(x**2) / 8) / np.exp(-(x**2) / 8).sum()
        loss = np.add.outer(loss, (2 * x + 1) / 8).reshape(-1)
        p = np.multiply.outer(p, mass).reshape(-1)

    def delta(epsilon: float) -> float:
        return float((p * np.maximum(-np.expm1(epsilon - loss), 0)).sum())

    rows = [NoisyCounts("two_sided_geometric", scale, n) for scale in scales]
    whole = WholeLoss((*rows, *[NoisyCounts("discrete_gaussian", F(4), 1)] * gaussian))
    assert not whole.is_exact
    assert 1 <= float(whole.best_guess().upper) * 2 / (1 + delta(0.0)) <= 1 + 1e-4
    found = float(whole.epsilon_at("1e-6").upper)
    assert delta(found) <= 1e-6 < delta(found - 0.01)


def test_a_limit_holds_for_everything_together(disk):
    """A limit of each kind apart would be spent once for every kind; a refusal writes nothing."""
    where = place(disk)
    with open_ledger(where, disk) as ledger:
        charged(ledger, intent("gaussian", 1), intent("geometric", 2))
        due = ledger.book.composed(more=(intent("sizes", 3),)).epsilon_at(F(1, 10**5)).upper
        apart = ledger.book.composed().epsilon_at(F(1, 10**5)).upper + SIZES.loss
        assert due < apart
        for limits, code in (
            (Limits(epsilon=due - F(1, 10**6), delta=F(1, 10**5)), "B004"),
            (
                Limits(rho=F(1, 4) + F(1, 2) + F(1, 9)),
                "B004",
            ),  # 1 / (2 v), 1 / (2 s^2), and less than 1 / (2 s^2)
            (Limits(rho=F(9), epsilon=F(1), delta=F(1, 10**5)), "B004"),
            (Limits(epsilon=F(100)), "B023"),  # Gaussian noise has no epsilon for every delta
        ):
            ledger.change_limits(limits, "A. Person", "board")
            before = disk.read(PATH)
            for asked in (limits, None):
                with pytest.raises(BudgetError) as error:
                    ledger.intent(intent("sizes", 3), asked)
                assert (error.value.code, error.value.exit_code) == (code, 2)
            with pytest.raises(BudgetError, match="the limit asked for") as error:
                ledger.intent(intent("sizes", 3), ENOUGH)
            assert (error.value.code, disk.read(PATH)) == ("B066", before)
        for limits in (Limits(rho=F(9)), Limits(epsilon=F(100), delta=DELTA / 2)):
            ledger.change_limits(limits, "A. Person", "board")
            with fails_with("B023", BudgetError):
                ledger.intent(intent("optimal", 4), limits)
        last = Limits(F(1, 4) + F(1, 2) + F(9, 32), due, F(1, 10**5), "board")
        ledger.change_limits(last, "A. Person", "board")
        made = ledger.book.intents[ledger.intent(intent("sizes", 3), last).seq]
    assert (made.rho_limit, made.epsilon_limit, made.delta_limit, made.limit_reason) == (
        F(1, 4) + F(1, 2) + F(9, 32),
        due,
        F(1, 10**5),
        "board",
    )
    assert from_fields(to_fields(made) | {"time": "2026-01-02T03:04:05Z"})[0] == made


def test_rho_of_everything_is_that_of_each_and_a_refund_takes_it_back(disk):
    """An exact bound that is not the sum would be a guess; what is refunded is no loss."""
    where = place(disk)
    with open_ledger(where, disk) as ledger:
        book = charged(ledger, intent("gaussian", 1), intent("geometric", 2), choice())
        one = choice()
        odds = one.exp_epsilon
        assert book.composed().rho == F(1, 4) + F(1, 2) + one.epsilon * (odds - 1) / (odds + 1)
        assert book.charged == {"rho": F(1, 4), "epsilon": F(17, 10)}
        ledger.void(2, "burnt", "A. Person")
        assert book.composed().rho == F(1, 4) + one.epsilon * (odds - 1) / (odds + 1)
        charged(ledger, intent("optimal", 4))
        assert (book.composed().rho, book.charged_delta) == (None, DELTA)


def test_what_relations_say_of_each_other():
    """A loss under a weaker relation that is added unchanged would be understated, or mean nothing."""
    assert [
        steps_between(a, b) for a in ("bounded", "add_remove") for b in ("bounded", "add_remove", STEPS)
    ] == [
        *(1, 2, None),
        *(None, 1, 1),
    ]
    assert [steps_between("household", b) for b in ("household", "add_remove", STEPS)] == [1, None, None]


@pytest.mark.parametrize(
    ("bound", "charge"),
    [("bounded", "sizes"), ("add_remove", "gaussian"), ("household", "gaussian")],
)
def test_a_charge_that_says_nothing_of_the_ledgers_change_is_refused(disk, bound, charge):
    """Two steps of group sizes may move one answer twice; a release may publish the number of records it protects."""
    where = place(disk, bound)
    relation = STEPS if charge == "sizes" else "bounded"
    one = Intent("r1", "0" * 64, (KINDS[charge],), (), 1, ("land",), "j1", relation)
    with open_ledger(where, disk) as ledger:
        before = disk.read(PATH)
        with pytest.raises(BudgetError) as error:
            ledger.intent(one, ENOUGH)
        assert (error.value.code, disk.read(PATH)) == ("B021", before)


@pytest.mark.parametrize(
    "missing", [{"laws": ()}, {"covers": ()}, {"covers": ("block",)}, {"journal": ""}, {"neighbours": ""}]
)
def test_a_charge_that_leaves_something_out_is_not_made(missing):
    """A record of the ledger that names no noise, level, journal or relation would bind nobody."""
    with pytest.raises(ValueError, match="intent"):
        replace(intent("gaussian"), **missing)


def test_two_steps_of_group_sizes_are_not_two_changes_apart():
    """Why a replaced person is not stated where group sizes were charged: sums from the smallest size move by two."""
    sizes = np.arange(1, 4)

    def at_most(groups: tuple[int, ...]) -> np.ndarray:
        return np.array([sum(size <= s for size in groups) for s in sizes])

    before, without, after = (3, 3), (2, 3), (2, 3, 1)  # one leaves a group, and founds another
    assert np.abs(at_most(before) - at_most(without)).max() == 1
    assert np.abs(at_most(without) - at_most(after)).max() == 1
    assert np.abs(at_most(before) - at_most(after)).max() == 2


def test_a_law_whose_weights_are_others_is_not_read():
    """A ledger could otherwise state the loss of a law that was never drawn."""
    plain = to_fields(intent("optimal")) | {"time": "2026-01-02T03:04:05Z"}
    assert from_fields(dict(plain))[0] == intent("optimal")
    book = Book()
    book.add(Opened("0" * 16, 3, "people", "add_remove", "person"), "2026-01-02T03:04:05Z", "")
    for change in (
        lambda r: r["laws"][0].pop("weights"),
        lambda r: r["laws"][0]["weights"].pop(),
        lambda r: r["laws"][0].pop("delta"),
        lambda r: r["laws"][0].update(delta="1/1001"),
        lambda r: r["laws"][0].update(shift=2),
        lambda r: r["laws"][0].update(law="two_sided_geometric"),
        lambda r: r.update(delta="1/2000"),
        lambda r: r.pop("neighbours"),
    ):
        wrong = to_fields(intent("optimal")) | {"time": "2026-01-02T03:04:05Z"}
        change(wrong)
        with pytest.raises((ValueError, TypeError)):
            book.add(from_fields(wrong)[0], "2026-01-02T03:04:05Z", "")


def test_a_ledger_of_a_former_format_is_refused_by_its_version(disk):
    """What it was charged for cannot be composed; taken for a damaged file, it would be thrown away."""
    where = place(disk)
    data = disk.read(PATH)
    disk.replace(PATH, data.replace(b'"version":3', b'"version":2'))
    with pytest.raises(BudgetError) as error, open_ledger(where, disk):
        pass
    assert error.value.code in ("B006", "B022")


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("beside", [(), (NoisyCounts("discrete_gaussian", F(3), 1),)])
def test_counts_known_by_a_pair_are_never_stated_too_low(n, beside):
    """Former ledgers hold no weights: any noise with the pair may have been drawn, also the worst."""
    pair = F(1, 2)
    whole = WholeLoss((NoisyCounts("optimal_integer", pair, n, 1, DELTA), *beside))
    known = WholeLoss((NoisyCounts("optimal_integer", pair, n, 1, DELTA, tuple(map(int, WEIGHTS))), *beside))
    stated = 2 * whole.best_guess().upper - 1
    right = math.exp(pair) / (1 + math.exp(pair))
    losses = {
        (2 * k - n) * float(pair): math.comb(n, k) * right**k * (1 - right) ** (n - k) for k in range(n + 1)
    }
    gaussian = Composition.of([(F(3), 1, 1)]) if beside else None

    def delta(x: float) -> float:
        if gaussian is None:
            return max(0.0, 1 - math.exp(x))
        there = float(gaussian.delta(F(abs(x))).upper)
        return there if x >= 0 else 1 - math.exp(x) + math.exp(x) * there

    told = 1 - (1 - float(DELTA)) ** n
    true = told + (1 - told) * sum(mass * delta(-loss) for loss, mass in losses.items())
    assert true <= float(stated) + 1e-12
    assert float(stated) <= true + 1e-6
    assert not whole.is_exact
    assert known.best_guess().upper < whole.best_guess().upper + F(
        1, 1000
    )  # one is listed, the other on a lattice
    found, at = whole.epsilon_at(n * DELTA + F(1, 10**6)), known.epsilon_at(n * DELTA + F(1, 10**6))
    assert found is not None
    assert at is not None
    assert at.upper < found.upper + F(1, 1000)
    moved = [("optimal_integer", MovedCounts(pair, 1, n, DELTA))]
    mine = composed_loss([*moved, *(("discrete_gaussian", MovedCounts(F(3), 1, 1)) for _ in beside)], ())
    assert float(mine.guess.upper) == pytest.approx(float(whole.best_guess().upper), abs=1e-6)
