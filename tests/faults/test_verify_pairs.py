"""Somebody changes laws, deltas or statements of a release with optimal noise: verify finds it by its own lines."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.small_release import Small, build, edit_json
from tests.helpers.tampered import Rows, attack, codes, edit_rows, failed, rewrite_ledger
from topdown.plan import optimal_weights, parse_weights
from topdown.verify import UNIT, delta_needed, law_problem, verify

PROMISE = Fraction(1, 4), Fraction(1, 1_600_000)
WEIGHTS = optimal_weights(*PROMISE)
Document = dict[str, Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Small:
    """Return a release with optimal noise that nobody changed."""
    return build(tmp_path_factory.mktemp("pairs"), mechanism="optimal")


def first(document: Document) -> Document:
    """Return the first measurement of a plan."""
    return document["levels"][0]["measurements"][0]


def test_a_sound_release_passes(sound: Small) -> None:
    """Findings in a sound release would teach its readers to ignore them."""
    assert failed(verify(sound.folder)) == set()


def moved(weights: tuple[str, ...], by: int) -> tuple[str, ...]:
    """Return weights with some probability taken from 1 and -1 and given to 0."""
    return str(int(weights[0]) + 2 * by), str(int(weights[1]) - by), *weights[2:]


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (WEIGHTS, ""),
        (moved(WEIGHTS, 1 << 90), "delta"),
        (moved(WEIGHTS, -(1 << 90)), "delta"),
        (WEIGHTS[:-1], "add to"),
        ((*WEIGHTS[:-1], "0"), "add to"),
        ((str(UNIT),), "one value"),
        ((), "none"),
        (optimal_weights(Fraction(1, 4), Fraction(1, 1_500_000)), "delta"),
        (optimal_weights(Fraction(26, 100), PROMISE[1]), "delta"),
        (optimal_weights(Fraction(1, 4), Fraction(1, 1_700_000)), "another law"),
        (optimal_weights(Fraction(24, 100), PROMISE[1]), "another law"),
    ],
)
def test_a_law_is_the_one_that_its_promise_gives(weights, says) -> None:
    """A mutated weight, a swapped law, or one that was paid for with a smaller delta, is not what was promised."""
    found = law_problem(weights, *PROMISE)
    assert says in found
    assert bool(found) == bool(says)


@pytest.mark.parametrize("epsilon", [Fraction(1, 40), Fraction(1, 3), Fraction(2), Fraction(10)])
def test_laws_that_are_made_pass(epsilon: Fraction) -> None:
    """A check with too little slack would refuse sound releases."""
    for delta in (Fraction(1, 10**12), Fraction(1, 10**6), Fraction(1, 1000)):
        weights = optimal_weights(epsilon, delta)
        assert law_problem(weights, epsilon, delta) == ""
        assert delta_needed(parse_weights(weights), epsilon) <= delta


def test_the_delta_of_a_law_is_the_sum_over_its_worst_event() -> None:
    """Against an enumeration of every event of a small law."""
    half = (UNIT // 2, UNIT // 8, UNIT // 8)
    line = [Fraction(w, UNIT) for w in (*half[:0:-1], *half)]
    odds = Fraction(16487212707001281468486507878142, 10**31)  # e^(1/2), from below
    pairs = list(zip([*line, 0], [0, *line], strict=True))
    events = [[pair for k, pair in enumerate(pairs) if event >> k & 1] for event in range(1 << len(pairs))]
    worst = max(sum((p - odds * q for p, q in event), Fraction(0)) for event in events)
    assert float(worst) == pytest.approx(float(delta_needed(half, Fraction(1, 2))), rel=1e-12)


PLAN_CHANGES: dict[str, tuple[Callable[[Document], None], str]] = {
    "a mutated weight": (
        lambda p: first(p).update(weights=list(moved(tuple(first(p)["weights"]), 1 << 80))),
        "V017",
    ),
    "a swapped law": (
        lambda p: first(p).update(weights=p["levels"][-1]["measurements"][-1]["weights"]),
        "V017",
    ),
    "a smaller delta of one query": (lambda p: first(p).update(delta="1/10000000"), "V013"),
    "a smaller delta of everything": (lambda p: p.update(delta="1/10000000"), "V013"),
    "a larger epsilon of one count": (lambda p: first(p).update(parameter="1"), "V014"),
    "a larger epsilon of one query": (lambda p: first(p).update(loss="1"), "V013"),
    "another mechanism": (lambda p: first(p).update(law="two_sided_geometric"), "V014"),
    "a delta of one": (lambda p: p.update(delta="1"), "V012"),
}


@pytest.mark.parametrize("name", PLAN_CHANGES)
def test_a_changed_plan_is_found(copy: Small, name: str) -> None:
    """A plan that states another law or promise than was drawn would be believed by its reader."""
    change, code = PLAN_CHANGES[name]
    edit_json(copy.folder / "plan.json", change)
    result = attack(copy)
    assert {code, "V011"} <= codes(result, "plan")


@pytest.mark.parametrize("weight", ["-1", "0", "1" * 50, "1.5", "", "abc", "\u0661"])
def test_weights_that_are_no_numbers_are_refused(copy: Small, weight: str) -> None:
    """A weight that only some readers understand could be another number to each of them."""
    edit_json(copy.folder / "plan.json", lambda p: first(p)["weights"].__setitem__(1, weight))
    assert "V010" in codes(attack(copy), "plan")


def test_weights_of_other_noise_are_refused(tmp_path: Path) -> None:
    """Keys that verify passes over could say anything."""
    plain = build(tmp_path)
    edit_json(plain.folder / "plan.json", lambda p: first(p).update(weights=list(WEIGHTS), delta="1/1000"))
    assert "V010" in codes(attack(plain), "plan")


CERTIFICATE_CHANGES: dict[str, tuple[Callable[[Document], None], str]] = {
    "delta": (lambda p: p.update(delta="1/10000000"), "V130"),
    "no delta": (lambda p: p.pop("delta"), "V130"),
    "rho": (lambda p: p.update(loss_name="rho"), "V130"),
    "composed too small": (lambda p: p["composed"][1].update(delta="0.02"), "V132"),
    "composed too vague": (lambda p: p["composed"][1].update(delta="0.5"), "V132"),
    "composed elsewhere": (lambda p: p["composed"][1].update(epsilon="5"), "V132"),
    "no composed": (lambda p: p.update(composed=[]), "V132"),
    "delta of a secret": (lambda p: p["secrets"][1].update(delta="1/10000000"), "V132"),
    "epsilon at another delta": (
        lambda p: p["secrets"][1].update(epsilon={"1e-10": ["1.75", "1.75"]}),
        "V132",
    ),
    "a better guess": (lambda p: p["secrets"][1].update(best_guess=["0.8", "0.8"], right_in_100=80), "V132"),
    "a composed guess that is too small": (
        lambda p: p["secrets"][0].update(best_guess=["0.5", "0.6"], right_in_100=60),
        "V132",
    ),
    "a composed guess that is vague": (
        lambda p: p["secrets"][0].update(best_guess=["0.5", "0.9"], right_in_100=90),
        "V132",
    ),
    "a composed guess called a sum": (
        lambda p: p["secrets"][0].update(method="sums of epsilon and delta"),
        "V132",
    ),
    "pure epsilon": (lambda p: p["secrets"][0].update(method="pure epsilon"), "V132"),
    "usual at 1e-10": (lambda p: p["usual"].update(epsilon={"1e-10": "4.000000000"}), "V131"),
    "delta of the ledger": (lambda p: p["everything_released"].update(charged_delta="1/10000000"), "V136"),
}


@pytest.mark.parametrize("name", CERTIFICATE_CHANGES)
def test_a_changed_certificate_is_found(copy: Small, name: str) -> None:
    """A certificate that states a smaller delta than was spent promises what the noise does not keep."""
    change, code = CERTIFICATE_CHANGES[name]
    edit_json(copy.folder / "certificate.json", lambda document: change(document["privacy"]))
    assert code in codes(attack(copy), "privacy")


def drop_delta(events: list[Document]) -> None:
    """Charge epsilon alone."""
    intent = next(e for e in events if e["kind"] == "intent")
    intent.pop("delta")
    for law in intent["laws"]:
        law.pop("delta")


def less_delta(events: list[Document]) -> None:
    """Charge a tenth of every delta."""
    intent = next(e for e in events if e["kind"] == "intent")
    for law in [intent, *intent["laws"]]:
        law["delta"] = str(Fraction(law["delta"]) / 10)


def wrong_sum(events: list[Document]) -> None:
    """Charge less than the laws add up to."""
    next(e for e in events if e["kind"] == "intent")["delta"] = "1/10000000"


@pytest.mark.parametrize("change", [drop_delta, wrong_sum, less_delta])
def test_a_ledger_that_forgets_delta_is_found(copy: Small, change: Callable[[list[Document]], None]) -> None:
    """A delta that is not charged would be spent again by every release that follows."""
    assert "V020" in codes(rewrite_ledger(copy, change), "ledger")


def test_a_variance_of_another_law_is_found(copy: Small) -> None:
    """Least squares would weigh the answers by another noise than they have."""

    def less(rows: Rows) -> None:
        rows[0]["variance_numerator"] -= 1

    assert "V033" in codes(edit_rows(copy, "measurements/land/part-000.parquet", less), "measurements")
