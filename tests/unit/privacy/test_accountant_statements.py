"""Rows and sentences of every policy, bounds for every law; and rho means one thing to plan, `account` and `audit`."""

import json
import math
from fractions import Fraction
from itertools import cycle, product
from pathlib import Path

import pytest

from tests.helpers.solved import toy_run
from topdown.model import parse_query
from topdown.plan import calibrate_noise, load_schema, load_settings, prepare
from topdown.privacy import (
    ChainStep,
    Claim,
    Measurement,
    Relation,
    StatementWords,
    accuracy_percent,
    attack_sentence,
    attribute_rows,
    protected_attributes,
)
from topdown.privacy.accountant import PureLoss, account_document, dhc2020_document, dhc_paths
from topdown.privacy.laws import DISCRETE_GAUSSIAN
from topdown.privacy.statement import statement
from topdown.publish import claims_of, steps_of
from topdown.resources import bundled_names, find

ROWS = (
    Measurement(0, "state", "total", frozenset(), Fraction(4)),
    Measurement(1, "county", "sex * age", frozenset({"sex", "age"}), Fraction(20)),
    Measurement(1, "county", "sex", frozenset({"sex"}), Fraction(50)),
)
CLAIMS = [
    Claim("everything", "", "conditional", ("state population",)),
    Claim("attribute", "age", "protected"),
    Claim("attribute", "sex", "disclosed", ("sexes", "pairs")),
    Claim("within_level", "state", "protected", (), 0),
]
NUMBERS = {"rho", "mu", "usual", "n_counts_moved", "epsilon", "best_guess", "right_in_100", "method"}


def one(rows=ROWS, release="r") -> ChainStep:
    return ChainStep(release, "0" * 64, tuple(rows))


def test_every_secret_has_its_row():
    """Each protected secret shows an enclosure below the usual bound; the disclosed one names what discloses it."""
    said = json.loads(json.dumps(statement([one()], CLAIMS, ["1e-10", "1e-5"])))
    assert [r["name"] for r in said["secrets"]] == [
        "one person, everything", "age only", "sex only", "place within one state",
    ]  # fmt: skip
    for row in said["secrets"]:
        if row["status"] == "disclosed":
            assert (NUMBERS & set(row), row["sentence"]) == (set(), "disclosed by: sexes, pairs")
            continue
        low, high = map(Fraction, row["epsilon"]["1e-10"])
        assert 0 < low <= high < Fraction(row["usual"]["canonne_kamath_steinke"]["1e-10"])
        assert row["method"].startswith("ball/")
    powers = [Fraction(p["power"][0]) for p in said["curve"]]
    assert powers == sorted(powers)
    assert said["steps"] == []


def test_steps_add_up_to_the_release():
    """A base must not vanish from the total, nor the total appear as a step."""
    base = [Measurement(1, "county", "sex", frozenset({"sex"}), Fraction(1, 100))]
    said = statement([one(base, "old"), one(ROWS, "new")], CLAIMS)
    rho = {s["release"]: [Fraction(r.get("rho", "0")) for r in s["secrets"]] for s in said["steps"]}
    assert list(rho) == ["old", "new"]
    assert [Fraction(r.get("rho", "0")) for r in said["secrets"]] == [
        a + b for a, b in zip(rho["old"], rho["new"], strict=True)
    ]
    assert [r["right_in_100"] for r in said["secrets"] if r["kind"] == "everything"] == [100]
    assert said["steps"][0]["secrets"][1]["right_in_100"] == 50  # the base does not measure age
    assert said["sentence"].startswith(
        "Someone who reads only this release and what it extends, knows every other"
    )
    (step,) = {s["secrets"][0]["sentence"].split(",")[0] for s in said["steps"]}
    assert step == "Someone who reads only the measurements of this step"


@pytest.mark.parametrize(
    ("claim", "words", "expected"),
    [
        (
            Claim("everything", "", "protected"),
            StatementWords(),
            "which of two answers one person gave, chooses",
        ),
        (
            Claim("everything", "", "protected"),
            StatementWords("household", public_facts=True),
            "which of two answers one household gave, both of which fit the public facts, chooses",
        ),
        (
            Claim("everything", "", "conditional", ("a", "b")),
            StatementWords(),
            "both of which fit what is exact (a, b), chooses",
        ),
        (
            Claim("presence", "", "protected"),
            StatementWords(public_facts=True),
            "whether one person's answers were there at all, where both fit the public facts, chooses",
        ),
        (
            Claim("attribute", "age", "protected"),
            StatementWords(),
            "all of one person's but age, and must tell which",
        ),
        (
            Claim("within_level", "county", "protected"),
            StatementWords(),
            "but the place within one county, and must",
        ),
    ],
)
def test_sentences_fit_the_secret(claim, words, expected):
    """A sentence of another secret, unit or condition would promise what the number does not bound."""
    said = attack_sentence(accuracy_percent(PureLoss(Fraction(1), 1).best_guess()), claim, words)
    assert expected in said
    assert said.startswith("Someone who reads only this release, knows every other")  # others add to it
    assert said.endswith("rightly at most 74 times in 100; a coin gives 50.")


def geometric(scales: list[Fraction]) -> list[Measurement]:
    law = "two_sided_geometric"
    return [Measurement(0, "us", f"q{i}", frozenset(), s, law) for i, s in enumerate(scales)]


def test_pure_epsilon_is_the_exact_sum():
    """Geometric plans must have the same rows: epsilon exact at delta 0, two counts for a replacement."""
    rows = geometric([Fraction(3), Fraction(5, 2)])
    (found,) = attribute_rows(rows, [Claim("everything", "", "protected")])
    low, high = map(Fraction, found["epsilon"]["0"])
    assert low <= Fraction(2, 3) + Fraction(4, 5) <= high
    assert {"n_counts_moved", "best_guess", "right_in_100", "sentence"} <= set(found)
    assert not {"rho", "usual"} & set(found)
    assert found["n_counts_moved"] == 4


def test_pure_bounds_hold_for_composed_noise():
    """No test of two composed geometric answers may beat the printed guess or curve: exhaustive over a window."""
    scales, reach = [Fraction(2), Fraction(3)], 60
    loss = PureLoss(sum(1 / s for s in scales), 2)

    def mass(x: int, scale: Fraction) -> float:
        a = math.exp(-float(1 / scale))
        return (1 - a) / (1 + a) * a ** abs(x)

    here, there = [], []
    for outcome in product(range(-reach, reach), repeat=2):
        here.append(math.prod(mass(x, s) for x, s in zip(outcome, scales, strict=True)))
        there.append(math.prod(mass(x - 1, s) for x, s in zip(outcome, scales, strict=True)))
    variation = sum(max(p - q, 0) for p, q in zip(here, there, strict=True))
    assert 0.5 < (1 + variation) / 2 <= float(loss.best_guess().upper)
    order = sorted(range(len(here)), key=lambda i: here[i] / there[i])
    alpha = missed = 0.0
    for i in order[: len(order) // 2]:
        alpha, missed = alpha + here[i], missed + there[i]
    (box,) = loss.trade_off_curve([Fraction(alpha)])
    assert box.lower <= 1 - missed
    assert math.isclose(1 / (1 + math.exp(-5 / 6)), float(loss.best_guess().upper), rel_tol=1e-12)


def test_a_loss_that_no_engine_sums_quickly_is_bounded():
    """Where exact sums take too long the row keeps valid ends instead of vanishing."""
    primes = [10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079, 10091, 10093]
    rows = [
        Measurement(0, "us", f"q{i}", frozenset(), Fraction(p, (p + 101 * i + 7) * 400))
        for i, p in enumerate(primes)
    ]
    (found,) = attribute_rows(rows, [Claim("everything", "", "protected")])
    assert found["method"].startswith("bounds")
    low, high = map(Fraction, found["epsilon"]["1e-10"])
    assert 0 <= low < high <= Fraction(found["usual"]["canonne_kamath_steinke"]["1e-10"])


ROOT = Path(__file__).parents[3]
RELATIONS = ("bounded", "add_remove")
FIRST = {"bounded": Claim("everything", "", "protected"), "add_remove": Claim("presence", "", "protected")}


def measured(name: str, neighbours: str) -> tuple[str, list[Measurement]]:
    """Return the budgets of shipped settings as a plan prints them, and the measurements as an audit sees them."""
    settings = load_settings(find("settings", name, ROOT))
    schema = load_schema(find("schemas", settings.schema, ROOT))
    rhos, rows = [], []
    for depth, table in enumerate(settings.level):
        for text, share in table.queries.items():
            rho, query = settings.budget.rho * table.share * share, parse_query(schema, text)
            rhos.append(f"{rho}*1")
            variance = calibrate_noise(DISCRETE_GAUSSIAN, rho, query, Relation.named(neighbours))
            rows.append(Measurement(depth, table.name, text, query.attributes, variance))
    return ",".join(rhos), rows


@pytest.mark.parametrize(("name", "neighbours"), list(zip(bundled_names("settings"), cycle(RELATIONS))))
def test_budgets_of_shipped_settings_give_the_audits_numbers(name, neighbours):
    """Fed to account, the 55 budgets of one plan gave rho 1.2457 and 79 in 100 where the plan says 2.4914 and 87."""
    text, rows = measured(name, neighbours)
    whole = protected_attributes(rows, [FIRST[neighbours]])[0].loss
    found = account_document(text, neighbours=neighbours)
    engine = whole.certifying()
    assert str(whole.rho) == found["rho"]
    assert whole.law.coordinates == found["n_counts_moved"]
    assert list(whole.epsilon("1e-10", engine=engine).texts()) == found["epsilon"]["1e-10"]
    assert list(whole.best_guess(engine=engine).texts()) == found["best_guess"]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_budgets_printed_by_a_plan_give_the_audits_numbers(tmp_path, neighbours):
    """The document of a plan, read as its reader would: every printed loss is rho of one measurement."""
    (tmp_path / "leaves.csv").write_text(
        "geocode,homes,dormitories,barracks\n101,3,1,0\n102,0,0,1\n201,2,0,0\n"
    )
    run = toy_run().replace('"bounded"', f'"{neighbours}"')
    (tmp_path / "run.toml").write_text(run.replace('invariants = "toy"', 'invariants = "own.toml"'))
    tables = (ROOT / "invariants" / "toy.toml").read_text().split("[[")
    (tmp_path / "own.toml").write_text("[[".join(t for t in tables if not t.startswith("exact")))
    policy = prepare(tmp_path / "run.toml").context.policy
    plan, (step,) = policy.plan, steps_of(policy)
    printed = json.loads(json.dumps(plan.to_document()))
    losses = [m["loss"] for level in printed["levels"] for m in level["measurements"]]
    whole = protected_attributes(step.measurements, claims_of(policy))[0].loss
    found = account_document([(loss, 1) for loss in losses], neighbours=neighbours)
    assert (str(plan.loss), str(whole.rho)) == (found["rho"], found["rho"])
    assert list(whole.epsilon("1e-10", engine=whole.certifying()).texts()) == found["epsilon"]["1e-10"]


def test_published_paths_state_bounded_rho():
    """The reference values of the 2020 release stand; their rho is that of a record replaced on the path."""
    paths, unbypassed = dhc_paths()
    path = paths[unbypassed]
    found = dhc2020_document(["1e-10"], proxy=True)
    same = account_document(list(path.budgets), neighbours="bounded")
    assert (found["neighbours"], found["rho"]) == ("bounded", "24811/5000")
    assert found["rho"] == same["rho"]
    low, high = map(Fraction, same["epsilon"]["1e-10"])
    wide_low, wide_high = map(Fraction, found["worst"]["1e-10"]["epsilon"])
    assert wide_low <= low <= high <= wide_high
