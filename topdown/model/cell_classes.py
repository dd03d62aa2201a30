"""Cells that no rule tells apart: the one place where they are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topdown.model.constraint_table import Ints, Marks


@dataclass(frozen=True, eq=False)
class CellClasses:
    """Classes of cells, ordered by what the rules say of them.

    Args:
        first: int64 (n_classes,), the first cell of each class.
        of_cell: int64 (n_cells,), class of each cell.
    """

    first: Ints
    of_cell: Ints

    def marked(self, sets: Sequence[Marks]) -> Marks:
        """Return which classes lie in sets of cells that the rules know, bool (n_sets, n_classes)."""
        inside = [cells[self.first] for cells in sets]
        return np.array(inside, dtype=bool).reshape(len(inside), len(self.first))


def tell_apart(sets: Sequence[Marks], n_cells: int) -> CellClasses:
    """Put cells that lie in the same sets into one class, classes in lexicographic order.

    Args:
        sets: bool (n_cells,) each.
    """
    return CellClasses(*_classes(np.array(sets, dtype=bool).reshape(-1, n_cells).T))


def distinct_rows(signature: Marks) -> tuple[Marks, Ints]:
    """Return the distinct rows of a bool array in lexicographic order, and which of them each row is."""
    first, of_row = _classes(signature)
    return signature[first], of_row


def digits(numbers: Ints) -> list[Marks]:
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


def _classes(signature: Marks) -> tuple[Ints, Ints]:
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
