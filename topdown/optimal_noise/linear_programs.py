"""The linear programs of private noise: one law on a line of cells, several laws at once, and their certified bounds.

Each event has one column for what it exceeds; laws may differ from some others by a limited excess. Any multipliers
>= 0 of privacy constraints give a lower bound, so no solver has to be trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from topdown.errors import InternalError

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
    """

    costs: tuple[Fraction, ...]
    n_shifts: int
    limits: tuple[tuple[Fraction, Fraction], ...]
    pad: int = 0
    mirror: bool = False

    def __post_init__(self) -> None:
        if self.n_shifts < 1 or self.pad < 0 or len(self.costs) <= 2 * self.pad or not self.limits:
            raise ValueError("A program needs a shift, a limit, and a cell inside its padding.")
        if self.mirror and self.costs != self.costs[::-1]:
            raise ValueError("Costs that are not their own mirror image may have no mirrored best law.")

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
        return tuple(product(range(len(self.limits)), self.shifts, self.inner))

    @cached_property
    def program(self) -> LinearProgram:
        """The program: columns are masses and excesses; rows bound excesses, then their sums."""
        zero, one, minus = Fraction(0), Fraction(1), Fraction(-1)
        against = [-factor for factor, _ in self.limits]
        n_inner, first = len(self.inner), self.n_masses
        rows: list[Row] = []
        for k, (number, shift, cell) in enumerate(self.excesses):
            entries = [(self.column(cell), one), (self.column(cell - shift), against[number])]
            found: dict[int, Fraction] = {}
            for column, value in [*entries, (first + k, minus)]:
                if column is not None:
                    found[column] = found[column] + value if column in found else value
            rows.append((tuple(found.items()), zero))
        for k, (number, _) in enumerate(product(range(len(self.limits)), self.shifts)):
            start = first + k * n_inner
            rows.append((tuple((c, one) for c in range(start, start + n_inner)), self.limits[number][1]))
        masses = [Fraction(0)] * self.n_masses
        times = [Fraction(0)] * self.n_masses
        for cell, cost in enumerate(self.costs):
            place = min(cell, self.n_cells - 1 - cell) if self.mirror else cell
            masses[place] += cost
            times[place] += 1
        all_costs = (*masses, *[Fraction(0)] * len(self.excesses))
        return LinearProgram(all_costs, tuple(rows), ((tuple(enumerate(times)), one),))

    def masses(self, solution: Sequence[Number]) -> tuple[Number, ...]:
        """Return the mass of each cell, from the columns of a solution."""
        columns = (self.column(cell) for cell in range(self.n_cells))
        return tuple(solution[c] for c in columns if c is not None)


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


class NoSolutionError(InternalError):
    """The solver found no optimum: the program is infeasible or unbounded, or it gave up."""

    default_code = "X050"


@dataclass(frozen=True)
class FloatSolution:
    """What the solver says.

    Args:
        columns: x.
        at_most: multipliers of the rows `at_most`, >= 0.
        equal: multipliers of the rows `equal`.
        value: costs.x.
    """

    columns: NDArray[np.float64]
    at_most: NDArray[np.float64]
    equal: NDArray[np.float64]
    value: float


_TOLERANCE = 1e-10
_LARGEST_SCALE = 1e6
_SECONDS = 600.0


def solve_linear_program(program: LinearProgram) -> FloatSolution:
    """Solve the program with HiGHS (dual simplex) in floats.

    The columns are computed larger by one over the smallest right side above 0, at most 10^6 times, so that small right
    sides survive the solver's tolerances.

    Args:
        program: coefficients within the range of floats.

    Raises: NoSolutionError (X050).
    """
    from scipy.optimize import linprog

    smallest = min((b for _, b in (*program.at_most, *program.equal) if b.numerator > 0), default=Fraction(1))
    by = min(max(1.0, float(1 / smallest)), _LARGEST_SCALE)
    upper, upper_right = _matrix(program.at_most, len(program.costs))
    exact, exact_right = _matrix(program.equal, len(program.costs))
    found: Any = linprog(
        np.array([float(c) for c in program.costs]),
        A_ub=upper,
        b_ub=upper_right * by,
        A_eq=exact,
        b_eq=exact_right * by,
        bounds=(0, None),
        method="highs-ds",
        options={
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
            "time_limit": _SECONDS,
        },
    )
    if found.status != 0:
        raise NoSolutionError(
            f"the linear program has no optimum that the solver found ({found.message})",
            fix="a wider window, a larger delta or a smaller sensitivity makes it easier",
        )
    return FloatSolution(
        np.maximum(found.x, 0.0) / by,
        np.maximum(-found.ineqlin.marginals, 0.0),
        np.asarray(found.eqlin.marginals),
        float(found.fun) / by,
    )


def _matrix(rows: tuple[Row, ...], n_columns: int) -> tuple[Any, NDArray[np.float64]]:
    """Return the rows as a sparse float matrix, and their right sides."""
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *(len(entries) for entries, _ in rows)])
    columns = np.array([c for entries, _ in rows for c, _ in entries], dtype=np.int64)
    values = np.array([float(v) for entries, _ in rows for _, v in entries])
    right = np.array([float(b) for _, b in rows])
    return csr_array((values, columns, starts), shape=(len(rows), n_columns)), right
