"""All noise of a plan as one composition, and the epsilon that may be asked of it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.accountant.composition import Composition
    from topdown.plan.plan import Plan

SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 1000), Fraction(100)


def composition_of(plan: Plan) -> Composition:
    """Return everything one record moves in a plan that extends none, as discrete Gaussian noise of its variances."""
    from topdown.accountant.composition import Composition, counts_moved

    moved = counts_moved(plan.neighbours)
    return Composition.of((m.variance, 1, moved) for level in plan.levels for m in level.measurements)


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon of everything together that no search is for (ConfigError C151)."""
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ConfigError(
            f"epsilon is {epsilon} for all queries together, outside {SMALLEST_EPSILON} .. {LARGEST_EPSILON}",
            code="C151",
            fix="give one, as EPSILON:DELTA",
        )
