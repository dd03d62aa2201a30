"""What can be promised about an extension, and how large its splits are, before anything is spent."""

from __future__ import annotations

import numpy as np

from topdown.errors import InternalError
from topdown.plan.prepare import Context
from topdown.solve.extend.patterns import Patterns
from topdown.solve.groups import Ints
from topdown.solve.implied.classify import Kind, Verdict, with_soft

_SPLITS = (
    "every area's table is kept by cell and pattern of open cells, and every cell of a pattern is open in all its "
    "leaves; so a split is a transportation problem, which always has whole solutions, and rounding is a flow a stage"
)


def extension_verdicts(context: Context, patterns: Patterns) -> tuple[Verdict, ...]:
    """Judge every level of an extension, root first (docs/explanation/schema-extension.md).

    Args:
        context: plan, public facts and base table.
        patterns: of the release; `find_patterns` has refused a leaf that cannot be extended (I020).
    """
    reserved = patterns.reserves[0].n_records
    kind: Kind = "always_splits" if reserved else "complete_integral"
    kept = (
        f"; {reserved:,} people of chosen base cells are set aside for lower bounds first, which is sufficient: "
        "another choice might fit the noise a little better"
    )
    said = _SPLITS + (kept if reserved else "")
    names = tuple(bound.name for bound in context.plan.invariants.at_least) if reserved else ()
    judged = tuple(
        Verdict(level.name, kind, ("section 7.3",), "nothing", said, names) for level in context.plan.levels
    )
    return with_soft(judged, context.plan.invariants)


def split_sizes(context: Context, patterns: Patterns, depth: int) -> dict[str, int]:
    """Count the splits of a level and bound the largest, as `topdown plan` prints them.

    A split has one unknown for each child and each row (cell, pattern) that the parent can have records in: at most
    the rows open there, and at most its records.
    """
    support = context.support
    if support is None:
        raise InternalError("this plan extends no release")
    n_base, n_classes = support.levels[0].n_cells, patterns.n_classes
    alive = np.flatnonzero(patterns.class_of_cell >= 0)
    cells = np.bincount(
        support.of_cell[alive] * n_classes + patterns.class_of_cell[alive], minlength=n_base * n_classes
    ).reshape(n_base, n_classes)
    table = patterns.tables[max(depth - 1, 0)]
    base, pattern = np.divmod(table.cell, patterns.n_patterns)
    rows_of_key = (cells[base] * patterns.open[patterns.family[base], pattern]).sum(axis=1)
    rows: Ints = np.zeros(table.n_nodes, dtype=np.int64)
    np.add.at(rows, table.node, rows_of_key)
    if depth == 0:
        most = int(rows.sum())
        return {"n_solves": int(most > 0), "most_children": 1, "most_unknowns": most}
    parents = context.geography.levels[depth].parent[support.inhabited[depth]]
    children = np.bincount(parents, minlength=table.n_nodes)
    unknowns = children * np.minimum(rows, table.totals())
    return {
        "n_solves": int((children > 0).sum()),
        "most_children": int(children.max()),
        "most_unknowns": int(unknowns.max()),
    }
