"""Whether the answers that cross base cells are few enough in every split of an extension, before there is any noise.

Rows of a split are among those that are open in all its base cells, and with fewer rows fewer answers cross. So the
rows of the whole tree bound those of every area; only where they are too many is each area asked. Queries that nest on
some rows only may be taken in another order there: what that adds is known in the split alone, and refused there.
"""

from __future__ import annotations

import numpy as np

from topdown.errors import InternalError
from topdown.model.labels import join, refines
from topdown.model.support import Support
from topdown.plan.prepare import Context
from topdown.solve.extend.patterns import Patterns
from topdown.solve.extend.stages import Stage, stages
from topdown.solve.groups import Ints
from topdown.solve.least_squares.structured import MOST_CROSSING, Partition, check_crossing, sort_out


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
        for node in np.flatnonzero((children > 1) & (people // 2 * n_queries > MOST_CROSSING)):
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
        if stage.table is None:
            rows = np.isin(key, patterns.reserved)
            most = max(most, _crossing(stage, cell[rows], supergroup[rows], None))
        else:
            public = join(supergroup, stage.labels(cell))[0]
            most = max(most, _crossing(stage, cell, supergroup, public))
            supergroup = public
    return most


def _crossing(stage: Stage, cell: Ints, supergroup: Ints, public: Ints | None) -> int:
    if not len(cell):
        return 0
    queries = []
    for _, query, _ in stage.queries:
        label = query.labels[cell].astype(np.int64)
        if public is not None and not refines(public, label):
            if not refines(label, public):
                continue  # left to a later stage
            label = public
        used, label = np.unique(label, return_inverse=True)
        queries.append(Partition(label.reshape(-1).astype(np.int64), np.ones(len(used)), np.zeros((0, 0))))
    return sum(len(weight) for _, weight in sort_out(tuple(queries), supergroup)[1])
