"""Whether the answers that cross base cells are few enough in every split of an extension, before there is any noise.

Rows of a split are open in all its base cells, and fewer rows have fewer answers that cross: the whole tree bounds its
areas, and only where they are too many is each area asked. For queries that some rows allow see `structured.foreseen`.
"""

from __future__ import annotations

import numpy as np

from topdown.errors import InternalError
from topdown.model.labels import join
from topdown.model.support import Support
from topdown.plan.prepare import Context
from topdown.solve.extend.patterns import Patterns
from topdown.solve.extend.stages import Stage, stages
from topdown.solve.groups import Ints
from topdown.solve.least_squares.structured import (
    MOST_CROSSING,
    Partition,
    check_crossing,
    n_answers,
    sort_by_schema,
)


def check_stages(context: Context, patterns: Patterns) -> None:
    """Refuse an extension of which some split could have too many crossing answers (ConfigError C096)."""
    support, geography = context.support, context.geography
    if support is None:
        raise InternalError("this plan extends no release")
    seen: dict[tuple[object, ...], int] = {}
    for depth, level in enumerate(context.plan.levels):
        steps = stages(support, level)
        key = (level.passes, tuple(m.query for m in level.measurements))
        if key not in seen:
            seen[key] = _most_crossing(support, patterns, steps, patterns.tables[0].cell)
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
            found = _most_crossing(support, patterns, steps, above.cell[pointers[node] : pointers[node + 1]])
            place = f" of level {level.name!r} below {geography.levels[depth - 1].codes[node]}"
            check_crossing(min(found, int(people[node]) // 2 * n_queries), place)


def _most_crossing(support: Support, patterns: Patterns, steps: tuple[Stage, ...], keys: Ints) -> int:
    """Return the most answers that can cross in one stage of a split with these base cells and patterns."""
    cells = [support.of_base(np.array([key // patterns.n_patterns])) for key in keys]
    key = np.repeat(keys, [len(c) for c in cells])
    cell = np.concatenate([np.zeros(0, dtype=np.int64), *cells])
    opened = patterns.open_in(key, cell)
    key, cell = key[opened], cell[opened]
    supergroup, most = support.of_cell[cell], 0
    for stage in steps:
        rows = np.isin(key, patterns.reserved) | (stage.table is not None)
        most = max(most, _crossing(stage, cell[rows], supergroup[rows]))
        if stage.table is not None:
            supergroup = join(supergroup, stage.labels(cell))[0]
    return most


def _crossing(stage: Stage, cell: Ints, supergroup: Ints) -> int:
    """Return how many answers cross of the queries that are sums over what is known then."""
    queries = []
    for (_, query, _), nests in zip(stage.queries, stage.nests, strict=True):
        if nests is not None and len(cell):
            used, label = np.unique(query.labels[cell], return_inverse=True)
            label = label.reshape(-1).astype(np.int64)
            queries.append(Partition(label, np.ones(len(used)), np.zeros((0, 0)), nests))
    return n_answers(sort_by_schema(tuple(queries), supergroup)[1]) if queries else 0
