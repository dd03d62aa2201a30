"""Estimate and standard deviation of published answers, in thousandths of a record: down the tree, leaves streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from topdown.errors import ConfigError
from topdown.plan.prepare import Context
from topdown.solve.answers import NoisyAnswers
from topdown.solve.tree.answers_of import AnswersOf, Part, answers_of
from topdown.solve.tree.covered import Covered, LevelTargets, check_intervals, lattice_form
from topdown.solve.tree.gls import leaf_estimates, leaves_at_once
from topdown.solve.tree.lattice import Floats, Ints
from topdown.solve.tree.levels import from_parent
from topdown.solve.tree.statistics import TreeStatistics, exact_at_root
from topdown.solve.tree.variance import union_quadratic

MOST = 4e12  # thousandths: products with a quantile in millionths stay in 64 bits
Place = tuple[str, int]  # name of a query, index of a level


@final
@dataclass(frozen=True, eq=False)
class TreeNumbers:
    """What the measurements of the whole tree say of any answer of any query.

    Args:
        statistics: of the plan, whatever its splits are fitted to.
    """

    statistics: TreeStatistics
    _queries: dict[str, AnswersOf] = field(default_factory=dict)

    def at(self, rows: Mapping[Place, tuple[Ints, Ints]]) -> dict[Place, tuple[Ints, Ints]]:
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
        tree, lattice = self.statistics.tree, self.statistics.lattice
        sums = [np.zeros(query.query.n_answers) for _ in unions]
        leaves = np.zeros(len(tree.levels[-1].shape.pattern), dtype=bool)
        leaves[np.concatenate([union[-1] for union in unions])] = True
        with threadpool_limits(limits=1):
            for part in self._parts(leaves):
                for total, union in zip(sums, unions, strict=True):
                    here = np.isin(part.nodes, union[part.depth])
                    if here.any():
                        total += query.estimates(
                            lattice, replace(part, nodes=part.nodes[here], x=part.x[here])
                        ).sum(0)
            out = []
            for total, union in zip(sums, unions, strict=True):
                stddev = np.zeros(len(total))
                for group, place in zip(query.member, query.place, strict=True):
                    quadratic = union_quadratic(tree, self.statistics.root[1], union, group)
                    stddev[place] = 1000 * np.maximum(query.shares(quadratic), 0.0) ** 0.5
                out.append(_thousandths(1000 * total, stddev))
        return out

    def _fill(self, part: Part, name: str, rows: tuple[Ints, Ints], out: tuple[Ints, Ints]) -> None:
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
        estimate = 1000 * query.estimates(self.statistics.lattice, part)[of, answer[row]]
        stddev = 1000 * np.sqrt(query.variances(part))[of, answer[row]]
        out[0][row], out[1][row] = _thousandths(estimate, stddev)

    def _query(self, name: str) -> AnswersOf:
        if name not in self._queries:
            self._queries[name] = answers_of(
                self.statistics.lattice, self.statistics.context.plan.query(name)
            )
        return self._queries[name]

    def _parts(self, leaves: NDArray[np.bool_] | None = None) -> Iterator[Part]:
        """Go down the tree: every node with something open, in parts; at the leaves those marked, and more."""
        statistics = self.statistics
        tree, found, lattice = statistics.tree, statistics.found, statistics.lattice
        x, v = statistics.root
        above_x, above_v = [x[None]], [v[None]]
        shape = tree.levels[0].shape
        yield Part(0, shape.nodes[0], shape.values[0], above_x[0], above_v[0])
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
                spread = level.spread[pattern]
                spread = spread if len(spread) == 1 else spread[level.shape.place[nodes]]
                tables = from_parent(up.shape, moved, nodes, level.shape, square=False)
                middle = from_parent(up.shape, change, nodes, level.shape, square=True)
                here = alone + lattice.apply(spread, tables)
                spread_here = spread + spread @ middle @ spread
                spread_here = (spread_here + np.swapaxes(spread_here, -1, -2)) / 2
                if depth < len(tree.levels) - 1:
                    above_x.append(here)
                    above_v.append(spread_here)
                yield Part(depth, nodes, level.shape.values[pattern], here, spread_here)

    def _alone(self, depth: int, leaves: NDArray[np.bool_] | None) -> Iterator[tuple[Ints, Floats]]:
        """Yield e of the nodes of a level, one pattern at a time; leaves in parts."""
        statistics = self.statistics
        shape = statistics.tree.levels[depth].shape
        if depth < len(statistics.tree.levels) - 1:
            yield from zip(shape.nodes, statistics.found.alone[depth], strict=True)
            return
        step = leaves_at_once(statistics.lattice)
        for first in range(0, len(shape.pattern), step):
            last = min(first + step, len(shape.pattern))
            if leaves is not None and not leaves[first:last].any():
                continue
            yield from leaf_estimates(statistics.tree, statistics.answers, first, last)


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


def tree_numbers(
    context: Context, answers: NoisyAnswers, exact: dict[str, Ints], tables: dict[str, Ints]
) -> TreeNumbers:
    """Return the numbers of a plan that asks for intervals.

    Args:
        context: plan and public facts. answers: measured.
        exact: exact node totals by level name. tables: other exact tables, by name.

    Raises:
        ConfigError: C211 the plan has no lattice form.
    """
    plan = context.plan
    form = lattice_form(context)
    if isinstance(form, str):
        check_intervals(context)
        raise TypeError(form)
    levels = tuple(LevelTargets(level.name, "own") for level in plan.levels)
    choice = Covered(levels, form.lattice, form.own, (False,) * len(levels))
    return TreeNumbers(TreeStatistics(context, answers, choice, (), exact_at_root(plan, exact, tables)))
