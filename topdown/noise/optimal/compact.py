"""The linear program of the best noise on a line of cells, with one column for what each event exceeds.

A law p on cells keeps (epsilon, delta) at a shift s iff the sum over i of (p_i - e^epsilon p_(i-s))+ is at most delta.
So a column t_(s,i) >= p_i - e^epsilon p_(i-s), t >= 0, for each cell and shift, and one row sum_i t_(s,i) <= delta for
each shift say exactly what one row for every event would say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

Row = tuple[tuple[tuple[int, Fraction], ...], Fraction]
Number = TypeVar("Number", Fraction, float)


@dataclass(frozen=True)
class LinearProgram:
    """Minimise costs.x over x >= 0, where rows are ((column, coefficient), ...) and a right side.

    Args:
        costs: one a column.
        at_most: rows with row.x <= right side.
        equal: rows with row.x == right side.
    """

    costs: tuple[Fraction, ...]
    at_most: tuple[Row, ...]
    equal: tuple[Row, ...]


@dataclass(frozen=True)
class CompactLP:
    """The best law on a window of cells: least expected cost such that every shift keeps every limit.

    Padded cells may hold mass, but events do not range over them: that relaxes the problem on all cells, if none
    beyond costs less. Without padding the program is the problem of laws that stay in the window.

    Args:
        costs: cost of each cell, from the left; padded cells included.
        n_shifts: shifts 1 .. n_shifts, in cells, are protected in both directions.
        limits: (factor, delta) pairs, kept all at once; factor is a rational in the place of e^epsilon.
        pad: padded cells at either end.
        mirror: look for laws that are their own mirror image only; loses nothing where the costs are.
        falling: masses may not rise away from the middle; needs mirror.
        outside: cost of one more place for mass, past every row; None for no such place.
    """

    costs: tuple[Fraction, ...]
    n_shifts: int
    limits: tuple[tuple[Fraction, Fraction], ...]
    pad: int = 0
    mirror: bool = False
    falling: bool = False
    outside: Fraction | None = None

    def __post_init__(self) -> None:
        if self.n_shifts < 1 or self.pad < 0 or len(self.costs) <= 2 * self.pad or not self.limits:
            raise ValueError("A program needs a shift, a limit, and a cell inside its padding.")
        if self.mirror and self.costs != self.costs[::-1]:
            raise ValueError("Costs that are not their own mirror image may have no mirrored best law.")
        if self.falling and not self.mirror:
            raise ValueError("Masses fall away from the middle of a mirrored law only.")

    @property
    def n_cells(self) -> int:
        """Cells, padded ones included."""
        return len(self.costs)

    @property
    def inner(self) -> range:
        """The cells that events range over."""
        return range(self.pad, self.n_cells - self.pad)

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        """The shifts with rows: a mirrored law treats s and -s alike."""
        up = tuple(range(1, self.n_shifts + 1))
        return up if self.mirror else (*up, *(-s for s in up))

    @property
    def n_masses(self) -> int:
        """Columns of masses: one a cell, or one for each cell and its mirror image."""
        return (self.n_cells + 1) // 2 if self.mirror else self.n_cells

    def column(self, cell: int) -> int | None:
        """Return the column of a cell's mass; None outside the window."""
        if not 0 <= cell < self.n_cells:
            return None
        return min(cell, self.n_cells - 1 - cell) if self.mirror else cell

    @cached_property
    def excesses(self) -> tuple[tuple[int, int, int], ...]:
        """(limit, shift, cell) of each column t, in their order; at_most[k] of the program bounds excesses[k]."""
        return tuple(
            (number, shift, cell)
            for number in range(len(self.limits))
            for shift in self.shifts
            for cell in self.inner
        )

    @cached_property
    def program(self) -> LinearProgram:
        """The program: columns are masses, excesses, outside; rows bound excesses, then their sums, then falling."""
        zero, one, minus = Fraction(0), Fraction(1), Fraction(-1)
        against = [-factor for factor, _ in self.limits]
        n_inner, first = len(self.inner), self.n_masses
        rows: list[Row] = []
        for k, (number, shift, cell) in enumerate(self.excesses):
            entries = [(self.column(cell), one), (self.column(cell - shift), against[number])]
            rows.append((_joined([*entries, (first + k, minus)]), zero))
        sums = [(number, shift) for number in range(len(self.limits)) for shift in self.shifts]
        for k, (number, _) in enumerate(sums):
            start = first + k * n_inner
            rows.append((tuple((c, one) for c in range(start, start + n_inner)), self.limits[number][1]))
        if self.falling:
            rows += [(((c, one), (c + 1, -one)), Fraction(0)) for c in range(self.n_masses - 1)]
        masses = [Fraction(0)] * self.n_masses
        times = [Fraction(0)] * self.n_masses
        for cell, cost in enumerate(self.costs):
            column = min(cell, self.n_cells - 1 - cell) if self.mirror else cell
            masses[column] += cost
            times[column] += 1
        total = list(enumerate(times))
        all_costs = [*masses, *[Fraction(0)] * len(self.excesses)]
        if self.outside is not None:
            total.append((len(all_costs), one))
            all_costs.append(self.outside)
        return LinearProgram(tuple(all_costs), tuple(rows), ((tuple(total), one),))

    def masses(self, solution: Sequence[Number]) -> tuple[Number, ...]:
        """Return the mass of each cell, from the columns of a solution."""
        columns = (self.column(cell) for cell in range(self.n_cells))
        return tuple(solution[c] for c in columns if c is not None)


def _joined(entries: Sequence[tuple[int | None, Fraction]]) -> tuple[tuple[int, Fraction], ...]:
    """Add up the coefficients of one column; a cell outside the window has none."""
    found: dict[int, Fraction] = {}
    for column, value in entries:
        if column is not None:
            found[column] = found[column] + value if column in found else value
    return tuple(found.items())
