"""Generalised least squares over the whole tree: once up, conditioned at the root, once down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.errors import InternalError
from topdown.model import Geography, distinct_rows
from topdown.solve.lattice import Information, Lattice, ProductQuery
from topdown.solve.noisy_answers import NoisyAnswers


@dataclass(frozen=True, eq=False)
class OpenLevel:
    """The nodes of one level sorted by *pattern*, the set T of dense values open there.

    Args:
        values: per pattern, its dense values, int64, increasing.
        nodes: per pattern, its nodes, int64, increasing.
        pattern: int64 (n_nodes,), pattern of each node, -1 where nothing is open.
        place: int64 (n_nodes,), place of each node among those of its pattern.
        parent: int64 (n_nodes,), index of each node's parent in the level above.
    """

    values: tuple[Ints, ...]
    nodes: tuple[Ints, ...]
    pattern: Ints
    place: Ints
    parent: Ints


def level_shape(is_open: NDArray[np.bool_], parent: Ints) -> OpenLevel:
    """Sort nodes by what is open.

    Args:
        is_open: bool (n_nodes, n_dense). parent: int64 (n_nodes,).
    """
    found, which = distinct_rows(is_open)
    kept = np.flatnonzero(found.any(axis=1))
    number = np.full(len(found), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    pattern = number[which]
    place = np.zeros(len(pattern), dtype=np.int64)
    nodes = tuple(np.flatnonzero(pattern == i).astype(np.int64) for i in range(len(kept)))
    for of in nodes:
        place[of] = np.arange(len(of))
    values = tuple(np.flatnonzero(found[i]).astype(np.int64) for i in kept)
    return OpenLevel(values, nodes, pattern, place, parent)


def add_up(
    above: OpenLevel, out: Sequence[Floats], nodes: Ints, below: OpenLevel, held: Floats, *, square: bool
) -> None:
    """Add what some nodes of one pattern hold to their parents, in place.

    Args:
        above: of the parents. out: per pattern of theirs, (n_nodes, ..., t, t) or (n_nodes, t, n_product).
        nodes: increasing, all of one pattern.
        below: of the nodes. held: what each holds, or one for all (first axis 1).
        square: whether what is held is matrices by dense values, not tables.

    Raises:
        InternalError: a dense value is open at a node and not at its parent.
    """
    if not len(nodes):
        return
    own = below.values[below.pattern[nodes[0]]]
    parents = below.parent[nodes]
    for pattern in np.unique(above.pattern[parents]):
        here = above.pattern[parents] == pattern
        theirs = above.values[pattern] if pattern >= 0 else own[:0]
        at = np.searchsorted(theirs, own)
        if pattern < 0 or (at >= len(theirs)).any() or (theirs[at] != own).any():
            raise InternalError(
                "an area has cells open that its parent has not",
                code="X047",
                fix="report it with plan.json and public/; the noise is kept, nothing more is spent",
            )
        rows = above.place[parents[here]]
        starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        if len(held) == 1:
            counts = np.diff(np.append(starts, len(rows))).astype(np.float64)
            sums = counts.reshape(-1, *[1] * (held.ndim - 1)) * held
        else:
            sums = np.add.reduceat(held[here], starts, axis=0)
        into = rows[starts]
        if square:
            components = np.arange(held.shape[1])
            out[pattern][np.ix_(into, components, at, at)] += sums
        else:
            out[pattern][np.ix_(into, at, np.arange(held.shape[2]))] += sums


def spread_from_parent(
    above: OpenLevel, held: Sequence[Floats], nodes: Ints, below: OpenLevel, *, square: bool
) -> Floats:
    """Return what the parents of some nodes of one pattern hold, on the nodes' dense values; as `add_up`."""
    own = below.values[below.pattern[nodes[0]]]
    parents = below.parent[nodes]
    first = held[above.pattern[parents[0]]]
    shape = (first.shape[1], len(own), len(own)) if square else (len(own), first.shape[2])
    out = np.empty((len(nodes), *shape))
    for pattern in np.unique(above.pattern[parents]):
        here = np.flatnonzero(above.pattern[parents] == pattern)
        at = np.searchsorted(above.values[pattern], own)
        rows = above.place[parents[here]]
        last = at if square else np.arange(shape[1])
        middle = np.arange(shape[0]) if square else at
        grid = (rows, middle, at, last) if square else (rows, middle, last)
        out[here] = held[pattern][np.ix_(*grid)]
    return out


LEAVES_AT_ONCE = 2048  # at most


NUMBERS_IN_CACHE = 2**15  # of tables that are computed together
NUMBERS_AT_ONCE = 2048 * 2016  # of a table of leaves: wide schemas take fewer leaves


@dataclass(frozen=True, eq=False)
class Upward:
    """Covariances of one level, given what is measured at and below each node.

    Args:
        shape: nodes by pattern.
        own: of the level.
        beyond: per pattern, K of each node, (m, n_components, t, t); zeros (1, ...) at the leaves.
        spread: per pattern, Sig of each node, (m, ...); at the leaves one for all, (1, ...).
    """

    shape: OpenLevel
    own: Information
    beyond: tuple[Floats, ...]
    spread: tuple[Floats, ...]

    def of(self, held: Sequence[Floats], node: int) -> Floats:
        """Return what one node holds, of one array a pattern."""
        here = held[self.shape.pattern[node]]
        return np.asarray(here[0] if len(here) == 1 else here[self.shape.place[node]])


@dataclass(frozen=True, eq=False)
class Covariances:
    """All covariances of a plan: no number of a record enters, nor any noise.

    Args:
        lattice: in whose terms.
        levels: root first.
    """

    lattice: Lattice
    levels: tuple[Upward, ...]


@dataclass(frozen=True, eq=False)
class NodeEstimates:
    """What the noisy answers say, at every level above the leaves, by pattern.

    Args:
        linear: b, (m, t, n_product).
        below: s, the sum of the children's e.
        alone: e = Sig b.
    """

    linear: tuple[tuple[Floats, ...], ...]
    below: tuple[tuple[Floats, ...], ...]
    alone: tuple[tuple[Floats, ...], ...]


def open_values(lattice: Lattice, class_of_cell: Ints, is_open: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which dense values are open, (n_nodes, n_dense), from the open classes of `Rules`."""
    return np.asarray(is_open[:, class_of_cell[lattice.cell[:, 0]]])


def make_tree(
    lattice: Lattice,
    geography: Geography,
    is_open: Sequence[NDArray[np.bool_]],
    own: Sequence[Information],
) -> Covariances:
    """Return all covariances, from the leaves up.

    Args:
        lattice, geography: of the release.
        is_open: per level, bool (n_nodes, n_dense).
        own: per level, what is measured there.

    Raises:
        LinAlgError: the leaves' queries do not tell every open cell apart.
    """
    levels: list[Upward] = []
    for depth in range(len(geography.levels) - 1, -1, -1):
        shape = level_shape(is_open[depth], geography.levels[depth].parent)
        here = [own[depth].on(values) for values in shape.values]
        if not levels:
            beyond = [np.zeros((1, *a.shape)) for a in here]
        else:
            below, n = levels[-1], lattice.n_components
            beyond = [
                np.zeros((len(of), n, len(t), len(t)))
                for of, t in zip(shape.nodes, shape.values, strict=True)
            ]
            for nodes, spread in zip(below.shape.nodes, below.spread, strict=True):
                add_up(shape, beyond, nodes, below.shape, spread, square=True)
            beyond = [regular_inverse(k) for k in beyond]
        alone = tuple(regular_inverse(a + k) for a, k in zip(here, beyond, strict=True))
        levels.append(Upward(shape, own[depth], tuple(beyond), alone))
    return Covariances(lattice, tuple(reversed(levels)))


def regular_inverse(matrices: Floats) -> Floats:
    """Return inverses of symmetric positive definite matrices (..., t, t); LinAlgError if one is not."""
    np.linalg.cholesky(matrices)
    found = np.linalg.inv(matrices)
    return np.asarray((found + np.swapaxes(found, -1, -2)) / 2)


def refined(lattice: Lattice, matrices: Floats, inverses: Floats, b: Floats) -> Floats:
    """Return x with M x = b by the inverse and one step of refinement: large cells would lose digits without."""
    x = lattice.apply(inverses, b)
    return x + lattice.apply(inverses, b - lattice.apply(matrices, x))


def leaves_at_once(lattice: Lattice) -> int:
    """Return how many leaves are estimated together, in few tables of bounded size."""
    return max(min(LEAVES_AT_ONCE, NUMBERS_AT_ONCE // (lattice.n_dense * lattice.n_product)), 1)


def leaf_estimates(
    tree: Covariances, answers: NoisyAnswers, first: int, last: int
) -> list[tuple[Ints, Floats]]:
    """Return e of the leaves first..last-1 by pattern: nodes, and (m, t, n_product)."""
    leaves, depth = tree.levels[-1], len(tree.levels) - 1
    measured, values = answers.answers(depth, first, last)
    out = []
    for pattern in np.unique(leaves.shape.pattern[measured]):
        here, dense = np.flatnonzero(leaves.shape.pattern[measured] == pattern), leaves.shape.values[pattern]
        found = np.empty((len(here), len(dense), tree.lattice.n_product))
        step = max(NUMBERS_IN_CACHE // found[0].size, 1)
        for first_row in range(0, len(here), step):
            some = slice(first_row, first_row + step)
            linear = leaves.own.linear(values[here[some]], dense)
            found[some] = tree.lattice.apply(leaves.spread[pattern], linear)
        out.append((measured[here], found))
    return out


def estimate_tree(tree: Covariances, answers: NoisyAnswers) -> NodeEstimates:
    """Return b, s and e of every node above the leaves, from the leaves up.

    Args:
        tree: covariances. answers: noisy answers at every node that has one open dense value.
    """
    lattice, n_levels = tree.lattice, len(tree.levels)
    linear: list[tuple[Floats, ...]] = []
    below: list[tuple[Floats, ...]] = []
    alone: list[tuple[Floats, ...]] = []
    for depth in range(n_levels - 2, -1, -1):
        level, under = tree.levels[depth], tree.levels[depth + 1]
        patterns = list(zip(level.shape.nodes, level.shape.values, strict=True))
        sums = [np.zeros((len(of), len(t), lattice.n_product)) for of, t in patterns]
        if depth == n_levels - 2:
            n_leaves = len(under.shape.pattern)
            step = leaves_at_once(lattice)
            for first in range(0, n_leaves, step):
                for nodes, found in leaf_estimates(tree, answers, first, min(first + step, n_leaves)):
                    add_up(level.shape, sums, nodes, under.shape, found, square=False)
        else:
            for nodes, found in zip(under.shape.nodes, alone[-1], strict=True):
                add_up(level.shape, sums, nodes, under.shape, found, square=False)
        measured, values = answers.answers(depth, 0, len(level.shape.pattern))
        b = []
        for (nodes, t), k, s in zip(patterns, level.beyond, sums, strict=True):
            own = level.own.linear(values[np.searchsorted(measured, nodes)], t)
            b.append(own + lattice.apply(k, s))
        linear.append(tuple(b))
        below.append(tuple(sums))
        alone.append(
            tuple(
                refined(lattice, level.own.on(t) + k, v, x)
                for t, k, v, x in zip(level.shape.values, level.beyond, level.spread, b, strict=True)
            )
        )
    return NodeEstimates(tuple(reversed(linear)), tuple(reversed(below)), tuple(reversed(alone)))


def contract_axis(
    tree: Covariances, found: NodeEstimates, root: Floats, answers: NoisyAnswers, leaf: int
) -> tuple[list[Floats], list[Floats]]:
    """Return x of a measured leaf and its ancestors, root first, and above the leaf the sum of the children's x.

    Each is on the node's open dense values.
    """
    path = [leaf]
    for level in reversed(tree.levels[1:]):
        path.append(int(level.shape.parent[path[-1]]))
    path.reverse()
    out, sums = [root], []
    for depth, up in enumerate(path[:-1]):
        above, under = tree.levels[depth], tree.levels[depth + 1]
        theirs = above.shape.values[above.shape.pattern[up]]
        left = out[-1] - above.of(found.below[depth], up)
        moved = tree.lattice.apply(above.of(above.beyond, up)[None], left[None])[0]
        children = np.flatnonzero((under.shape.parent == up) & (under.shape.pattern >= 0))
        total, mine = np.zeros_like(left), left
        for child, alone in _node_alone(tree, found, answers, depth + 1, children):
            at = np.searchsorted(theirs, under.shape.values[under.shape.pattern[child]])
            x = alone + tree.lattice.apply(under.of(under.spread, child)[None], moved[at][None])[0]
            total[at] += x
            mine = x if child == path[depth + 1] else mine
        out.append(mine)
        sums.append(total)
    return out, sums


def _node_alone(
    tree: Covariances, found: NodeEstimates, answers: NoisyAnswers, depth: int, children: Ints
) -> Iterator[tuple[int, Floats]]:
    """Yield e of the children of one node."""
    if depth < len(tree.levels) - 1:
        for child in children.tolist():
            yield child, tree.levels[depth].of(found.alone[depth], child)
        return
    for nodes, tables in leaf_estimates(tree, answers, int(children[0]), int(children[-1]) + 1):
        yield from zip(nodes.tolist(), tables, strict=True)


@dataclass(frozen=True, eq=False)
class ExactAtRoot:
    """Exact answers of one query at the root.

    Args:
        query: in lattice form.
        table: (n_groups, n_product), each answer spread evenly over the product cells it sums up.
    """

    query: ProductQuery
    table: Floats


def condition_on_root(
    tree: Covariances, linear: Floats, alone: Floats, known: Sequence[ExactAtRoot]
) -> tuple[Floats, Floats]:
    """Return x (t, n_product) and V (n_components, t, t) of the root.

    In every component the answers known there are F x; V = Sig - Sig F'(F Sig F')^+ F Sig, and x moves along Sig F'.

    Args:
        tree: its covariances. linear, alone: b and e of the root, (t, n_product).
        known: exact answers, which must not contradict each other.
    """
    lattice, root = tree.lattice, tree.levels[0]
    values, spread = root.shape.values[0], root.spread[0][0]
    x, v = alone.copy(), spread.copy()
    for c in range(lattice.n_components):
        here = [k for k in known if c & ~k.query.kept == 0]
        if not here:
            continue
        rows = np.vstack([np.arange(k.query.n_groups)[:, None] == k.query.group[values] for k in here])
        tables = np.vstack([k.table for k in here])
        open_rows = rows.any(axis=1)
        rows, tables = rows[open_rows].astype(np.float64), tables[open_rows]
        half = spread[c] @ rows.T
        gain = half @ np.linalg.pinv(rows @ half, hermitian=True)
        x += gain @ lattice.project(c, tables - rows @ alone)
        v[c] = spread[c] - gain @ half.T
    v = (v + np.swapaxes(v, -1, -2)) / 2
    matrices = (root.own.on(values) + root.beyond[0][0])[None]
    x += lattice.apply(v[None], (linear - lattice.apply(matrices, x[None])[0])[None])[
        0
    ]  # one step of refinement
    return x, v


def spread_evenly(lattice: Lattice, query: ProductQuery, by_cell: Floats) -> Floats:
    """Return a `ExactAtRoot.table` from each cell's answer, (n_dense, n_product)."""
    first = np.zeros(query.n_groups, dtype=np.int64)
    first[query.group[::-1]] = np.arange(lattice.n_dense)[::-1]
    dropped = lattice.averaged[(lattice.n_components - 1) & ~query.kept]
    return np.asarray(by_cell[first] / dropped, dtype=np.float64)
