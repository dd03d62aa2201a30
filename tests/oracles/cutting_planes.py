"""Noise on cells of any widths, by cutting planes: solve, look for the worst events, forbid them, solve again.

The slow twin of the compact program, and the way for partitions whose widths differ. A law is returned only if
its worst event was looked for and found to be within the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import final

from topdown.optimal_noise import (
    FloatSolution,
    LinearProgram,
    Multiplier,
    Promise,
    RealLoss,
    Row,
    WorstEvent,
    exp_bounds,
    factor_below,
    lower_bound,
    solve_linear_program,
    worst_events,
)

_UNIT = 1 << 50


@final
@dataclass(frozen=True)
class CellPartition:
    """Cells [points[j], points[j + 1]) in cell widths, and how many widths the sensitivity has.

    Args:
        points: from the left; the ends of padded cells included.
        n_shifts: the sensitivity in cell widths.
        pad: cells at either end that may hold mass, but that events do not range over.

    Raises:
        ValueError: no cell inside the padding, points not increasing, or a sensitivity below 1.

    """

    points: tuple[int, ...]
    n_shifts: int
    pad: int = 0

    def __post_init__(self) -> None:
        if (
            self.pad < 0
            or len(self.points) < 2 + 2 * self.pad
            or any(a >= b for a, b in pairwise(self.points))
        ):
            raise ValueError(
                "the points of a partition are not increasing, or all padding. Fix: each once, from the left."
            )
        if self.n_shifts < 1:
            raise ValueError(f"the sensitivity has {self.n_shifts} cells. Fix: 1 or more.")

    def cells(self) -> list[tuple[int, int]]:
        """List the cells as (start, end)."""
        return list(pairwise(self.points))

    def costs(self, loss: RealLoss, width: Fraction) -> tuple[Fraction, ...]:
        """Return the mean loss of each cell."""
        return tuple(loss.mean(a * width, b * width) for a, b in self.cells())


@final
@dataclass(frozen=True)
class Outcome:
    """How the search ended.

    Args:
        converged: whether the worst event exceeds delta by the tolerance at most.
        masses: of the cells, in floats; None unless converged.
        value: of the last program, in floats: a claim of the solver.
        rounds, cuts: programs solved, events forbidden.
        violation: by how much the last law's worst event exceeds delta.
        multipliers: of the events, rationals >= 0; they prove a bound whatever the rest says.
    """

    converged: bool
    masses: tuple[float, ...] | None
    value: float
    rounds: int
    cuts: int
    violation: float
    multipliers: tuple[Multiplier, ...]

    @property
    def status(self) -> str:
        """In words."""
        return "converged" if self.converged else "not converged"


def cutting_planes(
    partition: CellPartition,
    costs: Sequence[Fraction],
    promise: Promise,
    *,
    tolerance: Fraction | None = None,
    max_rounds: int = 2_000,
) -> Outcome:
    """Find the law of least cost on the cells of a partition, or say that it was not found.

    Args:
        partition: the cells.
        costs: of each cell.
        promise: epsilon and delta.
        tolerance: by how much an event may exceed delta; by default 10^-4 delta, 10^-12 at least.
        max_rounds: programs to solve at most.

    Raises:
        ValueError: costs that are not one a cell.
        NoSolutionError: X050, no law on these cells keeps the guarantee.

    """
    if len(costs) != len(partition.points) - 1:
        raise ValueError(f"{len(costs)} costs for {len(partition.points) - 1} cells. Fix: one a cell.")
    growth, delta = factor_below(promise.epsilon), float(promise.delta)
    allowed = float(tolerance) if tolerance is not None else max(1e-12, 1e-4 * delta)
    found: dict[tuple[int, tuple[tuple[int, int], ...]], Row] = {}
    total = tuple((j, Fraction(1)) for j in range(len(costs)))
    rounds, violation = 0, float("inf")
    while True:
        program = LinearProgram(tuple(costs), tuple(found.values()), ((total, Fraction(1)),))
        solution, rounds = solve_linear_program(program), rounds + 1
        masses = tuple(float(m) for m in solution.columns)
        events = worst_events(partition.points, masses, float(growth), partition.n_shifts, partition.pad)
        violation = events[0].excess - delta
        new = {
            (event.shift, event.pieces): (_row(partition, event, growth), promise.delta)
            for event in events
            if event.excess - delta > max(allowed, violation / 5)
        }
        stuck = not new.keys() - found.keys()
        if violation <= allowed or stuck or rounds >= max_rounds:
            break
        found |= new
    converged = violation <= allowed
    multipliers = _multipliers(list(found), solution)
    return Outcome(
        converged,
        masses if converged else None,
        solution.value,
        rounds,
        len(found),
        violation,
        multipliers,
    )


def proved(
    outcome: Outcome,
    promise: Promise,
    infimum: Callable[[Fraction | None, Fraction | None], Fraction],
    width: Fraction,
) -> Fraction:
    """Return the bound that the events' multipliers prove for all real noise, computed anew.

    The value of a program with least costs on cells of different widths is no bound; this is one.

    Args:
        outcome: converged or not.
        promise: epsilon and delta.
        infimum: least loss on an interval of the real line; None is an end at infinity.
        width: of a cell width, b.

    """

    def least(_: int, start: int | None, end: int | None) -> Fraction:
        lo, hi = (None if x is None else x * width for x in (start, end))
        return infimum(lo, hi)

    return lower_bound(outcome.multipliers, promise.delta, exp_bounds(promise.epsilon)[1], 1, least)


def certified_law(
    partition: CellPartition, costs: Sequence[Fraction], promise: Promise
) -> tuple[tuple[Fraction, ...], Fraction] | None:
    """Return masses that keep the guarantee exactly, checked in rationals, and their cost; None if not found.

    Args:
        partition, costs, promise: as for `cutting_planes`, without padding.

    Raises:
        ValueError: a padded partition: its law would not be private.

    """
    if partition.pad:
        raise ValueError("a law on padded cells is not checked there. Fix: a partition without padding.")
    spare = promise.delta / 10**4
    outcome = cutting_planes(
        partition, costs, Promise(promise.epsilon, promise.delta - spare), tolerance=spare / 2
    )
    if outcome.masses is None:
        return None
    exact = [Fraction(max(0.0, m)) for m in outcome.masses]
    masses = tuple(m / sum(exact) for m in exact)
    growth = exp_bounds(promise.epsilon)[0]
    worst = worst_events(partition.points, masses, growth, partition.n_shifts)[0]
    if worst.excess > promise.delta:
        return None
    return masses, sum((m * c for m, c in zip(masses, costs, strict=True)), Fraction(0))


def _row(
    partition: CellPartition, event: WorstEvent[float], growth: Fraction
) -> tuple[tuple[int, Fraction], ...]:
    """Write P(A) - growth P(A - shift) as coefficients of the masses."""
    entries = []
    for j, (start, end) in enumerate(partition.cells()):
        own = other = 0
        for a, b in event.pieces:
            own += max(0, min(b, end) - max(a, start))
            other += max(0, min(b - event.shift, end) - max(a - event.shift, start))
        if own or other:
            entries.append((j, (own - growth * other) / (end - start)))
    return tuple(entries)


def _multipliers(
    events: Sequence[tuple[int, tuple[tuple[int, int], ...]]], solution: FloatSolution
) -> tuple[Multiplier, ...]:
    found = []
    for (shift, pieces), value in zip(events, solution.at_most, strict=False):
        weight = Fraction(max(0, round(float(value) * _UNIT)), _UNIT)
        if weight:
            found.append(Multiplier(0, 0, shift, tuple((a, b, weight) for a, b in pieces), weight))
    return tuple(found)
