"""Noise whose law may depend on the answer, where the answer lies in a public interval: bounds from both sides.

The worst event of a piecewise constant density is found by one sweep over two sorted lists of breakpoints. Laws that
depend on the answer are compared with a constant answer, and with one law, clamped or remapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Generic, TypeVar, final

from topdown.errors import ConfigError
from topdown.optimal_noise.certified_law import exp_bounds
from topdown.optimal_noise.linear_programs import (
    CoupledLP,
    KernelConstraint,
    lower_bound,
    solve_linear_program,
)
from topdown.optimal_noise.noise_request import Promise, factor_below
from topdown.optimal_noise.real_noise import LATTICE_BITS, SPARES, RealLoss, unsolved, whole_masses

Number = TypeVar("Number", float, Fraction)


@dataclass(frozen=True)
class WorstEvent(Generic[Number]):
    """A set of outcomes and a shift: P(X in pieces) - e P(X + shift in pieces) is `excess`.

    Pieces are disjoint, sorted, half-open intervals [start, end) in cell widths.
    """

    shift: int
    pieces: tuple[tuple[int, int], ...]
    excess: Number


def worst_at(
    points: Sequence[int], above: Sequence[Number], below: Sequence[Number], growth: Number, shift: int
) -> WorstEvent[Number]:
    """Find the event in which `above` is most in excess of growth times `below` moved by shift; O(N).

    Args:
        points: the partition, increasing, in cell widths, N + 1 of them.
        above, below: masses of the cells of two laws, N each, >= 0, spread evenly in their cells.
        growth: exp(epsilon), > 0.
        shift: by how much the second law is moved to the right, in cell widths.
    """
    total: Number = growth - growth
    pieces: list[tuple[int, int]] = []
    n_cells, x, own, other = len(above), points[0], 0, 0
    while own < n_cells:
        while other < n_cells and points[other + 1] + shift <= x:
            other += 1
        end, covered = points[own + 1], other < n_cells and points[other] + shift <= x
        if covered:
            end = min(end, points[other + 1] + shift)
        elif other < n_cells:
            end = min(end, points[other] + shift)
        gain = above[own] / (points[own + 1] - points[own])
        if covered:
            gain = gain - growth * below[other] / (points[other + 1] - points[other])
        if gain > 0 or not covered:
            total = total + (end - x) * gain
            if pieces and pieces[-1][1] == x:
                pieces[-1] = (pieces[-1][0], end)
            else:
                pieces.append((x, end))
        x = end
        own += x == points[own + 1]
    return WorstEvent(shift, tuple(pieces), total)


Shares = Sequence[Fraction]


def constant_loss(shares: Shares, width: Fraction, loss: RealLoss) -> Fraction:
    """Return the loss of the best constant answer among multiples of half a width."""
    n = len(shares)
    answers = [Fraction(j, 2) * width for j in range(2 * n + 1)]
    return min(
        sum((w * loss.mean(y - (k + 1) * width, y - k * width) for k, w in enumerate(shares)), Fraction(0))
        for y in answers
    )


MAX_EXCESSES = 60_000


@final
@dataclass(frozen=True)
class IntervalQuestion:
    """A real query whose answer lies in an interval of `n_cells` widths.

    Args:
        sensitivity: how far one record moves the answer at most, > 0.
        cells: k, cell widths in the sensitivity.
        n_cells: cell widths in the interval, >= 1.
        loss: of the noise.
        weights: of the cells of the interval, rationals >= 0 adding up to one; even if empty. Answers are spread
            evenly inside a cell.

    Raises:
        ConfigError: C162, C165.
    """

    promise: Promise
    sensitivity: Fraction
    cells: int
    n_cells: int
    loss: RealLoss
    weights: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        if self.sensitivity <= 0 or self.cells < 1 or self.n_cells < 1:
            fix = "give a sensitivity above 0 and whole numbers >= 1"
            raise ConfigError("the interval has no cells", code="C162", fix=fix)
        if self.weights and (
            len(self.weights) != self.n_cells or min(self.weights) < 0 or sum(self.weights) != 1
        ):
            fix = "give one rational of 0 or more a cell, adding up to 1"
            raise ConfigError("the weights of the cells do not fit", code="C165", fix=fix)

    @property
    def width(self) -> Fraction:
        """The cell width b."""
        return Fraction(self.sensitivity) / self.cells

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The weights, even ones if none were given."""
        return self.weights or (Fraction(1, self.n_cells),) * self.n_cells

    def possible(self) -> tuple[KernelConstraint, ...]:
        """List cell pairs with the shifts between answers in them that neighbours can have.

        Cells further apart than the sensitivity hold no neighbours, even where a shift at its limit would join them.
        """
        return tuple(
            KernelConstraint(k, m, shift)
            for k in range(self.n_cells)
            for m in range(self.n_cells)
            if abs(m - k) <= self.cells
            for shift in (m - k - 1, m - k, m - k + 1)
            if abs(shift) <= self.cells and (k != m or shift)
        )

    def certain(self) -> tuple[KernelConstraint, ...]:
        """List cell pairs with the one shift that takes every answer of the one into the other."""
        pairs = permutations(range(self.n_cells), 2)
        return tuple(KernelConstraint(k, m, m - k) for k, m in pairs if abs(m - k) <= self.cells)

    def program(
        self,
        pairs: tuple[KernelConstraint, ...],
        cost: Callable[[int], Fraction],
        inner: range,
        pad: int,
        delta: Fraction,
    ) -> CoupledLP:
        """Return the program on noise cells `inner` and `pad` more at either end.

        Raises:
            ConfigError: C163 if it is larger than a solver should be asked for.
        """
        if len(pairs) * len(inner) > MAX_EXCESSES:
            raise ConfigError(
                f"{len(pairs)} pairs of cells and {len(inner)} cells of noise make a program of "
                f"{len(pairs) * len(inner)} rows, more than {MAX_EXCESSES}",
                code="C163",
                fix="give wider cells, or a smaller window",
            )
        window = range(inner.start - pad, inner.stop + pad)
        costs = tuple(tuple(w * cost(i) for i in window) for w in self.shares)
        growth = factor_below(self.promise.epsilon)
        return CoupledLP(costs, pairs, growth, delta, range(pad, pad + len(inner)), window.start)


@final
@dataclass(frozen=True)
class CellLaws:
    """One law of noise for each cell of the interval: P(noise cell first + j) = weights[k][j] / 2^64.

    Args:
        first: number of the first noise cell.
        weights: of each row.
        excess: at least the delta that the laws need together.
        loss: expected, exact.
    """

    first: int
    weights: tuple[tuple[int, ...], ...]
    excess: Fraction
    loss: Fraction


def upper_laws(question: IntervalQuestion, inner: range) -> CellLaws:
    """Return laws that keep the guarantee for all answers of the interval, checked in rationals.

    Args:
        inner: noise cells that may have mass: [i b, (i + 1) b).

    Raises:
        NoSolutionError: X050, no laws on these cells keep the guarantee.
        ConfigError: C163. InternalError: X055.
    """
    width, promise = question.width, question.promise
    means = [question.loss.mean(i * width, (i + 1) * width) for i in inner]
    for spare in SPARES:
        program = question.program(
            question.possible(), lambda i: means[i - inner.start], inner, 0, promise.delta * (1 - spare)
        )
        laws = program.laws(solve_linear_program(program.program))
        rows = tuple(whole_masses([Fraction(max(0.0, p)) for p in row], LATTICE_BITS) for row in laws)
        excess = cells_excess(question, inner.start, rows)
        if excess <= promise.delta:
            each = [sum(w * mean for w, mean in zip(row, means, strict=True)) for row in rows]
            loss = sum((s * one for s, one in zip(question.shares, each, strict=True)), Fraction(0))
            return CellLaws(inner.start, rows, excess, loss / (1 << LATTICE_BITS))
    raise unsolved(f"the solver's laws do not keep delta = {promise.delta}")


def cells_excess(question: IntervalQuestion, first: int, rows: Sequence[Sequence[int]]) -> Fraction:
    """Return an upper bound of the delta that the laws need, by the sweep over worst events.

    Goes through the answers anew: cells of answers d apart, and all whole shifts next to d.
    """
    growth, reach = exp_bounds(question.promise.epsilon)[0], question.cells
    points = range(first, first + len(rows[0]) + 1)
    laws = [[Fraction(w, 1 << LATTICE_BITS) for w in row] for row in rows]
    worst = Fraction(0)
    for k, above in enumerate(laws):
        for m in range(max(0, k - reach), min(len(laws), k + reach + 1)):
            for shift in range(max(m - k - 1, -reach), min(m - k + 1, reach) + 1):
                worst = max(worst, worst_at(points, above, laws[m], growth, shift).excess)
    return worst


def lower_by_rows(question: IntervalQuestion, inner: range) -> Fraction:
    """Return a number that no private family of laws can cost less than, by multipliers of the padded program.

    Only shifts that every answer of a cell has are used: averaged over the cell, a private family obeys these and
    need not obey others.

    Raises:
        NoSolutionError, ConfigError: as `upper_laws`.
    """
    width, promise = question.width, question.promise
    program = question.program(
        question.certain(),
        lambda i: question.loss.infimum(i * width, (i + 1) * width),
        inner,
        question.cells,
        promise.delta,
    )
    multipliers = program.multipliers(solve_linear_program(program.program))
    shares = question.shares

    def least(row: int, start: int | None, end: int | None) -> Fraction:
        lo, hi = (None if x is None else x * width for x in (start, end))
        return shares[row] * question.loss.infimum(lo, hi)

    growth = exp_bounds(promise.epsilon)[1]
    return max(Fraction(0), lower_bound(multipliers, promise.delta, growth, question.n_cells, least))
