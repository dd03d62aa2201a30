"""Lower bounds that no solver has to be trusted for: any multipliers >= 0 of privacy constraints give one.

With weight y(x) <= z of a constraint P(A) <= e Q(A - shift) + delta, summed over its events, every private
law costs at least  sum of inf_x { cost + weights above - e weights below }  -  delta sum of z  (weak duality).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import final

Infimum = Callable[[int, int | None, int | None], Fraction | None]
"""(row, start, end) -> the least cost of the row on [start, end) in cell widths; None: not an outcome."""


@final
@dataclass(frozen=True)
class Multiplier:
    """Weights on the events of one privacy constraint.

    Args:
        above, below: the rows (laws) compared: P_above(A) <= e P_below(A - shift) + delta.
        shift: in cell widths.
        steps: disjoint (start, end, weight), half-open, in cell widths.
        ceiling: at least the largest weight; what delta is charged with.

    Raises:
        ValueError: a weight below zero or above the ceiling, or steps that overlap.

    """

    above: int
    below: int
    shift: int
    steps: tuple[tuple[int, int, Fraction], ...]
    ceiling: Fraction

    def __post_init__(self) -> None:
        if any(not 0 <= weight <= self.ceiling for _, _, weight in self.steps):
            raise ValueError("a multiplier has a weight below zero or above its ceiling.")
        ordered = sorted(self.steps)
        if any(a >= b for a, b, _ in ordered) or any(p[1] > q[0] for p, q in pairwise(ordered)):
            raise ValueError("the steps of a multiplier overlap or are empty.")

    def mirrored(self, width: int = 0) -> Multiplier:
        """Return the weights of the mirror image: outcome x becomes width - x."""
        steps = tuple((width - b, width - a, weight) for a, b, weight in reversed(self.steps))
        return Multiplier(self.above, self.below, -self.shift, steps, self.ceiling)


def lower_bound(
    multipliers: Iterable[Multiplier], delta: Fraction, growth: Fraction, n_rows: int, infimum: Infimum
) -> Fraction:
    """Return a number that no private family of laws can cost less than, in exact rationals.

    Guarantees the bound for every multiplier, however it was found.

    Args:
        multipliers: of constraints that every private family obeys.
        delta: of the guarantee, 0 <= delta.
        growth: at least exp(epsilon).
        n_rows: number of laws; 1 for additive noise.
        infimum: least cost of a row on an interval; the cost of a family is the sum over its rows.

    Raises:
        ValueError: a row without any outcome.

    """
    plus: list[dict[int, Fraction]] = [defaultdict(Fraction) for _ in range(n_rows)]
    minus: list[dict[int, Fraction]] = [defaultdict(Fraction) for _ in range(n_rows)]
    charged = Fraction(0)
    for m in multipliers:
        charged += m.ceiling
        for start, end, weight in m.steps:
            plus[m.above][start] += weight
            plus[m.above][end] -= weight
            minus[m.below][start - m.shift] += weight
            minus[m.below][end - m.shift] -= weight
    rows = (_least(row, plus[row], minus[row], growth, infimum) for row in range(n_rows))
    return sum(rows, -delta * charged)


def _least(
    row: int, plus: dict[int, Fraction], minus: dict[int, Fraction], growth: Fraction, infimum: Infimum
) -> Fraction:
    """Return the least reduced cost of one row over all outcomes, the two tails included."""
    ends: list[int | None] = [None, *sorted(plus.keys() | minus.keys()), None]
    high = low = Fraction(0)
    found: list[Fraction] = []
    for start, end in pairwise(ends):
        if start is not None:
            high += plus.get(start, 0)
            low += minus.get(start, 0)
        cost = infimum(row, start, end)
        if cost is not None:
            found.append(cost + high - growth * low)
    if not found:
        raise ValueError(f"row {row} has no outcome.")
    return min(found)
