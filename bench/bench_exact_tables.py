"""What comparing the exact tables of one level costs, beside a look at every pair of them.

Run: `python -m bench.bench_exact_tables`, some 15 CPU seconds. Tables of 2,016 cells, each finer than the one before;
both ways run in one process, one after the other, and the ratio of their CPU seconds is printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from topdown.model import ConstraintSystem, ExactTable, arrange_exact_tables

N_CELLS = 2_016
LEVELS = ("land", "block")


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare_pairs(tables: Sequence[ExactTable]) -> None:
    """Look at every pair of tables for answers that share some cells, without one holding the other."""
    for i, b in enumerate(tables):
        for a in tables[:i]:
            shared, n = np.unique(a.labels * N_CELLS + b.labels, return_counts=True)
            in_a, in_b = np.bincount(a.labels)[shared // N_CELLS], np.bincount(b.labels)[shared % N_CELLS]
            if ((n < in_a) & (n < in_b)).any():
                raise ValueError("tables cross")


def main() -> None:
    """Print CPU seconds and their ratio for ever more tables."""
    cells, none = np.arange(N_CELLS), np.zeros((1, 0), dtype=np.int64)
    is_open = np.ones((1, N_CELLS), dtype=bool)
    rules = ConstraintSystem(cells, (is_open, is_open), (), (none, none), (), none)
    for n_tables in (25, 50, 100, 200):
        tables = [ExactTable(f"t{k}", 0, np.minimum(cells, 9 * k)) for k in range(1, n_tables + 1)]
        arranged = seconds(lambda tables=tables: arrange_exact_tables(tables, rules, LEVELS))
        pairs = seconds(lambda tables=tables: compare_pairs(tables))
        sys.stdout.write(
            f"{n_tables:4} tables: arranged {arranged:.3f} s, pairs {pairs:.3f} s, ratio {pairs / arranged:.1f}\n"
        )


if __name__ == "__main__":
    main()
