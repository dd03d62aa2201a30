"""Noise whose law may depend on the answer, where the answer lies in a public interval: bounds from both sides.

The interval is cut into cells of one width. From above: one law a cell, compared at every shift that two answers in
their cells can have. From below: laws averaged over cells, compared at the one shift that every cell pair has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import final

from topdown.errors import ConfigError, InternalError
from topdown.noise.optimal.ask import Promise, factor_below
from topdown.noise.optimal.cells import BITS, SPARES
from topdown.noise.optimal.coupled import CoupledLP, KernelConstraint
from topdown.noise.optimal.highs import solve
from topdown.noise.optimal.multipliers import lower_bound
from topdown.noise.optimal.oracle import worst_at
from topdown.noise.optimal.real_loss import RealLoss
from topdown.noise.optimal.verify import exp_bounds

MAX_EXCESSES = 60_000


@final
@dataclass(frozen=True)
class IntervalQuestion:
    """A real query whose answer lies in an interval of `n_cells` widths.

    Args:
        promise: epsilon and delta.
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
            raise ConfigError(
                "the interval has no cells",
                code="C162",
                fix="give a sensitivity above 0 and whole numbers >= 1",
            )
        if self.weights and (
            len(self.weights) != self.n_cells or min(self.weights) < 0 or sum(self.weights) != 1
        ):
            raise ConfigError(
                "the weights of the cells do not fit",
                code="C165",
                fix="give one rational of 0 or more a cell, adding up to 1",
            )

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
        counts = range(self.n_cells)
        return tuple(
            KernelConstraint(k, m, m - k)
            for k in counts
            for m in counts
            if k != m and abs(m - k) <= self.cells
        )

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
        question: what is asked.
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
        rows = tuple(_weights(row) for row in program.laws(solve(program.program)))
        excess = cells_excess(question, inner.start, rows)
        if excess <= promise.delta:
            loss = sum(
                (
                    share * w * mean
                    for share, row in zip(question.shares, rows, strict=True)
                    for w, mean in zip(row, means, strict=True)
                ),
                Fraction(0),
            )
            return CellLaws(inner.start, rows, excess, loss / (1 << BITS))
    raise InternalError(
        f"the solver's laws do not keep delta = {promise.delta}",
        code="X055",
        fix="a larger delta or epsilon, or fewer cells, makes the program easier",
    )


def cells_excess(question: IntervalQuestion, first: int, rows: Sequence[Sequence[int]]) -> Fraction:
    """Return an upper bound of the delta that the laws need, by the sweep over worst events.

    Goes through the answers anew: cells of answers d apart, and all whole shifts next to d.
    """
    growth, reach = exp_bounds(question.promise.epsilon)[0], question.cells
    points = range(first, first + len(rows[0]) + 1)
    laws = [[Fraction(w, 1 << BITS) for w in row] for row in rows]
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
    multipliers = program.multipliers(solve(program.program))
    shares = question.shares

    def least(row: int, start: int | None, end: int | None) -> Fraction:
        lo, hi = (None if x is None else x * width for x in (start, end))
        return shares[row] * question.loss.infimum(lo, hi)

    growth = exp_bounds(promise.epsilon)[1]
    return max(Fraction(0), lower_bound(multipliers, promise.delta, growth, question.n_cells, least))


def _weights(row: Sequence[float]) -> tuple[int, ...]:
    exact = [Fraction(max(0.0, p)) for p in row]
    total = sum(exact)
    ends = [int((1 << BITS) * s / total) for s in accumulate([Fraction(0), *exact])]
    return tuple(b - a for a, b in pairwise(ends))
