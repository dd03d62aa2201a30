"""Estimate and standard deviation of published answers, in thousandths of a record: down the tree, leaves streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from topdown.arrays import Floats, Ints
from topdown.errors import ConfigError
from topdown.formats.common import EstimateOfLevel
from topdown.model import Query
from topdown.plan import PublicContext
from topdown.solve.lattice import Lattice
from topdown.solve.noisy_answers import NoisyAnswers
from topdown.solve.tree.coverage import CoveredLevels, check_intervals, lattice_form
from topdown.solve.tree.plan_deviations import axis_factors, union_quadratic
from topdown.solve.tree.tree_estimate import leaf_estimates, leaves_at_once, spread_from_parent
from topdown.solve.tree.tree_objective import TreePublic, TreeStatistics


@dataclass(frozen=True, eq=False)
class LatticePart:
    """Some nodes of one level that have the same dense values open.

    Args:
        depth: index of the level. nodes: int64, increasing. values: their dense values.
        x: estimates, (m, t, n_product).
        v: covariances, (k, n_components, t, t); leaves below one area share theirs.
        of: int64 (m,), which of them each node has.
    """

    depth: int
    nodes: Ints
    values: Ints
    x: Floats
    v: Floats
    of: Ints
    _summed: dict[tuple[int, ...], Floats] = field(default_factory=dict, init=False)

    def summed(self, lattice: Lattice, axes: tuple[int, ...]) -> Floats:
        """Return estimates summed over some product axes, (m, t, *sizes) with size 1 there; once for all queries."""
        if axes not in self._summed:
            grid = self.x.reshape(*self.x.shape[:2], *lattice.sizes)
            self._summed[axes] = grid.sum(axis=tuple(a + 2 for a in axes), keepdims=True) if axes else grid
        return self._summed[axes]


@dataclass(frozen=True, eq=False)
class QueryOnLattice:
    """A query in lattice form, and where each of its answers lies.

    Args:
        query: any. member: float (n_groups, n_dense), which dense values a group adds up.
        place: int64 (n_groups, kept product cells), number of each answer.
        dropped: product axes it adds up. recoded: those it adds up in groups: axis, and float (groups, values).
        factors: of `axis_factors`, (n_components,); with groups (n_components, kept product cells).
    """

    query: Query
    member: Floats
    place: Ints
    dropped: tuple[int, ...]
    recoded: tuple[tuple[int, Floats], ...]
    factors: Floats

    @cached_property
    def position(self) -> Ints:
        """Where each answer stands in `place`, int64 (n_answers,)."""
        return np.argsort(self.place.reshape(-1))

    def estimates(self, lattice: Lattice, part: LatticePart) -> Floats:
        """Return the estimate of every answer at the nodes of a part, (m, n_answers), in the order of `place`."""
        summed = part.summed(lattice, self.dropped)
        m, t, *kept = summed.shape
        grid = (self.member[:, part.values] @ summed.reshape(m, t, -1)).reshape(m, -1, *kept)
        for axis, of in self.recoded:
            grid = np.moveaxis(np.moveaxis(grid, axis + 2, -1) @ of.T, -1, axis + 2)
        return grid.reshape(m, -1)

    def variances(self, part: LatticePart) -> Floats:
        """Return the variance of every answer by the covariances of a part: (k, n_groups, kept product cells).

        The last axis has length 1 where no axis is added up in groups: there it is the same for every such cell.
        """
        member = self.member[:, part.values]
        quadratic = np.einsum("mcge,ge->mgc", member @ part.v, member)
        found = np.maximum(self.shares(quadratic), 0.0)
        return found.reshape(*found.shape[:2], -1)

    def shares(self, quadratic: Floats) -> Floats:
        """Return variances, (...) or (..., kept product cells), from what each component has, (..., n_components)."""
        return np.asarray(quadratic @ self.factors)


def query_on_lattice(lattice: Lattice, query: Query) -> QueryOnLattice:
    """Return where the answers of a query lie in a lattice.

    A sum over s of the n values of an axis has s - s * s / n of the variance that differences have there, and
    s * s / n of that of their mean, whichever values they are: a group of values is told from its size.
    """
    of_axis = {f.attribute: np.array(f.group_of) for f in query.factors if f.attribute in lattice.product}
    dropped = tuple(a for a, name in enumerate(lattice.product) if name not in of_axis)
    recoded, kept = list[tuple[int, Floats]](), list[Ints]()
    for axis, (name, n) in enumerate(zip(lattice.product, lattice.sizes, strict=True)):
        group_of = of_axis.get(name, np.zeros(n, dtype=np.int64))
        groups = np.arange(int(group_of.max()) + 1)
        kept.append(np.argmax(groups[:, None] == group_of[None, :], axis=1).astype(np.int64))
        if axis not in dropped and not np.array_equal(group_of, np.arange(n)):
            recoded.append((axis, (groups[:, None] == group_of[None, :]).astype(np.float64)))
    labels = query.labels[lattice.cell[:, 0]]
    group = np.unique(labels, return_inverse=True)[1].reshape(-1)
    member = (np.arange(int(group.max()) + 1)[:, None] == group[None, :]).astype(np.float64)
    cells = (
        np.ravel_multi_index(np.meshgrid(*kept, indexing="ij"), lattice.sizes) if kept else np.zeros(1, int)
    )
    place = query.labels[lattice.cell[np.argmax(member, axis=1)[:, None], cells.reshape(1, -1)]].astype(
        np.int64
    )
    return QueryOnLattice(
        query, member, place, dropped, tuple(recoded), _factors(lattice, dropped, dict(recoded))
    )


def _factors(lattice: Lattice, dropped: tuple[int, ...], recoded: dict[int, Floats]) -> Floats:
    if not recoded:
        return axis_factors(lattice, [n if a in dropped else 1 for a, n in enumerate(lattice.sizes)])
    sizes = [
        np.array([n]) if a in dropped else recoded[a].sum(axis=1) if a in recoded else np.ones(n)
        for a, n in enumerate(lattice.sizes)
    ]
    each = np.stack([axis.reshape(-1) for axis in np.meshgrid(*sizes, indexing="ij")], axis=1)
    return np.stack([axis_factors(lattice, chosen) for chosen in each.astype(np.int64).tolist()], axis=1)


MOST = 4e12  # thousandths: products with a quantile in millionths stay in 64 bits


TableKey = tuple[str, int]  # name of a query, index of a level


@final
@dataclass(frozen=True, eq=False)
class TreeEstimates:
    """What the measurements of the whole tree say of any answer of any query.

    Args:
        statistics: of the plan, whatever its splits are fitted to.
    """

    statistics: TreeStatistics
    _queries: dict[str, QueryOnLattice] = field(default_factory=dict)

    def at(self, rows: Mapping[TableKey, tuple[Ints, Ints]]) -> dict[TableKey, tuple[Ints, Ints]]:
        """Return estimates, rounded to nearest, and standard deviations, rounded up, in thousandths.

        Args:
            rows: per query and level, nodes and answers, int64, increasing by node; what is closed there has zeros.

        Raises:
            ConfigError: C210 the noise is too wide for numbers that can be written.
        """
        out = {place: (np.zeros(len(node), np.int64), np.zeros(len(node), np.int64))
               for place, (node, _) in rows.items()}  # fmt: skip
        with threadpool_limits(limits=1):  # the same sums in the same order everywhere
            for part in self._parts():
                for (name, depth), (node, answer) in rows.items():
                    if depth == part.depth:
                        self._fill(part, name, (node, answer), out[name, depth])
        return out

    def of_unions(self, unions: Sequence[Sequence[Ints]], name: str) -> list[tuple[Ints, Ints]]:
        """Return estimates and standard deviations of every answer over unions of areas; rounded as by `at`.

        Args:
            unions: of each, per level, its areas, int64, increasing; none inside another.
            name: of any query.

        Cost: one reading of all measurements; a union of 2,000 leaves then takes about a tenth of a second a group of
        dense values.
        """
        query = self._query(name)
        tree, lattice = self.statistics.covariances, self.statistics.lattice
        sums = [np.zeros(query.query.n_answers) for _ in unions]
        leaves = np.zeros(len(tree.levels[-1].shape.pattern), dtype=bool)
        leaves[np.concatenate([union[-1] for union in unions])] = True
        with threadpool_limits(limits=1):
            for part in self._parts(leaves):
                for total, union in zip(sums, unions, strict=True):
                    here = np.isin(part.nodes, union[part.depth])
                    if here.any():
                        total += query.estimates(
                            lattice, replace(part, nodes=part.nodes[here], x=part.x[here], of=part.of[here])
                        ).sum(0)
            out = []
            for total, union in zip(sums, unions, strict=True):
                stddev = np.zeros(len(total))
                for group, place in zip(query.member, query.place, strict=True):
                    quadratic = union_quadratic(tree, self.statistics.root[1], union, group)
                    stddev[place] = 1000 * np.maximum(query.shares(quadratic), 0.0) ** 0.5
                out.append(_thousandths(1000 * total[query.position], stddev))
        return out

    def _fill(self, part: LatticePart, name: str, rows: tuple[Ints, Ints], out: tuple[Ints, Ints]) -> None:
        node, answer = rows
        first, last = np.searchsorted(node, (part.nodes, part.nodes + 1))
        lengths = last - first
        if not lengths.sum():
            return
        of = np.repeat(np.arange(len(part.nodes)), lengths)
        row = (
            np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(first, lengths)
        )
        query = self._query(name)
        cell = of * query.place.size + query.position[answer[row]]
        estimate = 1000 * query.estimates(self.statistics.lattice, part).reshape(-1)[cell]
        stddev = 1000 * np.sqrt(query.variances(part))
        alike = query.place.size // stddev[0].size
        cell = part.of[of] * stddev[0].size + query.position[answer[row]] // alike
        stddev = stddev.reshape(-1)[cell]
        out[0][row], out[1][row] = _thousandths(estimate, stddev)

    def _query(self, name: str) -> QueryOnLattice:
        if name not in self._queries:
            self._queries[name] = query_on_lattice(
                self.statistics.lattice, self.statistics.context.plan.query(name)
            )
        return self._queries[name]

    def _parts(self, leaves: NDArray[np.bool_] | None = None) -> Iterator[LatticePart]:
        """Go down the tree: every node with something open, in parts; at the leaves those marked, and more."""
        statistics = self.statistics
        tree, found, lattice = statistics.covariances, statistics.found, statistics.lattice
        x, v = statistics.root
        above_x, above_v = [x[None]], [v[None]]
        shape = tree.levels[0].shape
        yield LatticePart(0, shape.nodes[0], shape.values[0], above_x[0], above_v[0], np.zeros(1, np.int64))
        for depth in range(1, len(tree.levels)):
            up, level = tree.levels[depth - 1], tree.levels[depth]
            moved = [
                lattice.apply(k, xu - s)
                for k, xu, s in zip(up.beyond, above_x, found.below[depth - 1], strict=True)
            ]
            change = [k @ vu @ k - k for k, vu in zip(up.beyond, above_v, strict=True)]
            above_x, above_v = [], []
            for nodes, alone in self._alone(depth, leaves):
                pattern = level.shape.pattern[nodes[0]]
                spread, of = level.spread[pattern], np.arange(len(nodes))
                some = nodes
                if len(spread) > 1:
                    spread = spread[level.shape.place[nodes]]
                else:  # all of one parent are alike but for their own answers
                    _, first, of = np.unique(
                        level.shape.parent[nodes], return_index=True, return_inverse=True
                    )
                    some = nodes[first]
                tables = spread_from_parent(up.shape, moved, some, level.shape, square=False)
                middle = spread_from_parent(up.shape, change, some, level.shape, square=True)
                here = alone + lattice.apply(spread, tables)[of]
                v = spread + spread @ middle @ spread
                v = (v + np.swapaxes(v, -1, -2)) / 2
                if depth < len(tree.levels) - 1:
                    above_x.append(here)
                    above_v.append(v)
                yield LatticePart(depth, nodes, level.shape.values[pattern], here, v, of)

    def _alone(self, depth: int, leaves: NDArray[np.bool_] | None) -> Iterator[tuple[Ints, Floats]]:
        """Yield e of the nodes of a level, one pattern at a time; leaves in parts."""
        statistics = self.statistics
        shape = statistics.covariances.levels[depth].shape
        if depth < len(statistics.covariances.levels) - 1:
            yield from zip(shape.nodes, statistics.found.alone[depth], strict=True)
            return
        step = leaves_at_once(statistics.lattice)
        for first in range(0, len(shape.pattern), step):
            last = min(first + step, len(shape.pattern))
            if leaves is not None and not leaves[first:last].any():
                continue
            yield from leaf_estimates(statistics.covariances, statistics.answers, first, last)


def _thousandths(estimate: Floats, stddev: Floats) -> tuple[Ints, Ints]:
    """Round estimates to nearest and deviations up; both are in thousandths already."""
    if max(np.abs(estimate).max(initial=0), stddev.max(initial=0)) > MOST:
        raise ConfigError(
            "the noise of this plan is too wide for intervals",
            code="C210",
            fix="remove estimates.coverage, or raise the budget",
            key=("estimates", "coverage"),
        )
    return np.rint(estimate).astype(np.int64), np.ceil(stddev * (1 + 1e-9)).astype(np.int64)


def tree_estimates(
    context: PublicContext, answers: NoisyAnswers, at_root: tuple[tuple[Ints, Ints], ...]
) -> TreeEstimates:
    """Return the numbers of a plan that asks for intervals.

    Args:
        context: plan and public facts. answers: measured.
        at_root: as from `exact_at_root`.

    Raises:
        ConfigError: C211 the plan has no lattice form.
    """
    plan = context.plan
    form = lattice_form(context)
    if isinstance(form, str):
        check_intervals(context)
        raise TypeError(form)
    levels = tuple(EstimateOfLevel(level=level.name, targets="own", why="") for level in plan.levels)
    choice = CoveredLevels(levels, form.lattice, form.own, (False,) * len(levels))
    return TreeEstimates(TreeStatistics(TreePublic(context, choice), answers, (), at_root))
