"""What can be said of an extension before anything is spent: verdicts, sizes of splits, answers that cross base cells.

Rows of a split are open in all its base cells, and fewer rows have fewer answers that cross: the whole tree bounds its
areas, and only where they are too many is each area asked.
"""

from __future__ import annotations

import numpy as np

from topdown.arrays import Ints
from topdown.errors import InternalError
from topdown.formats.plan_documents import Verdict, VerdictKind
from topdown.model import Support, common_refinement
from topdown.plan import PublicContext
from topdown.solve.extend.patterns import Patterns
from topdown.solve.extend.stages import Stage, release_stages
from topdown.solve.implied.level_verdicts import with_soft
from topdown.solve.least_squares import MOST_CROSSING, Partition, n_answers
from topdown.solve.least_squares.structured import check_crossing, nest_answers_by_schema


def check_stages(context: PublicContext, patterns: Patterns) -> None:
    """Refuse an extension of which some split could have too many crossing answers (ConfigError C096)."""
    support, geography = context.support, context.geography
    if support is None:
        raise InternalError("this plan extends no release")
    seen: dict[tuple[object, ...], int] = {}
    for depth, (level, steps) in enumerate(zip(context.plan.levels, release_stages(context), strict=True)):
        key = (level.passes, tuple(m.query for m in level.measurements))
        if key not in seen:
            seen[key] = _most_crossing_answers(support, patterns, steps, patterns.tables[0].cell)
        if seen[key] <= MOST_CROSSING:
            continue
        if depth == 0:
            check_crossing(seen[key], f" of level {level.name!r}")
        above, pointers = patterns.tables[depth - 1], patterns.tables[depth - 1].pointers()
        people, n_queries = above.totals(), len(level.measurements)
        children = np.bincount(
            geography.levels[depth].parent[support.inhabited[depth]], minlength=above.n_nodes
        )
        for node in np.flatnonzero((children > 1) & (people // 2 * n_queries > MOST_CROSSING)).tolist():
            # An answer crosses if two rows have it, and there are no more rows than people.
            found = _most_crossing_answers(
                support, patterns, steps, above.cell[pointers[node] : pointers[node + 1]]
            )
            place = f" of level {level.name!r} below {geography.levels[depth - 1].codes[node]}"
            check_crossing(min(found, int(people[node]) // 2 * n_queries), place)


def _most_crossing_answers(support: Support, patterns: Patterns, steps: tuple[Stage, ...], keys: Ints) -> int:
    """Return the most answers that can cross in one stage of a split with these base cells and patterns."""
    cells = [support.of_base(np.array([key // patterns.n_patterns])) for key in keys]
    key = np.repeat(keys, [len(c) for c in cells])
    cell = np.concatenate([np.zeros(0, dtype=np.int64), *cells])
    opened = patterns.open_in(key, cell)
    key, cell = key[opened], cell[opened]
    supergroup, most = support.of_cell[cell], 0
    for stage in steps:
        rows = np.isin(key, patterns.reserved) | (stage.table is not None)
        most = max(most, crossing_answers(stage, cell[rows], supergroup[rows]))
        if stage.table is not None:
            supergroup = common_refinement(supergroup, stage.labels(cell))[0]
    return most


def crossing_answers(stage: Stage, cell: Ints, supergroup: Ints) -> int:
    """Return how many answers cross of the queries that are sums over what is known then."""
    queries = []
    for (_, query, _), nests in zip(stage.queries, stage.nests, strict=True):
        if nests is not None and len(cell):
            used, label = np.unique(query.labels[cell], return_inverse=True)
            label = label.reshape(-1).astype(np.int64)
            queries.append(Partition(label, np.ones(len(used)), np.zeros((0, 0)), nests))
    return n_answers(nest_answers_by_schema(tuple(queries), supergroup)[1]) if queries else 0


_SPLITS = (
    "every area's table is kept by cell and pattern of open cells, and every cell of a pattern is open in all its "
    "leaves; so a split is a transportation problem, which always has whole solutions, and rounding is a flow a stage"
)


def extension_verdicts(context: PublicContext, patterns: Patterns) -> tuple[Verdict, ...]:
    """Judge every level of an extension, root first (docs/explanation/schema-extension.md).

    Args:
        context: plan, public facts and base table.
        patterns: of the release; `find_patterns` has refused a leaf that cannot be extended (I020).
    """
    reserved = patterns.reserves[0].n_records
    kind: VerdictKind = "always_splits" if reserved else "complete_integral"
    kept = (
        f"; {reserved:,} people of chosen base cells are set aside for lower bounds first, which is sufficient: "
        "another choice might fit the noise a little better"
    )
    said = _SPLITS + (kept if reserved else "")
    names = context.rules.bound_names if reserved else ()
    judged = tuple(
        Verdict(level=level.name, kind=kind, theorems=["section 7.3"], sentence=said, constraints=list(names))
        for level in context.plan.levels
    )
    return with_soft(judged, context.plan.invariants)


def split_sizes(context: PublicContext, patterns: Patterns, depth: int) -> dict[str, int]:
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
