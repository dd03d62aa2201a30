"""People put into a lower bound before anything else: as few as the bounds of a leaf need, by an exact flow.

Bounds are nested or disjoint, so they form a forest. What a bound asks for beyond the bounds inside it is its
own *demand*: people who may be in any of its classes. Every demand can be met at once, each by its own people,
if and only if the leaf's base table has an extension: going inside out, an extension holds enough people in each
bound to meet its demand with those that the bounds inside have left over. People meet a demand at no cost where
all classes open to them lie in the bound; the others are reserved, and the flow reserves as few as it can.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.errors import InfeasibleError
from topdown.model.histogram import Histogram
from topdown.model.nested import Nest, nest
from topdown.plan.prepare import Context
from topdown.solve.backends import bipartite_flow, ortools_flow
from topdown.solve.flow import Network
from topdown.solve.groups import Ints

Bools = NDArray[np.bool_]


def demands(order: Nest, need: Ints) -> Ints:
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


def find_reserves(context: Context, leaves: Histogram, here: Bools, member: Bools) -> tuple[Ints, Ints, Ints]:
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
    rules = context.plan.invariants.at_least
    n_bounds = len(rules)
    if not n_bounds:
        return (np.zeros(0, np.int64),) * 3
    order = nest(member.T, context.rules.bound_names)
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
    demand = demands(order, need)
    pointers = leaves.pointers()
    found: list[tuple[int, int, int]] = []
    for leaf in np.flatnonzero(demand.any(axis=1)):
        entries = np.arange(pointers[leaf], pointers[leaf + 1])
        entries = entries[~sure[entries]]
        inside = reach[entries, :n_bounds].astype(np.int64) @ order.within > 0
        outside = reach[entries, :n_bounds].astype(np.int64) @ ~order.within > 0
        free = inside & ~outside & ~reach[entries, n_bounds:]
        flow = assign(leaves.count[entries], inside, demand[leaf], free)
        if flow is None:
            raise _too_few(context, int(leaf), need[leaf])
        turn = int(leaf)
        for i, b in zip(*np.nonzero(np.where(free, 0, flow)), strict=True):
            options = _options(order, here[entries[i]], int(b))
            shares = np.bincount((turn + np.arange(flow[i, b])) % len(options), minlength=len(options))
            found += [(int(entries[i]), int(k), int(n)) for k, n in zip(options, shares, strict=True) if n]
            turn += int(flow[i, b])
    entry, kind, people = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return entry, kind, people


def _options(order: Nest, opened: Bools, bound: int) -> Ints:
    """Return one open class of each innermost bound inside a bound; reserves take turns among them."""
    inside = np.append(order.within[:, bound], False)
    kinds = np.flatnonzero(opened & inside[order.innermost])
    _, first = np.unique(order.innermost[kinds], return_index=True)
    return np.asarray(kinds[first])


def _too_few(context: Context, leaf: int, need: Ints) -> InfeasibleError:
    names = [r.name for r, n in zip(context.plan.invariants.at_least, need, strict=True) if n > 0]
    code = context.geography.leaves.codes[leaf]
    return InfeasibleError(
        f"the base release has too few records in {code} for: {', '.join(names)[:200]}",
        code="I020",
        node=code,
        fix="check the public facts of this area against the base release",
    )


def assign(supply: Ints, reach: Bools, demand: Ints, free: Bools) -> Ints | None:
    """Meet every demand from the supplies that reach it with as few people as possible who are not free.

    Args:
        supply: persons, (n,). demand: persons, (m,).
        reach, free: bool (n, m); who is free meets the demand without being reserved.

    Returns:
        int64 (n, m), or None if the demands cannot be met.
    """
    return (
        _cheapest(supply, reach, demand, free) if free.any() else bipartite_flow.meet(supply, reach, demand)
    )


def _cheapest(supply: Ints, reach: Bools, demand: Ints, free: Bools) -> Ints | None:
    n, m = reach.shape
    i, b = np.nonzero(reach)
    spare = int(supply.sum() - demand.sum())
    if spare < 0:
        return None
    tails = np.concatenate([i, np.arange(n)])
    heads = np.concatenate([n + b, np.full(n, n + m)])  # the last node takes those whom no demand takes
    costs = np.concatenate([~free[i, b], np.zeros(n, dtype=bool)]).astype(np.int64)
    network = Network(
        tails, heads, supply[tails], costs, np.concatenate([supply, -demand, [-spare]]), np.arange(len(i))
    )
    flows = ortools_flow.solve(network)
    if flows is None:
        return None
    out = np.zeros((n, m), dtype=np.int64)
    out[i, b] = flows[: len(i)]
    return out
