"""Exact numbers of the interface: weights as integers over one denominator, costs without overflow."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.privacy import rational

LARGEST = 2**62
LARGEST_FLOAT = 2**50
MOST = 10**61  # of numerator and denominator of a budget


def fraction(name: str, value: object) -> Fraction:
    """Return an exact positive budget; refuse floats with the fix.

    Raises:
        ConfigError: a float, a number that cannot be read, or one that is not above 0.
    """
    if isinstance(value, float | np.floating):
        raise ConfigError(
            f"{name} is the float {value!r}; budgets are exact",
            code="C142",
            fix=f'write "{Fraction(str(value)) if np.isfinite(value) else "1/2"}" or use Fraction',
        )
    exact = value if isinstance(value, Fraction) else _exact(value)
    if exact is None:
        raise ConfigError(
            f"{name} {value!r:.60} is not a number" if isinstance(value, str) else f"{name} is not a number",
            code="C143",
            fix='write it as "1/2", "0.5", "50 %" or "1e-10", in at most 60 digits',
        )
    if exact <= 0:
        raise ConfigError(
            f"{name} is {exact}; it must be above 0", code="C144", fix='give a budget such as "1/2"'
        )
    return exact


def _exact(value: object) -> Fraction | None:
    """Return a number typed as in every document; None if it is none, or has more digits than a budget may."""
    try:
        exact = rational(str(value), "")
    except (ConfigError, ValueError):
        return None
    return exact if max(abs(exact.numerator), exact.denominator) < MOST else None


def scaled_weights(weights: Sequence[int | Fraction] | Ints | None, n: int) -> tuple[Ints, int]:
    """Return integer weights and the denominator they share.

    Raises:
        ConfigError: wrong number of weights, a float, or one not above 0.
    """
    if weights is None:
        return np.ones(n, dtype=np.int64), 1
    if len(weights) != n:
        raise ConfigError(f"{len(weights)} weights for {n} places", code="C145", fix=f"give {n} weights")
    if isinstance(weights, np.ndarray) and weights.dtype.kind in "iu" and n and weights.min() > 0:
        return np.ascontiguousarray(weights, dtype=np.int64), 1
    exact = [fraction("weight", w.item() if isinstance(w, np.generic) else w) for w in weights]
    denominator = lcm(*(w.denominator for w in exact)) if exact else 1
    return np.array([int(w * denominator) for w in exact], dtype=np.int64), denominator


def refuse_overflow(largest_value: int, weight: int) -> None:
    """Refuse numbers whose exact 64-bit sums could overflow.

    Args:
        largest_value: largest absolute value that is weighed.
        weight: largest weight that one sum can gather.
    """
    if (2 * largest_value + 2) * weight >= LARGEST:
        raise ConfigError(
            f"values up to {largest_value} with weights up to {weight} are too large for exact arithmetic",
            code="C146",
            fix="give smaller integer weights (only their ratios matter)",
        )


def refuse_inexact(values: Ints, total: int) -> None:
    """Refuse answers so large that float64 targets or sums over sizes would no longer hold whole numbers."""
    largest = max(int(np.abs(values).max()), total)
    if largest * len(values) >= LARGEST_FLOAT:
        raise ConfigError(
            f"values up to {largest} in {len(values)} sizes are too large for this estimator",
            code="C146",
            fix="split the data, or use mechanism M_H^dp",
        )


def squared_cost(weights: Ints, difference: Ints, denominator: int) -> int | Fraction:
    """Return sum of weights * difference^2 / denominator exactly.

    Args:
        weights: broadcastable to `difference`.
        difference: integers.
    """
    largest = int(np.abs(difference).max(initial=0))
    if largest**2 * int(weights.max(initial=1)) * max(difference.size, 1) < LARGEST:
        total = int((weights * difference * difference).sum())
    else:
        total = int((weights.astype(object) * difference.astype(object) ** 2).sum())
    exact = Fraction(total, denominator)
    return int(exact) if exact.denominator == 1 else exact
