"""Noise of whole weights: sums of epsilon and delta, and what composed losses bound below them."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from topdown.plan import optimal_weights, parse_weights
from topdown.privacy import (
    ChainStep,
    Claim,
    Measurement,
    attribute_rows,
    composed_deltas,
    protected_attributes,
)
from topdown.privacy.accountant import NoisyCounts, PairLoss
from topdown.privacy.laws import UNIT
from topdown.privacy.statement import statement
from topdown.verify import MovedCounts as NoiseCounts
from topdown.verify import loss_of

EPSILON, DELTA = Fraction(1, 2), Fraction(1, 1000)
WEIGHTS = parse_weights(optimal_weights(EPSILON, DELTA))
OTHER = parse_weights(optimal_weights(Fraction(1), Fraction(1, 500)))
EVERYTHING = Claim("everything", "", "protected")
MIXED = PairLoss(
    (
        NoisyCounts("optimal_integer", EPSILON, 1, 1, DELTA, WEIGHTS),
        NoisyCounts("optimal_integer", Fraction(1), 1, 1, Fraction(1, 500), OTHER),
    )
)


def pairs(weights: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return the probabilities of every value for answers 0 and 1."""
    line = [w / UNIT for w in (*weights[:0:-1], *weights)]
    return list(zip([*line, 0.0], [0.0, *line], strict=True))


@pytest.mark.parametrize("quarter", [0, 1, 2, 3, 4])
def test_the_composed_delta_is_that_of_both_outcomes_together(quarter: int) -> None:
    """A bound below the sum over all pairs of outcomes would promise more than the noise keeps."""
    epsilon = MIXED.epsilon * quarter / 4
    exact = math.fsum(
        max(p * r - math.exp(epsilon) * q * s, 0.0)
        for (p, q), (r, s) in product(pairs(WEIGHTS), pairs(OTHER))
    )
    found = float(MIXED.delta_at(epsilon))
    assert found >= exact * (1 - 1e-12)
    assert found == pytest.approx(exact, rel=0.01)


def test_sums_hold_and_are_never_beaten_by_the_truth() -> None:
    """The delta at the summed epsilon is what every statement is made of."""
    assert (Fraction(3, 2), Fraction(3, 1000), 2) == (MIXED.epsilon, MIXED.delta, MIXED.coordinates)
    assert MIXED.delta_at(MIXED.epsilon) <= MIXED.delta


def test_no_test_beats_the_bounds() -> None:
    """Every test by the likelihood ratio, enumerated, must miss as often as the curve says, or more."""
    outcomes = [(p * r, q * s) for (p, q), (r, s) in product(pairs(WEIGHTS), pairs(OTHER))]
    outcomes.sort(key=lambda o: o[1] / o[0] if o[0] else math.inf)
    alpha, misses, best = 0.0, 1.0, 0.0
    for p, q in reversed(outcomes):
        alpha, misses = alpha + p, misses - q
        best = max(best, (2 - alpha - misses) / 2)
        bound = MIXED.trade_off_curve([Fraction(min(max(alpha, 0.0), 1.0))])[0].lower
        assert misses >= float(bound) - 1e-12
    found = MIXED.best_guess()
    assert best <= float(found.upper) < min(best * 1.001, float(MIXED.guess_by_sums().lower))
    assert found.lower == Fraction(1, 2)


def test_one_law_reaches_its_promise() -> None:
    """A bound of one count far above what its promise gives would be of no use."""
    one = PairLoss(MIXED.moved[:1])
    assert one.best_guess().upper == pytest.approx(float(one.guess_by_sums().upper), rel=1e-3)


def test_verify_composes_guesses_by_its_own_lines() -> None:
    """An attacker more successful than stated would be found neither by the engine nor by verify."""
    rows = [
        NoiseCounts(m.parameter, 1, n, m.delta, tuple(map(str, m.weights)))
        for m, n in zip(MIXED.moved, (4, 2), strict=True)
    ]
    stated = PairLoss(tuple(replace(m, count=row.n) for m, row in zip(MIXED.moved, rows, strict=True)))
    own = loss_of("optimal_integer", rows).composed_guess
    assert own.lower <= stated.best_guess().upper <= own.upper < stated.guess_by_sums().lower
    assert (own.upper - own.lower) / own.upper < Fraction(1, 100)


def test_nothing_measured_costs_nothing() -> None:
    """A secret that no query touches must not look as if it were open, nor ask the composition of nothing."""
    nothing = PairLoss(())
    assert (nothing.epsilon, nothing.delta, nothing.delta_at(Fraction(0))) == (0, 0, 0)
    assert nothing.best_guess().upper == Fraction(1, 2)
    assert [box.lower for box in nothing.trade_off_curve([Fraction(1, 4)])] == [Fraction(3, 4)]


def measurement(query: str, attributes: str, level: int = 0) -> Measurement:
    """Return a query with noise of whole weights."""
    return Measurement(
        level,
        f"level {level}",
        query,
        frozenset(attributes.split()),
        EPSILON,
        "optimal_integer",
        DELTA,
        WEIGHTS,
    )


ROWS = [measurement("total", ""), measurement("age", "age", 1)]
CLAIMS = [
    EVERYTHING,
    Claim("presence", "", "protected"),
    Claim("attribute", "age", "protected"),
    Claim("attribute", "sex", "protected"),
    Claim("within_level", "level 0", "protected", level=0),
]


def test_every_secret_has_the_sums_of_what_it_moves() -> None:
    """One count too few in a sum, of epsilon or delta, would promise more than is kept."""
    found = [(s.loss.epsilon, s.loss.delta, s.loss.coordinates) for s in protected_attributes(ROWS, CLAIMS)]
    one, delta = EPSILON, DELTA
    assert found == [
        (4 * one, 4 * delta, 4),
        (2 * one, 2 * delta, 2),
        (2 * one, 2 * delta, 2),
        (0, 0, 0),
        (2 * one, 2 * delta, 2),
    ]


def test_no_row_speaks_of_rho_or_of_every_delta() -> None:
    """Rho, or an epsilon that holds for every delta, cannot be said of noise of finitely many values."""
    rows = attribute_rows(ROWS, CLAIMS)
    assert all({"rho", "mu", "usual"}.isdisjoint(row) for row in rows)
    assert [row["delta"] for row in rows] == ["1/250", "1/500", "1/500", "0", "1/500"]
    assert all(list(row["epsilon"]) == [row["delta"]] for row in rows)
    by_sums = "sums of epsilon and delta"  # of nothing, too
    assert {row["method"] for row in rows} == {by_sums, f"{by_sums}, guesses by composed losses"}


def test_a_statement_gives_deltas_at_quarters_of_epsilon_rounded_up() -> None:
    """A delta rounded down would be smaller than what was certified."""
    said = statement([ChainStep("r", "0" * 64, tuple(ROWS))], CLAIMS[:1])
    loss = protected_attributes(ROWS, CLAIMS[:1])[0].loss
    assert [one["epsilon"] for one in said["composed"]] == ["1/2", "1", "3/2", "2"]
    assert composed_deltas(loss) == said["composed"]
    points = tuple(Fraction(one["epsilon"]) for one in said["composed"])
    for one, true in zip(said["composed"], loss.deltas_at(points), strict=True):
        assert Fraction(one["delta"]) >= min(true, loss.delta if one["epsilon"] == "2" else 1)
    assert [float(d) for d in loss.deltas_at(points)] == pytest.approx(
        [float(loss.delta_at(p)) for p in points], rel=1e-3
    )
