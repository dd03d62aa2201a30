"""The linear program of several laws at once, each allowed to differ from some others by a limited excess.

Row r is the law of the answer where the truth is r. A pair keeps (epsilon, delta) iff the sum over cells of
(p_above(c) - e^epsilon p_below(c - shift))+ is at most delta; a column for each term makes that linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from topdown.noise.optimal.compact import LinearProgram, Row
from topdown.noise.optimal.highs import FloatSolution
from topdown.noise.optimal.multipliers import Multiplier

_UNIT = 1 << 50  # multipliers are rounded to this many parts: they need not be exact, only used exactly


class KernelConstraint(NamedTuple):
    """A constraint P_above(A) <= e^epsilon P_below(A - shift) + delta for every set A of inner cells."""

    above: int
    below: int
    shift: int


@dataclass(frozen=True)
class CoupledLP:
    """The best family of laws on a window of cells.

    Args:
        costs: of each row, one a cell; the objective adds them up, or takes the largest row's.
        pairs: what is compared.
        growth, delta: of the guarantee; growth is a rational in the place of e^epsilon.
        inner: cells that events range over; all of them, unless the window is padded.
        first: number of the first cell, for multipliers.
        caps: the most that a row's losses may come to; None for no cap.
        losses: of each row, what caps limit.
        largest: minimise the largest row's cost.
    """

    costs: tuple[tuple[Fraction, ...], ...]
    pairs: tuple[KernelConstraint, ...]
    growth: Fraction
    delta: Fraction
    inner: range
    first: int = 0
    caps: tuple[Fraction | None, ...] = ()
    losses: tuple[tuple[Fraction, ...], ...] = ()
    largest: bool = False

    @property
    def n_cells(self) -> int:
        """Cells of the window."""
        return len(self.costs[0])

    @property
    def n_masses(self) -> int:
        """Columns of masses: row by row, cell by cell."""
        return len(self.costs) * self.n_cells

    @cached_property
    def capped(self) -> tuple[int, ...]:
        """The rows with a cap."""
        return tuple(row for row, cap in enumerate(self.caps) if cap is not None)

    @cached_property
    def program(self) -> LinearProgram:
        """Columns: masses, excesses, the largest cost; rows: excesses, their sums, caps, costs of rows."""
        one, n = Fraction(1), self.n_cells
        rows: list[Row] = []
        column = self.n_masses
        sums: list[Row] = []
        for above, below, shift in self.pairs:
            sums.append((tuple((column + k, one) for k in range(len(self.inner))), self.delta))
            for cell in self.inner:
                entries = [(above * n + cell, one), (column, -one)]
                if 0 <= cell - shift < n:
                    entries.append((below * n + cell - shift, -self.growth))
                rows.append((tuple(entries), Fraction(0)))
                column += 1
        for row in self.capped:
            rows_of = tuple((row * n + cell, loss) for cell, loss in enumerate(self.losses[row]) if loss)
            sums.append((rows_of, self.caps[row] or Fraction(0)))
        objective = [Fraction(0)] * (column + self.largest)
        for row, costs in enumerate(self.costs):
            if self.largest:
                entries = [(row * n + cell, cost) for cell, cost in enumerate(costs) if cost]
                sums.append(((*entries, (column, -one)), Fraction(0)))
            else:
                objective[row * n : (row + 1) * n] = costs
        if self.largest:
            objective[column] = one
        whole = [(tuple((row * n + c, one) for c in range(n)), one) for row in range(len(self.costs))]
        return LinearProgram(tuple(objective), tuple(rows + sums), tuple(whole))

    def laws(self, solution: FloatSolution) -> list[list[float]]:
        """Return the masses of each row."""
        n = self.n_cells
        return [[float(x) for x in solution.columns[r * n : (r + 1) * n]] for r in range(len(self.costs))]

    def multipliers(self, solution: FloatSolution) -> list[Multiplier]:
        """Return the solver's multipliers of the pairs, as rationals >= 0."""
        n, found = len(self.inner), []
        for number, (above, below, shift) in enumerate(self.pairs):
            weights = _rounded(solution, number * n, n)
            steps = tuple(
                (self.first + cell, self.first + cell + 1, weight)
                for cell, weight in zip(self.inner, weights, strict=True)
                if weight
            )
            if steps:
                found.append(Multiplier(above, below, shift, steps, max(weights)))
        return found

    def cap_multipliers(self, solution: FloatSolution) -> tuple[Fraction, ...]:
        """Return a multiplier >= 0 of each row's cap; 0 where there is none."""
        weights = _rounded(solution, len(self.pairs) * (len(self.inner) + 1), len(self.capped))
        by_row = dict(zip(self.capped, weights, strict=True))
        return tuple(by_row.get(row, Fraction(0)) for row in range(len(self.costs)))

    def row_weights(self, solution: FloatSolution) -> tuple[Fraction, ...]:
        """Return the weights of the rows that prove the largest cost: >= 0, adding up to one exactly."""
        if not self.largest:
            return (Fraction(1),) * len(self.costs)
        first = len(self.pairs) * (len(self.inner) + 1) + len(self.capped)
        weights = _rounded(solution, first, len(self.costs))
        total = sum(weights)
        return tuple(w / total for w in weights) if total else (Fraction(1, len(weights)),) * len(weights)


def _rounded(solution: FloatSolution, first: int, n: int) -> list[Fraction]:
    return [Fraction(max(0, round(float(v) * _UNIT)), _UNIT) for v in solution.at_most[first : first + n]]
