"""Small trees cut into many sections: by the solver, by the writer of releases and by the verifier."""

from pathlib import Path

import numpy as np
import pytest

from topdown.model import Histogram, PackedRows, PackedTable, narrow, sections
from topdown.solve import solve_stage as solve
from topdown.solve import solved_parts as solved
from topdown.verify import public_tree as cuts


def cut_small(monkeypatch: pytest.MonkeyPatch, cut_leaves: int = 3, section_leaves: int = 2) -> None:
    """Cut at the highest level of few leaves, and close sections where they have some."""
    for module in (sections, cuts):
        monkeypatch.setattr(module, "CUT_LEAVES", cut_leaves)
        monkeypatch.setattr(module, "SECTION_LEAVES", section_leaves)


def packed(table: Histogram, ends: list[int]) -> PackedTable:
    """Return a table in parts that end before some leaves, and where it ends."""
    parts, at = [], 0
    for end in [*np.searchsorted(table.node, ends).tolist(), len(table.node)]:
        columns = (column[at:end] for column in (table.node, table.cell, table.count))
        parts.append(PackedRows(*(narrow(column) for column in columns)))
        at = end
    return PackedTable(table.n_nodes, table.n_cells, tuple(parts))


def solve_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve small trees as large ones are: runs of a node of the cut, two or more of them a section."""
    for where, name, size in (
        (solve, "SOLVE_CUT_LEAVES", 5),
        (solve, "RUN_LEAVES", 1),
        (solve, "TASKS_PER_WORKER", 1),
        (solved, "CHECKPOINT_LEAVES", 2),
    ):
        monkeypatch.setattr(where, name, size)


def unsolve(release: Path) -> None:
    """Leave of a release what a measurement leaves."""
    for path in release.rglob("*"):
        name = path.relative_to(release).as_posix()
        if path.is_file() and not name.startswith(("measurements/", "public/", "base/", "plan.json")):
            path.unlink()
