"""Sets of cells: classes of cells that no set tells apart, and sets that are nested or disjoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topdown.arrays import Bools, Ints
from topdown.errors import ConfigError

NO_LIMIT = 2**50  # records; stands for "no upper bound", and sums of it still fit in 64 bits


@dataclass(frozen=True, eq=False)
class CellClasses:
    """Classes of cells, ordered by what the rules say of them.

    Args:
        first: int64 (n_classes,), the first cell of each class.
        of_cell: int64 (n_cells,), class of each cell.
    """

    first: Ints
    of_cell: Ints

    def marked(self, sets: Sequence[Bools]) -> Bools:
        """Return which classes lie in sets of cells that the rules know, bool (n_sets, n_classes)."""
        inside = [cells[self.first] for cells in sets]
        return np.array(inside, dtype=bool).reshape(len(inside), len(self.first))


def group_cells(sets: Sequence[Bools], n_cells: int) -> CellClasses:
    """Put cells that lie in the same sets into one class, classes in lexicographic order.

    Args:
        sets: bool (n_cells,) each.
    """
    return CellClasses(*_equal_rows(np.array(sets, dtype=bool).reshape(-1, n_cells).T))


def distinct_rows(signature: Bools) -> tuple[Bools, Ints]:
    """Return the distinct rows of a bool array in lexicographic order, and which of them each row is."""
    first, of_row = _equal_rows(signature)
    return signature[first], of_row


def binary_digits(numbers: Ints) -> list[Bools]:
    """Return the binary digits of nonnegative numbers, largest first: sets that tell apart what they do, in order."""
    n_digits = max(int(numbers.max(initial=0)).bit_length(), 1)
    return [(numbers >> i & 1).astype(bool) for i in reversed(range(n_digits))]


def equal_numbers(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the first place of each distinct number, the numbers increasing, and which of them each number is.

    As `np.unique`, which takes eight times the memory; numbers that are small for how many there are need no sort.

    Args:
        numbers: int64 (n,), 0 or more.
    """
    end = int(numbers.max(initial=-1)) + 1
    if end > len(numbers):
        _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
        return first, which.reshape(-1).astype(np.int64)
    first = np.full(end, -1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of several the last is kept
    there = first >= 0
    return first[there], (np.cumsum(there) - 1)[numbers]


def _equal_rows(signature: Bools) -> tuple[Ints, Ints]:
    """Return the first row of each class of equal rows, and the class of each row.

    As `np.unique(axis=0)`, which takes seconds where there are a million rows.
    """
    code = np.zeros(len(signature), dtype=np.int64)
    first = np.zeros(0, dtype=np.int64)
    for start in range(0, max(signature.shape[1], 1), 40):
        for column in signature.T[start : start + 40]:
            code = 2 * code + column
        first, code = equal_numbers(code)
    return first, code


@dataclass(frozen=True, eq=False)
class TightBounds:
    """Fewest and most records of each set, int64 (n, n_sets); NO_LIMIT or more for no upper end."""

    least: Ints
    most: Ints


@dataclass(frozen=True, eq=False)
class LaminarFamily:
    """Sets that are nested or disjoint.

    Args:
        within: bool (n_sets, n_sets); within[a, b]: every cell of a is one of b. A set is within itself; of two
            equal sets the first is within the second; an empty one is in no other.
        outer: (n_sets,), the smallest set around each, -1 for none.
        inside_out: sets, each before those around it.
        innermost: (n_cells,), the smallest set that holds each cell, -1 for none.
    """

    within: Bools
    outer: Ints
    inside_out: Ints
    innermost: Ints

    def open_directly(self, is_open: Bools) -> Bools:
        """Tell which sets have an open cell that lies in no smaller set; the last column: is one in no set at all.

        Args:
            is_open: bool (n, n_cells).

        Returns:
            bool (n, n_sets + 1).
        """
        out = np.empty((len(is_open), len(self.outer) + 1), dtype=bool)
        for s in (*range(len(self.outer)), -1):
            out[:, s] = is_open[:, self.innermost == s].any(axis=1)
        return out

    def add_up(self, low: Ints, high: Ints, direct: Bools, no_limit: int = NO_LIMIT) -> TightBounds:
        """Return what each set can hold by its own bounds and those of the sets inside it.

        Args:
            low, high: int64 (n, n_sets). direct: as from `open_directly`.
            no_limit: what stands for no upper end, in `high` and in what is returned.
        """
        least, most = np.zeros_like(low), np.zeros(low.shape, dtype=np.int64)
        for s in self.inside_out:
            inner = self.outer == s
            least[:, s] = np.maximum(low[:, s], least[:, inner].sum(axis=1))
            most[:, s] = np.minimum(high[:, s], _capped_sum(most[:, inner], direct[:, s], no_limit))
        return TightBounds(least, most)

    def come_down(self, up: TightBounds, direct: Bools, no_limit: int = NO_LIMIT) -> TightBounds:
        """Return what is left for each set once the sets around it keep their bounds too.

        Args:
            up, direct, no_limit: as from and for `add_up`.
        """
        least, most = up.least.copy(), up.most.copy()
        for s in self.inside_out[::-1]:
            around = self.outer[s]
            if around >= 0:
                beside = self.outer == around
                beside[s] = False
                others = _capped_sum(up.most[:, beside], direct[:, around], no_limit)
                spare = most[:, around] - up.least[:, beside].sum(axis=1)
                least[:, s] = np.maximum(least[:, s], least[:, around] - others)
                most[:, s] = np.minimum(most[:, s], spare)
        return TightBounds(least, most)

    def everybody(self, up: TightBounds, direct: Bools) -> tuple[Ints, Ints]:
        """Return the fewest and the most records of all cells together, int64 (n,)."""
        outermost = self.outer < 0
        most = _capped_sum(up.most[:, outermost], direct[:, -1], NO_LIMIT)
        return up.least[:, outermost].sum(axis=1), most


def _capped_sum(most: Ints, boundless: Bools, no_limit: int) -> Ints:
    """Add up columns; without a limit where one is, or where `boundless` says so."""
    endless = (most >= no_limit).any(axis=1) | boundless
    return np.where(endless, no_limit, np.where(most >= no_limit, 0, most).sum(axis=1))


def laminar_family(sets: Bools, names: Sequence[str] = ()) -> LaminarFamily:
    """Order sets by what they hold.

    Args:
        sets: bool (n_sets, n_cells). names: of the bounds on them.

    Raises:
        ConfigError: C073 two sets share some cells, and neither holds the other.
    """
    size, shared = sets.sum(axis=1), _shared(sets)
    crossed = np.argwhere(np.tril(crossing_pairs(sets)))
    if len(crossed):
        b, a = crossed[0]
        raise ConfigError(
            f"bounds {names[a]!r} and {names[b]!r} share some cells, but neither's hold the other's",
            code="C073",
            fix="make the cells of bounds nested or disjoint",
        )
    inside_out = np.argsort(size, kind="stable")
    rank = np.argsort(inside_out)
    within = (shared == size[:, None]) & (size[:, None] > 0) & (rank[:, None] <= rank)
    np.fill_diagonal(within, val=True)
    outer = np.full(len(sets), -1, dtype=np.int64)
    innermost = np.full(sets.shape[1], -1, dtype=np.int64)
    for b in inside_out[::-1]:
        outer[within[:, b] & (np.arange(len(sets)) != b)] = b
        innermost[sets[b]] = b
    return LaminarFamily(within, outer, inside_out, innermost)


def crossing_pairs(sets: Bools) -> Bools:
    """Mark the pairs of sets, bool (n_sets, n_cells), that share some cells without one holding the other."""
    size, shared = sets.sum(axis=1), _shared(sets)
    return np.asarray((shared > 0) & (shared < np.minimum.outer(size, size)))


def first_crossing(labels: Ints) -> tuple[int, int] | None:
    """Find two tables that cross: answers of both share some cells, and neither's hold the other's. None if none do.

    Answers are placed from large to small, those of one size at once. While all so far are nested or disjoint, one more
    is too exactly if its cells have the same smallest answer around them.

    Args:
        labels: int64 (n_tables, n_cells), answer of each cell, 0 or more.

    Cost: that of sorting all labels.
    """
    n_tables, n_cells = labels.shape
    keys = labels + np.arange(n_tables)[:, None] * (int(labels.max(initial=0)) + 1)
    begins, answer = equal_numbers(keys.reshape(-1))  # answers of all tables are numbered
    size = np.bincount(answer)[answer]
    order = np.lexsort((answer, -size))
    innermost = np.full(n_cells, -1, dtype=np.int64)
    for entries in np.split(order, np.flatnonzero(np.diff(size[order])) + 1):
        cells, mine = entries % n_cells, answer[entries]
        head = np.searchsorted(mine, mine)  # the first entry of the same answer
        for _ in range(2):  # beside larger answers, then beside those of the same size
            around = innermost[cells]
            apart = np.flatnonzero(around != around[head])
            if len(apart):
                i = int(apart[0])
                own = cells[mine == mine[i]]
                tables = [int(begins[a]) // n_cells for a in (around[i], around[head[i]]) if a >= 0]
                there = [labels[t, own] for t in tables]
                other = next(t for t, of in zip(tables, there, strict=True) if (of != of[0]).any())
                return min(other, int(entries[i]) // n_cells), max(other, int(entries[i]) // n_cells)
            innermost[cells] = mine
    return None


def _shared(sets: Bools) -> Ints:
    """Return how many cells each pair of sets shares."""
    marks = sets.astype(np.float64)  # whole numbers far below 2^53, many times as fast as int64
    return np.asarray(marks @ marks.T).astype(np.int64)
