"""The two axes of every table of counts: the public range of sizes, and the tree of regions.

Algorithms see the tree as parents level by level; people see names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topdown.arrays import Ints
from topdown.errors import ConfigError, DataError
from topdown.model import Geography, from_parents


@dataclass(frozen=True)
class Sizes:
    """Public range of group sizes.

    >>> from pgsr import Sizes
    >>> Sizes(4, too_large="top-code").largest
    4

    Args:
        n_sizes: number of sizes N.
        smallest: first size, 0 (units without anybody are listed) or 1.
        too_large: "refuse" groups larger than the last size, or "top-code" them to it. Never drop them: a
            dropped group changes tail counts by N.
    """

    n_sizes: int
    smallest: int = 1
    too_large: str = "refuse"

    def __post_init__(self) -> None:
        if isinstance(self.n_sizes, bool) or not isinstance(self.n_sizes, int) or self.n_sizes < 1:
            raise ConfigError(
                f"n_sizes is {self.n_sizes!r}",
                code="C158",
                fix="give the public number of sizes N, such as 20",
            )
        if self.smallest not in (0, 1):
            raise ConfigError(f"smallest size is {self.smallest!r}", code="C159", fix="use 0 or 1")
        if self.too_large not in ("refuse", "top-code"):
            raise ConfigError(f"too_large is {self.too_large!r}", code="C160", fix="use refuse or top-code")

    @property
    def largest(self) -> int:
        """The last size; with top-coding it means this size or more."""
        return self.smallest + self.n_sizes - 1

    def label(self, row: int) -> int:
        """Return the size that a row of counts stands for."""
        return self.smallest + row


@dataclass(frozen=True, eq=False)
class Tree:
    """A region tree with nodes numbered level by level, root first; every leaf at the same depth.

    >>> from pgsr import tree_of
    >>> tree_of([[-1], [0, 0]]).n_leaves
    2

    Args:
        parents: per level, the index of each node's parent within the level above; the root level is `[-1]`.
            Nondecreasing, so that the children of a node are a contiguous run of nodes.
    """

    parents: tuple[Ints, ...]

    @property
    def n_levels(self) -> int:
        """Levels L, from the root (level 0) to the leaves (level L - 1)."""
        return len(self.parents)

    @property
    def n_nodes(self) -> int:
        """Number of regions of all levels together."""
        return int(self.offsets[-1])

    @property
    def n_inner(self) -> int:
        """Regions that have children."""
        return int(self.offsets[-2])

    @property
    def n_leaves(self) -> int:
        """Regions of the lowest level."""
        return len(self.parents[-1])

    @cached_property
    def offsets(self) -> Ints:
        """First node of every level, then the number of nodes; shape (L + 1,)."""
        return np.concatenate(([0], np.cumsum([len(level) for level in self.parents]))).astype(np.int64)

    @cached_property
    def level_of(self) -> Ints:
        """Level of every node."""
        return np.repeat(np.arange(self.n_levels), np.diff(self.offsets))

    @cached_property
    def parent(self) -> Ints:
        """Node number of every node's parent; -1 at the root."""
        shifted = [up + start for up, start in zip(self.parents[1:], self.offsets[:-2], strict=True)]
        return np.concatenate([np.array([-1], dtype=np.int64), *shifted]).astype(np.int64)

    @cached_property
    def first_child(self) -> Ints:
        """Children of inner node g are nodes first_child[g] .. first_child[g + 1] - 1."""
        return np.searchsorted(self.parent, np.arange(self.n_inner + 1)).astype(np.int64)

    @cached_property
    def leaf_start(self) -> Ints:
        """Leaves below node g are leaf_start[g] .. leaf_stop[g] - 1 (numbered from 0 within the leaf level)."""
        return self._leaf_bounds(0)

    @cached_property
    def leaf_stop(self) -> Ints:
        """See `leaf_start`."""
        return self._leaf_bounds(1)

    def _leaf_bounds(self, side: int) -> Ints:
        bound = np.zeros(self.n_nodes, dtype=np.int64)
        bound[self.n_inner :] = np.arange(self.n_leaves) + side
        for node in range(self.n_inner - 1, -1, -1):
            bound[node] = bound[self.first_child[node + side] - side]
        return bound

    @cached_property
    def post_order(self) -> Ints:
        """Nodes with every child before its parent: the traversal of the paper's chain (Model 3)."""
        order: list[int] = []
        stack = [(0, False)]
        while stack:
            node, done = stack.pop()
            if done or node >= self.n_inner:
                order.append(node)
            else:
                stack.append((node, True))
                stack.extend(
                    (child, False)
                    for child in range(self.first_child[node + 1] - 1, self.first_child[node] - 1, -1)
                )
        return np.array(order, dtype=np.int64)

    def sums(self, leaves: Ints) -> Ints:
        """Return the values of every node from those of the leaves.

        Args:
            leaves: integers of shape (n_sizes, n_leaves).

        Returns:
            Array of shape (n_sizes, n_nodes).
        """
        full = np.empty((leaves.shape[0], self.n_nodes), dtype=leaves.dtype)
        full[:, self.n_inner :] = leaves
        for level in range(self.n_levels - 2, -1, -1):
            start, stop = self.offsets[level], self.offsets[level + 1]
            below = full[:, stop : self.offsets[level + 2]]
            full[:, start:stop] = np.add.reduceat(below, self.first_child[start:stop] - stop, axis=1)
        return full

    def columns(self, level: int) -> slice:
        """Return the nodes of one level as a slice."""
        return slice(int(self.offsets[level]), int(self.offsets[level + 1]))


def tree_of(levels: Sequence[Sequence[int]] | Tree) -> Tree:
    """Return the tree with the given parents, level by level; a Tree passes through.

    >>> from pgsr import tree_of
    >>> tree_of([[-1], [0, 0], [0, 1, 1]]).n_nodes
    6

    Raises:
        DataError: no single root, a parent that does not exist, parents out of order, or an inner region
            without children.
    """
    if isinstance(levels, Tree):
        return levels
    parents = tuple(np.asarray(level, dtype=np.int64).reshape(-1) for level in levels)
    if not parents or len(parents[0]) != 1:
        raise DataError(
            "the first level must hold exactly one region, the root",
            code="D013",
            fix="pass levels=[[-1], [0, 0, ...], ...]",
        )
    for depth in range(1, len(parents)):
        up, here = len(parents[depth - 1]), parents[depth]
        if len(here) == 0 or here.min() < 0 or here.max() >= up:
            raise DataError(
                f"level {depth} names a parent outside 0..{up - 1}",
                code="D014",
                fix="correct the parent index",
            )
        if np.any(np.diff(here) < 0):
            raise DataError(
                f"parents of level {depth} are not in ascending order",
                code="D118",
                fix="order the regions of every level by their parent",
            )
        if len(np.unique(here)) != up:
            raise DataError(
                f"a region of level {depth - 1} has no children while others have",
                code="D016",
                fix="every branch must reach the lowest level",
            )
    return Tree(parents)


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A region tree with names: topdown's geography seen as one numbered list of nodes.

    >>> from pgsr import hierarchy_of
    >>> hierarchy_of([("land", "", "land"), ("N", "land", "part"), ("S", "land", "part")]).regions
    ('land', 'N', 'S')

    Args:
        geography: levels, codes and parents; built by `hierarchy_of` from rows of (region, parent, level).
    """

    geography: Geography

    @cached_property
    def tree(self) -> Tree:
        """Parents level by level."""
        levels = self.geography.levels
        return Tree((np.array([-1], dtype=np.int64), *(level.parent for level in levels[1:])))

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """Names of all nodes, in node order."""
        return tuple(code for level in self.geography.levels for code in level.codes)

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the levels, from the root down."""
        return self.geography.level_names

    @cached_property
    def leaf_index(self) -> dict[str, int]:
        """Position of each leaf region within the leaf level."""
        return {code: i for i, code in enumerate(self.geography.leaves.codes)}

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Node number of each region."""
        return {code: i for i, code in enumerate(self.regions)}


def hierarchy_of(rows: Sequence[tuple[str, str, str]]) -> Hierarchy:
    """Build a hierarchy from (region, parent, level) rows; the root's parent is empty.

    >>> from pgsr import hierarchy_of
    >>> hierarchy_of([("land", "", "land"), ("N", "land", "part")]).level_names
    ('land', 'part')

    Raises:
        DataError: a region listed twice, an unknown parent, a region that is its own ancestor, several roots,
            or a branch that stops above the lowest level.
    """
    parent_of = {region: parent for region, parent, _ in rows}
    safe: set[str] = {""}
    for start in parent_of:
        trail: list[str] = []
        at = start
        while at not in safe and at in parent_of:
            trail.append(at)
            at = parent_of[at]
            if at in trail:
                loop = " -> ".join([*trail[trail.index(at) :], at])
                raise DataError(
                    f"region {at!r} is its own ancestor: {loop}",
                    code="D017",
                    fix="correct the parent column of one of these regions",
                    node=at,
                )
        safe.update(trail)
    return Hierarchy(from_parents(list(rows)))


def check_matrix(name: str, values: object, tree: Tree) -> Ints:
    """Return `values` as an int64 matrix [size][node]; refuse fractions and other shapes."""
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != tree.n_nodes or array.shape[0] == 0:
        raise ConfigError(
            f"{name} has shape {array.shape}; the tree needs (n_sizes, {tree.n_nodes})",
            code="C140",
            fix="give one row a size and one column a region, level by level, root first",
        )
    if array.dtype.kind not in "iu":
        raise ConfigError(
            f"{name} must hold integers, not {array.dtype}",
            code="C141",
            fix="noisy counts are integers: astype(int)",
        )
    return np.ascontiguousarray(array, dtype=np.int64)
