"""Variances of answers: at one node, and of any union of areas. Public structure only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topdown.solve.tree.gls import Covariances
from topdown.solve.tree.lattice import Floats, Ints, Lattice


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
