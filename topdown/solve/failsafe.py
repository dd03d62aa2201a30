"""When a node's table cannot be split: the least change after which it can (Census TopDown, section 7).

A minimum-cost flow sends every record of the node through its kind of cell to a leaf's place for it. Records may
change cell at a cost of 2, the L1 distance: first only in the attributes that constraints speak of, so that every
marginal on the others stays; if that is not enough, in any attribute. The total and the answers of exact tables at
the node's level and above never change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.model.constraint import Selection
from topdown.plan.prepare import Context
from topdown.solve.backends import ortools_flow
from topdown.solve.flow import Network
from topdown.solve.groups import Ints
from topdown.solve.polytopes import Polytopes
from topdown.solve.region_network import Arcs


@dataclass(frozen=True, eq=False)
class Mended:
    """The closest table that can be split.

    Args:
        cells, counts: int64, the table's nonzero cells.
        distance: L1 distance to the table before, in records.
        marginals_kept: whether all marginals on attributes that no constraint speaks of are as before.
    """

    cells: Ints
    counts: Ints
    distance: int
    marginals_kept: bool


def mend(
    context: Context, polytopes: Polytopes, depth: int, children: Ints, cells: Ints, counts: Ints
) -> Mended | None:
    """Return the closest table that splits over the children, or None if none has the same total.

    Args:
        context: plan and public facts. polytopes: of the release.
        depth: level of the children. children: their indices.
        cells, counts: the parent's table.
    """
    arcs = tuple(polytopes.arcs(depth, int(child)) for child in children)
    totals = child_totals(polytopes, depth, children)
    reachable = np.flatnonzero(polytopes.kinds.of_cell >= 0)
    exact = _exact_answers(context, depth, reachable)
    for kept in (True, False):
        keys = [*exact, _rest(context, reachable)] if kept else exact
        rest = np.unique(np.stack([np.zeros_like(reachable), *keys]), axis=1, return_inverse=True)[1].reshape(
            -1
        )
        near = np.isin(rest, rest[np.isin(reachable, cells)])
        found = _least_change(
            polytopes.kinds.of_cell, arcs, totals, reachable[near], rest[near], cells, counts
        )
        if found is not None:
            new, distance = found
            return Mended(reachable[near][new > 0], new[new > 0], distance, kept)
    return None


def splits(polytopes: Polytopes, depth: int, children: Ints, cells: Ints, counts: Ints) -> bool:
    """Tell whether a table splits over the children, as a maximum flow of its kinds."""
    arcs = tuple(polytopes.arcs(depth, int(child)) for child in children)
    totals = child_totals(polytopes, depth, children)
    kinds = polytopes.kinds.of_cell
    if (kinds[cells] < 0).any():
        return False
    alone = np.arange(len(cells))
    return _least_change(kinds, arcs, totals, cells, alone, cells, counts) is not None


def child_totals(polytopes: Polytopes, depth: int, children: Ints) -> Ints:
    """Return the children's exact totals, -1 where there is none."""
    return np.asarray(polytopes.totals_at(depth)[children].max(axis=1, initial=-1))


def _exact_answers(context: Context, depth: int, cells: Ints) -> list[Ints]:
    """Return the answers of cells in every exact table above a level; records may only change cell within them."""
    plan, geography = context.plan, context.geography
    above = [plan.query(e.query) for e in plan.invariants.exact if geography.index(e.level) < depth]
    return [query.labels[cells].astype(np.int64) for query in above if query.factors]


def _rest(context: Context, cells: Ints) -> Ints:
    """Return a number for each cell's values of the attributes that no constraint speaks of."""
    schema, rules = context.plan.schema, context.plan.invariants
    selections: list[Selection] = [b.cells for b in rules.at_least] + [b.cells for b in rules.at_most]
    selections += [z.cells for z in rules.none_where_zero]
    spoken = {attribute for cells_of in selections for attribute, _ in cells_of}
    spoken |= {f.attribute for e in rules.exact for f in context.plan.query(e.query).factors}
    number = np.zeros(len(cells), dtype=np.int64)
    for attribute, values in zip(schema.attributes, schema.coordinates(cells), strict=True):
        if attribute.name not in spoken:
            number = number * len(attribute.labels) + values
    return number


def _least_change(
    kind_of_cell: Ints,
    arcs: tuple[Arcs, ...],
    totals: Ints,
    candidates: Ints,
    rest: Ints,
    cells: Ints,
    counts: Ints,
) -> tuple[Ints, int] | None:
    """Move as few records as possible between candidates of equal `rest` so that the table splits.

    Args:
        kind_of_cell: int64 (n_cells,). arcs: of the children.
        totals: int64 (n_children,), exact totals; -1 where there is none.
        candidates, rest: cells that may hold records. cells, counts: the table.

    Returns:
        (counts of the candidates, L1 distance), or None if no such table splits.
    """
    n, everybody = len(candidates), int(counts.sum())
    _, group = np.unique(rest, return_inverse=True)
    n_groups, n_kinds = int(group.max(initial=-1)) + 1, int(kind_of_cell.max(initial=-1)) + 1
    held = np.zeros(n, dtype=np.int64)
    place = np.searchsorted(candidates, cells)
    inside = place < n
    inside[inside] &= candidates[place[inside]] == cells[inside]
    if not inside.all():
        return None
    held[place] = counts
    cell, hub, kind = np.arange(n), n + group.reshape(-1), n + n_groups + np.arange(n_kinds)
    start = n + n_groups + n_kinds
    parts: list[tuple[Ints, Ints, Ints | int, Ints | int, int]] = [
        (cell, kind[kind_of_cell[candidates]], 0, everybody, 0)
    ]
    parts += [(cell[held > 0], hub[held > 0], 0, everybody, 1), (hub, cell, 0, everybody, 1)]
    sinks = []
    for one in arcs:
        sinks.append(start)
        node = start + np.arange(one.n_nodes)
        start += one.n_nodes
        # A child's network runs from everybody to the kinds; here the kinds are where records come from.
        parts.append((node[one.heads], node[one.tails], one.low, np.minimum(one.high, everybody), 0))
        used = np.intersect1d(one.heads, 1 + np.arange(n_kinds))
        parts.append((kind[used - 1], node[used], 0, everybody, 0))
    last = start
    known, sink = totals >= 0, np.array(sinks, dtype=np.int64)
    parts.append((sink[~known], np.full(int((~known).sum()), last), 0, everybody, 0))
    columns = [
        np.concatenate([np.broadcast_to(part[i], part[0].shape).astype(np.int64) for part in parts])
        for i in range(5)
    ]
    tails, heads, low, high, cost = columns
    if (high < low).any():
        return None
    supplies = np.zeros(last + 1, dtype=np.int64)
    supplies[:n] = held
    supplies[sink[known]] -= totals[known]
    supplies[last] = int(totals[known].sum()) - everybody
    if supplies[last] > 0 or (known.all() and supplies[last] < 0):
        return None
    np.subtract.at(supplies, tails, low)
    np.add.at(supplies, heads, low)
    flows = ortools_flow.solve(Network(tails, heads, high - low, cost, supplies, np.zeros(0, dtype=np.int64)))
    if flows is None:
        return None
    return flows[:n], int((flows * cost).sum())
