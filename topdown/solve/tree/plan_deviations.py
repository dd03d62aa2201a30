"""Variances of answers, at one node and of any union of areas, and the deviations that a plan's estimates will have.

From plan and public facts alone, before anything is spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from topdown.arrays import Floats, Ints
from topdown.plan import Plan, PublicContext
from topdown.solve.lattice import Lattice, query_of_labels
from topdown.solve.tree.coverage import LatticeForm, lattice_form
from topdown.solve.tree.tree_estimate import (
    LEAVES_AT_ONCE,
    Covariances,
    ExactAtRoot,
    condition_on_root,
    make_tree,
    open_values,
    spread_from_parent,
)


def axis_factors(lattice: Lattice, chosen: Sequence[int]) -> Floats:
    """Return a component's share of the variance of a sum over product cells, (n_components,).

    Args:
        chosen: per product axis, how many of its n values the answer adds up: 1 if the axis is kept, n if dropped.
    """
    out = np.ones(lattice.n_components)
    for a, (s, n) in enumerate(zip(chosen, lattice.sizes, strict=True)):
        inside = (np.arange(lattice.n_components) >> a & 1).astype(bool)
        out *= np.where(inside, s - s * s / n, s * s / n)
    return out


def answer_variance(lattice: Lattice, v: Floats, group: Floats, chosen: Sequence[int]) -> Floats:
    """Return the variance of an answer at each of some nodes of one pattern, (m,), persons squared.

    Args:
        v: covariances of the nodes, (m, n_components, t, t).
        group: (t,), which of their dense values the answer adds up.
        chosen: as in `axis_factors`.
    """
    quadratic = np.einsum("d,mcde,e->mc", group, v, group)
    return np.asarray(np.maximum(quadratic @ axis_factors(lattice, chosen), 0.0))


def union_quadratic(tree: Covariances, root: Floats, members: Sequence[Ints], group: Floats) -> Floats:
    """Return what each component has of the variance of an answer over a union of areas, (n_components,).

    One sweep up: a of a member is the group, elsewhere K z with z the sum over children of Sig_c a_c; then the sum of
    a_c'Sig_c a_c below the root, minus the sum of z'K z over inner nodes, plus a'V a at the root.

    Args:
        tree: covariances. root: V of the root, (n_components, t, t).
        members: per level, the areas of the union, increasing; none inside another.
        group: (n_dense,), which dense values the answer adds up.
    """
    n = tree.lattice.n_components
    quadratic = np.zeros(n)
    held: dict[int, Floats] = {}  # node of the level below: a, (n_components, t)
    for depth in range(len(tree.levels) - 1, -1, -1):
        level = tree.levels[depth]
        here: dict[int, Floats] = {}
        if held:
            below = tree.levels[depth + 1]
            sums: dict[int, Floats] = {}
            for node, a in held.items():
                spread = below.of(below.spread, node)
                moved = np.einsum("cde,ce->cd", spread, a)
                quadratic += np.einsum("cd,cd->c", a, moved)
                up = int(below.shape.parent[node])
                theirs = level.shape.values[level.shape.pattern[up]]
                z = sums.setdefault(up, np.zeros((n, len(theirs))))
                z[:, np.searchsorted(theirs, below.shape.values[below.shape.pattern[node]])] += moved
            for node, z in sums.items():
                here[node] = np.einsum("cde,ce->cd", level.of(level.beyond, node), z)
                quadratic -= np.einsum("cd,cd->c", z, here[node])
        for node in members[depth].tolist():
            pattern = level.shape.pattern[node]
            if pattern >= 0:
                here[node] = np.tile(group[level.shape.values[pattern]], (n, 1))
        held = here
    if held:
        a = held[0]
        quadratic += np.einsum("cd,cde,ce->c", a, root, a)
    return quadratic


@dataclass(frozen=True)
class ExpectedDeviations:
    """Mean standard deviation of the answers of one query at one level, records, over what public facts leave open."""

    level: str
    query: str
    stddev: float


def expected_deviations(context: PublicContext) -> tuple[ExpectedDeviations, ...]:
    """Return the mean standard deviation of every table's estimates; none where a plan has no lattice form.

    Args:
        context: plan and public facts.

    Cost: two seconds for Rhode Island's 25,181 blocks.
    """
    form = lattice_form(context)
    if isinstance(form, str):
        return ()
    plan, lattice = context.plan, form.lattice
    names = dict.fromkeys(["total"] + [m.query for level in plan.levels for m in level.measurements])
    asked = {name: query_of_labels(lattice, plan.query(name).labels) for name in names}
    sums = {(depth, name): [0.0, 0] for depth in range(len(plan.levels)) for name in names}
    for depth, values, v in _covariances(context, form):
        for name, query in asked.items():
            chosen = [1 if query.kept >> a & 1 else n for a, n in enumerate(lattice.sizes)]
            n_cells = int(np.prod([n for a, n in enumerate(lattice.sizes) if query.kept >> a & 1]))
            for g in np.unique(query.group[values]):
                member = (query.group[values] == g).astype(np.float64)
                found = np.sqrt(answer_variance(lattice, v, member, chosen))
                sums[depth, name][0] += n_cells * float(found.sum())
                sums[depth, name][1] += n_cells * len(found)
    return tuple(
        ExpectedDeviations(plan.levels[depth].name, name, total / max(n, 1))
        for (depth, name), (total, n) in sums.items()
    )


def _covariances(context: PublicContext, form: LatticeForm) -> Iterator[tuple[int, Ints, Floats]]:
    """Yield level, open dense values and covariances of the nodes of every level, in parts."""
    rules, lattice = context.rules, form.lattice
    is_open = [open_values(lattice, rules.class_of_cell, at) for at in rules.open]
    tree = make_tree(lattice, context.geography, is_open, form.own)
    above = [_root_covariances(context.plan, lattice, tree)[None]]
    yield 0, tree.levels[0].shape.values[0], above[0]
    for depth in range(1, len(tree.levels)):
        up, level = tree.levels[depth - 1], tree.levels[depth]
        change = [k @ v @ k - k for k, v in zip(up.beyond, above, strict=True)]
        above, last = [], depth == len(tree.levels) - 1
        for nodes, values, spread in zip(level.shape.nodes, level.shape.values, level.spread, strict=True):
            step = LEAVES_AT_ONCE if last else len(nodes)
            for first in range(0, len(nodes), step):
                here = nodes[first : first + step]
                own = spread if len(spread) == 1 else spread[first : first + step]
                v = own + own @ spread_from_parent(up.shape, change, here, level.shape, square=True) @ own
                v = (v + np.swapaxes(v, -1, -2)) / 2
                yield depth, values, v
                if not last:
                    above.append(v)


def _root_covariances(plan: Plan, lattice: Lattice, tree: Covariances) -> Floats:
    """Return the covariance of the root, given what is exact there; answers do not enter it."""
    values = tree.levels[0].shape.values[0]
    nothing = np.zeros((len(values), lattice.n_product))
    known = []
    for exact in plan.invariants.exact:
        query = query_of_labels(lattice, plan.query(exact.query).labels)
        known.append(ExactAtRoot(query, np.zeros((query.n_groups, lattice.n_product))))
    return condition_on_root(tree, nothing, nothing, known)[1]
