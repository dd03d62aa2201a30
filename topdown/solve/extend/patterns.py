"""Which leaves are alike for whom: the flow variables that make an extension's constraints complete.

At a leaf with base count B(c) the people of base cell c may be in c's cells that are open there. Leaves whose
open cells of c are the same share a *pattern* p; a node's table is kept by (cell, pattern), which are the flows
F of Census TopDown, section 7.3. Then every split is a transportation problem for each (c, p) apart: all its
cells are open in all its leaves, so every whole table that adds up to B(c, p) can be split further, always.

A lower bound is met by people who can be nowhere else, or by a *reserve*: that many people of (c, p) are put
into one of the bound's classes before anything else, see `find_reserves`.

Reserves are as few as the bounds of a leaf need, by an exact flow. Bounds are nested or disjoint, so they form a
forest. What a bound asks for beyond the bounds inside it is its own *demand*: people who may be in any of its
classes. Every demand can be met at once, each by its own people, if and only if the leaf's base table has an
extension: going inside out, an extension holds enough people in each bound to meet its demand with those that the
bounds inside have left over. People meet a demand at no cost where all classes open to them lie in the bound;
the others are reserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.errors import ConfigError, InfeasibleError
from topdown.model import Histogram, LaminarFamily, distinct_rows, laminar_family
from topdown.plan import PublicContext
from topdown.solve import scipy_programs as bipartite_flow
from topdown.solve.flows import Network, minimum_cost_flow


def own_demands(order: LaminarFamily, need: Ints) -> Ints:
    """Return what each bound asks for beyond the bounds inside it.

    Args:
        need: persons, (n_leaves, n_bounds); a negative number counts as none.
    """
    least = np.maximum(need, 0)
    own = np.zeros_like(least)
    for b in order.inside_out:
        inside = least[:, order.outer == b].sum(axis=1)
        least[:, b] = np.maximum(least[:, b], inside)
        own[:, b] = least[:, b] - inside
    return own


def find_reserves(
    context: PublicContext, leaves: Histogram, here: Bools, member: Bools
) -> tuple[Ints, Ints, Ints]:
    """Return entries of the leaf table, classes and numbers of people to reserve there.

    Args:
        context: public facts and lower bounds.
        leaves: base table of the leaves.
        here: bool (n_entries, n_classes), classes open to the people of each entry of `leaves`.
        member: bool (n_classes, n_bounds).

    Raises:
        InfeasibleError: I020 a leaf's base table has no extension that meets the bounds there.
        ConfigError: C073 two lower bounds cross.
    """
    n_bounds = len(context.rules.bound_names)
    if not n_bounds:
        return (np.zeros(0, np.int64),) * 3
    order = laminar_family(member.T, context.rules.bound_names)
    reach = np.zeros((len(here), n_bounds + 1), dtype=bool)
    for k, bound in enumerate(order.innermost):
        reach[:, bound] |= here[:, k]  # the last column is for classes of no bound, -1
    # Whoever has one innermost bound only counts for it, and for those around it, wherever they go.
    sure = reach.sum(axis=1) == 1
    held = np.zeros((leaves.n_nodes, n_bounds), dtype=np.int64)
    for b in range(n_bounds):
        mine = sure & reach[:, b]
        np.add.at(held[:, b], leaves.node[mine], leaves.count[mine])
    need = context.rules.lower[-1] - held @ order.within.astype(np.int64)
    demand = own_demands(order, need)
    pointers = leaves.pointers()
    found: list[tuple[int, int, int]] = []
    for leaf in np.flatnonzero(demand.any(axis=1)):
        entries = np.arange(pointers[leaf], pointers[leaf + 1])
        entries = entries[~sure[entries]]
        inside = reach[entries, :n_bounds].astype(np.int64) @ order.within > 0
        outside = reach[entries, :n_bounds].astype(np.int64) @ ~order.within > 0
        free = inside & ~outside & ~reach[entries, n_bounds:]
        flow = assign_reserves(leaves.count[entries], inside, demand[leaf], free)
        if flow is None:
            raise _too_few(context, int(leaf), need[leaf])
        turn = int(leaf)
        for i, b in zip(*np.nonzero(np.where(free, 0, flow)), strict=True):
            options = _reserve_classes(order, here[entries[i]], int(b))
            shares = np.bincount((turn + np.arange(flow[i, b])) % len(options), minlength=len(options))
            found += [(int(entries[i]), int(k), int(n)) for k, n in zip(options, shares, strict=True) if n]
            turn += int(flow[i, b])
    entry, kind, people = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return entry, kind, people


def _reserve_classes(order: LaminarFamily, opened: Bools, bound: int) -> Ints:
    """Return one open class of each innermost bound inside a bound; reserves take turns among them."""
    inside = np.append(order.within[:, bound], False)
    kinds = np.flatnonzero(opened & inside[order.innermost])
    _, first = np.unique(order.innermost[kinds], return_index=True)
    return np.asarray(kinds[first])


def _too_few(context: PublicContext, leaf: int, need: Ints) -> InfeasibleError:
    names = [name for name, n in zip(context.rules.bound_names, need, strict=True) if n > 0]
    code = context.geography.leaves.codes[leaf]
    return InfeasibleError(
        f"the base release has too few records in {code} for: {', '.join(names)[:200]}",
        code="I020",
        node=code,
        fix="check the public facts of this area against the base release",
    )


def assign_reserves(supply: Ints, reach: Bools, demand: Ints, free: Bools) -> Ints | None:
    """Meet every demand from the supplies that reach it with as few people as possible who are not free.

    Args:
        supply: persons, (n,). demand: persons, (m,).
        reach, free: bool (n, m); who is free meets the demand without being reserved.

    Returns:
        int64 (n, m), or None if the demands cannot be met.
    """
    return (
        _cheapest_reserves(supply, reach, demand, free)
        if free.any()
        else bipartite_flow.meet_demands(supply, reach, demand)
    )


def _cheapest_reserves(supply: Ints, reach: Bools, demand: Ints, free: Bools) -> Ints | None:
    n, m = reach.shape
    i, b = np.nonzero(reach)
    spare = int(supply.sum() - demand.sum())
    if spare < 0:
        return None
    tails = np.concatenate([i, np.arange(n)])
    heads = np.concatenate([n + b, np.full(n, n + m)])  # the last node takes those whom no demand takes
    costs = np.concatenate([~free[i, b], np.zeros(n, dtype=bool)]).astype(np.int64)
    supplies = np.concatenate([supply, -demand, [-spare]])
    flows = minimum_cost_flow(Network(tails, heads, supply[tails], costs, supplies))
    if flows is None:
        return None
    out = np.zeros((n, m), dtype=np.int64)
    out[i, b] = flows[: len(i)]
    return out


@dataclass(frozen=True, eq=False)
class Patterns:
    """The base table by pattern, and reserves, at every level.

    Args:
        n_patterns: P; a row is numbered cell * P + pattern, a key base cell * P + pattern.
        n_classes: K; cells that the same constraints concern form a class.
        class_of_cell: class of every cell, -1 where no record may ever be.
        family: of every base cell; base cells with the same classes are a family.
        open: bool (n_families, P, K).
        tables: per level, base table with key as cell.
        reserves: per level, people reserved, with key * K + class as cell.
        reserved: keys with a reserve at some leaf, increasing.
    """

    n_patterns: int
    n_classes: int
    class_of_cell: Ints
    family: Ints
    open: NDArray[np.bool_]
    tables: tuple[Histogram, ...]
    reserves: tuple[Histogram, ...]
    reserved: Ints

    def open_in(self, key: Ints, cells: Ints) -> NDArray[np.bool_]:
        """Tell which cells may hold records of a key (base cell and pattern), elementwise."""
        kind = self.class_of_cell[cells]
        family = self.family[key // self.n_patterns]
        return np.asarray((kind >= 0) & self.open[family, key % self.n_patterns, kind])


@lru_cache(maxsize=2)  # of a plan and its preflight's they are asked for more than once, and it takes a while
def find_patterns(context: PublicContext) -> Patterns:
    """Derive the patterns of a release and its extension from public facts and the base table.

    Raises:
        InfeasibleError: I020 a leaf's base table has no extension that meets the constraints there.
        ConfigError: C073 two lower bounds share some cells, and neither holds the other.
    """
    support = context.support
    if support is None:
        raise ConfigError("this plan extends no release", code="C091")
    rules, cells = context.rules, context.rules.cell_classes()
    leaf_open = rules.open[-1][:, rules.class_of_cell[cells.first]]
    class_of_cell = np.where(np.any(leaf_open, axis=0)[cells.of_cell], cells.of_cell, -1)
    n_leaves, n_classes = leaf_open.shape
    has = np.zeros((support.levels[0].n_cells, n_classes), dtype=bool)
    alive = np.flatnonzero(class_of_cell >= 0)
    has[support.of_cell[alive], class_of_cell[alive]] = True
    of_family, family = distinct_rows(has)
    found = [distinct_rows(leaf_open & mine) for mine in of_family]
    n_patterns = max(len(patterns) for patterns, _ in found)
    opened = np.zeros((len(of_family), n_patterns, n_classes), dtype=bool)
    for f, (patterns, _) in enumerate(found):
        opened[f, : len(patterns)] = patterns
    of_leaf = np.stack([which for _, which in found], axis=1)
    leaves = support.levels[-1]
    key = leaves.cell * n_patterns + of_leaf[leaves.node, family[leaves.cell]]
    here = opened[family[leaves.cell], key % n_patterns]
    _check_open_cells(context, leaves, here)
    reserve = find_reserves(context, leaves, here, cells.marked(rules.bound_cells).T)
    table = Histogram(n_leaves, leaves.n_cells * n_patterns, leaves.node, key, leaves.count)
    kept = Histogram.build(
        n_leaves, table.n_cells * n_classes, leaves.node[reserve[0]],
        key[reserve[0]] * n_classes + reserve[1], reserve[2],
    )  # fmt: skip
    return Patterns(
        n_patterns,
        n_classes,
        class_of_cell,
        family,
        opened,
        table.at_every_level(context.geography),
        kept.at_every_level(context.geography),
        np.unique(key[reserve[0]]),
    )


def _check_open_cells(context: PublicContext, leaves: Histogram, here: NDArray[np.bool_]) -> None:
    nowhere = np.flatnonzero(~here.any(axis=1))
    if len(nowhere):
        code = context.geography.leaves.codes[leaves.node[nowhere[0]]]
        raise InfeasibleError(
            f"the base release has records in {code} for which the new constraints leave no cell",
            code="I020",
            node=code,
            fix="check the public facts of this area against the base release",
        )
