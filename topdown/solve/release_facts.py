"""What is known of a release before its solve: from plan, public facts and exact statistics, level by level.

It has two halves. The *shape* is whatever is asked of all leaves (which classes of cells there are, whether limits are
needed, chains, verdicts) and what follows for every node alike. It does not grow with areas. The facts of nodes are
rows that any run of nodes has for itself. A part of a tree is its own rows under the shape of the release: it is given
the shape and has nothing to make one from, so a run without dormitories goes the way of the nation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Floats, Ints
from topdown.model import (
    CellPartition,
    ConstraintSystem,
    Geography,
    exact_rows,
    narrow,
    parse_query,
    partition_cells,
    soft_rule_rows,
    with_exact_answers,
)
from topdown.model.histogram import Narrow
from topdown.plan import Pass, PublicContext
from topdown.solve.implied import Verdict, plan_verdicts
from topdown.solve.node_totals import ExactMargins, NodeAnswers, complete_totals, exact_margins
from topdown.solve.noisy_answers import Ranges
from topdown.solve.polytopes import SplitPolytopes, TreeLimits, split_polytopes
from topdown.solve.rounding import NoFlow, RoundingChain, bound_positions, chain_of
from topdown.solve.rounding.chain import BoundPositions, bound_of_cell, exact_beside


@dataclass(frozen=True, eq=False)
class LevelModel:
    """One level of a plan in the solver's terms.

    Args:
        index: position of the level, 0 at the root.
        query_names: measured queries, in the order of the answers.
        labels: int64 (n_queries, n_cells), answer of each cell in each measured query.
        offsets: int64 (n_queries,), where each query's answers start in a node's answer row.
        weights: float64 (n_queries,), inverse variance.
        passes: solving order.
        tables: labels of every table the passes fix, by name.
        chain: labels of the rounding chain, coarse to fine, each int64 (n_cells,).
        chain_weights: int64, weight of one person of rounding error in each table of the chain.
        bound_of_cell: lower bound (or kind, where there are limits) each cell belongs to, -1 for none.
        class_of_cell, open, lower: see `Rules`, of this level.
        totals: exact node totals of the level.
        exact: exact table of the level that tells more than totals.
        limited: whether nodes have limits on sets of kinds (`Polytopes`), which take the place of lower bounds.
        exact_told: whether the limits tell that table too: it is exact at this level or sums up one below.
        comparisons: int64 (n_rules, n_cells), soft rules (`model.comparison`).
    """

    index: int
    query_names: tuple[str, ...]
    labels: Ints
    offsets: Ints
    weights: Floats
    passes: tuple[Pass, ...]
    tables: dict[str, Ints]
    chain: tuple[Ints, ...]
    chain_weights: tuple[int, ...]
    bound_of_cell: Ints
    class_of_cell: Ints
    open: NDArray[np.bool_]
    lower: Ints
    totals: NodeAnswers
    exact: NodeAnswers
    exact_told: bool
    limited: bool
    comparisons: Ints

    @property
    def exact_beside(self) -> bool:
        """Whether the exact table is kept beside the limits."""
        return self.exact.is_told and not self.exact_told


def build_levels(
    context: PublicContext, polytopes: SplitPolytopes, margins: ExactMargins
) -> tuple[LevelModel, ...]:
    """Describe every level of a plan.

    Args:
        context: plan and public facts.
        polytopes: what splits down to the leaves, with the exact totals.
        margins: exact tables above the leaves.
    """
    plan, rules = context.plan, context.rules
    comparisons = soft_rule_rows(plan.schema, plan.invariants)
    root, split = margins.root.tells_more, margins.split.tells_more
    levels = []
    for i, level in enumerate(plan.levels):
        queries = [parse_query(plan.schema, m.query) for m in level.measurements]
        sizes = np.array([q.n_answers for q in queries], dtype=np.int64)
        chain = [parse_query(plan.schema, r.table) for r in level.rounding]
        exact = margins.root if root and i == 0 else _summed_exact_table(context, polytopes, margins, i)
        beside = exact_beside(polytopes, i, root=root, split=split)
        levels.append(
            LevelModel(
                index=i,
                query_names=tuple(q.name for q in queries),
                labels=np.stack([q.labels.astype(np.int64) for q in queries]),
                offsets=np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64),
                weights=np.array([float(1 / m.variance) for m in level.measurements]),
                passes=level.passes,
                tables={
                    p.table: parse_query(plan.schema, p.table).labels.astype(np.int64) for p in level.passes
                },
                chain=tuple(q.labels.astype(np.int64) for q in chain),
                chain_weights=tuple(r.weight for r in level.rounding),
                bound_of_cell=bound_of_cell(rules, polytopes, i),
                class_of_cell=rules.class_of_cell,
                open=rules.open[i],
                lower=rules.lower[i],
                totals=NodeAnswers(np.zeros(plan.schema.n_cells, dtype=np.int64), polytopes.totals_at(i)),
                exact=exact,
                limited=polytopes.limited(i),
                exact_told=exact.is_told and not beside,
                comparisons=comparisons,
            )
        )
    return tuple(levels)


def _summed_exact_table(
    context: PublicContext, polytopes: SplitPolytopes, margins: ExactMargins, depth: int
) -> NodeAnswers:
    """Return the exact table of the deepest exact level, added up to a level at or above it."""
    split = margins.split
    if not split.tells_more or depth > polytopes.unit_depth:
        return NodeAnswers.none(len(split.of_cell), len(context.geography.levels[depth]))
    return replace(split, answers=context.geography.upward(split.answers, polytopes.unit_depth, depth))


Row = TypeVar("Row", bound=np.generic)


@final
@dataclass(frozen=True, eq=False)
class ReleaseShape:
    """What a release has beside facts of its nodes; made from all leaves by `level_facts.known_of`.

    Args:
        public: classes and bounds that public facts make, of no node.
        rules: the same with exact answers of the leaves as bounds.
        kinds: of no leaf.
        all_leaves: answers to what is asked of all leaves.
        levels: solver's view of every level, of no node.
        chains: rounding chain of every level.
        places: per level, where lower bounds sit in the rounding chain, or why rounding is no flow.
        verdicts: what the plan promises of every level; the solver holds itself to it.
    """

    public: ConstraintSystem
    rules: ConstraintSystem
    kinds: CellPartition
    all_leaves: TreeLimits
    levels: tuple[LevelModel, ...]
    chains: tuple[RoundingChain, ...]
    places: tuple[BoundPositions | NoFlow, ...]
    verdicts: tuple[Verdict, ...]


@final
@dataclass(frozen=True, eq=False)
class NodeFacts:
    """Facts of nodes that follow each other in every level: rows of the release's tables, and nothing about others.

    Args:
        open: per level, bool (n_nodes, n_classes).
        lower: per level, int64 (n_nodes, n_bounds), exact answers of the leaves behind public bounds.
        caps: int64 (n_leaves, n_caps), as `lower`.
        totals: exact node totals by depth.
        answers: exact table of the deepest level with totals, int64 (n_nodes, n_answers), see `Polytopes`.
        exact: per level, answers of the exact table that tells more than totals, int64 (n_nodes, n_answers or 0).
    """

    open: tuple[Bools, ...]
    lower: tuple[Ints, ...]
    caps: Ints
    totals: dict[int, Ints]
    answers: Ints
    exact: tuple[Ints, ...]

    def part(self, ranges: Ranges) -> NodeFacts:
        """Return those of some of the nodes."""
        leaves = ranges[-1]
        return NodeFacts(
            open=tuple(level[here] for level, here in zip(self.open, ranges, strict=True)),
            lower=tuple(level[here] for level, here in zip(self.lower, ranges, strict=True)),
            caps=self.caps[leaves],
            totals={depth: totals[ranges[depth]] for depth, totals in self.totals.items()},
            answers=self.answers[ranges[max(self.totals, default=-1)]],
            exact=tuple(level[here] for level, here in zip(self.exact, ranges, strict=True)),
        )

    def narrowed(self) -> NodeFacts:
        """Return the same in as few bytes as the numbers need, for those that are sent."""
        return self._with(narrow)

    def widened(self) -> NodeFacts:
        """Return the same in int64, as it is computed with."""
        return self._with(lambda numbers: numbers.astype(np.int64, copy=False))

    def _with(self, kept: Callable[[Narrow], Narrow]) -> NodeFacts:
        columns: Any = (
            tuple(kept(level) for level in self.lower),
            kept(self.caps),
            {depth: kept(totals) for depth, totals in self.totals.items()},
            kept(self.answers),
            tuple(kept(level) for level in self.exact),
        )
        return NodeFacts(self.open, *columns)


@final
@dataclass(frozen=True, eq=False)
class ReleaseFacts:
    """The public side of a descent, for the whole tree or a part of it.

    Args:
        shape: of the release.
        nodes: facts of the tree's nodes.
        public: rules of the tree, without exact answers.
        polytopes: what can be split down to the leaves.
        levels: solver's view of every level.
    """

    shape: ReleaseShape
    nodes: NodeFacts
    public: ConstraintSystem
    polytopes: SplitPolytopes
    levels: tuple[LevelModel, ...]

    @property
    def chains(self) -> tuple[RoundingChain, ...]:
        """Rounding chain of every level."""
        return self.shape.chains

    @property
    def places(self) -> tuple[BoundPositions | NoFlow, ...]:
        """Per level, where lower bounds sit in the rounding chain, or why rounding is no flow."""
        return self.shape.places

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the plan promises of every level."""
        return self.shape.verdicts


def facts_of_part(shape: ReleaseShape, geography: Geography, nodes: NodeFacts) -> ReleaseFacts:
    """Return what is known of a tree, or a part of one, from the shape of the release and the facts of its nodes."""
    n_bounds, n_caps = len(shape.public.bound_cells), len(shape.public.cap_cells)
    lower = tuple(level[:, :n_bounds] for level in nodes.lower)
    public = replace(shape.public, open=nodes.open, lower=lower, caps=nodes.caps[:, :n_caps])
    rules = replace(shape.rules, open=nodes.open, lower=nodes.lower, caps=nodes.caps)
    kinds = shape.kinds.at(nodes.lower[-1], nodes.caps)
    polytopes = SplitPolytopes(kinds, rules, geography, nodes.totals, nodes.answers, shape.all_leaves)
    levels = tuple(
        replace(
            level,
            open=nodes.open[i],
            lower=lower[i],
            totals=_with_answers(level.totals, polytopes.totals_at(i)),
            exact=_with_answers(level.exact, nodes.exact[i]),
        )
        for i, level in enumerate(shape.levels)
    )
    return ReleaseFacts(shape, nodes, public, polytopes, levels)


def separate_facts(
    rules: tuple[ConstraintSystem, ConstraintSystem],
    polytopes: SplitPolytopes,
    levels: tuple[LevelModel, ...],
    rounding: tuple[tuple[RoundingChain, ...], tuple[BoundPositions | NoFlow, ...]],
    verdicts: tuple[Verdict, ...],
) -> tuple[ReleaseShape, NodeFacts]:
    """Part what is known of a whole release into its shape and the facts of its nodes.

    Args:
        rules: from public facts, and with exact answers of the leaves. polytopes, levels: with facts of the nodes.
        rounding: chains and places. verdicts: of the plan.
    """
    kinds, full = polytopes.kinds, rules[1]
    nodes = NodeFacts(
        open=full.open,
        lower=full.lower,
        caps=full.caps,
        totals=polytopes.totals,
        answers=polytopes.answers,
        exact=tuple(level.exact.answers for level in levels),
    )
    bare = tuple(
        replace(
            level,
            open=_no_rows(level.open),
            lower=_no_rows(level.lower),
            totals=_with_answers(level.totals, _no_rows(level.totals.answers)),
            exact=_with_answers(level.exact, _no_rows(level.exact.answers)),
        )
        for level in levels
    )
    shape = ReleaseShape(
        public=_without_nodes(rules[0]),
        rules=_without_nodes(full),
        kinds=replace(kinds, low=_no_rows(kinds.low), high=_no_rows(kinds.high)),
        all_leaves=polytopes.all_leaves,
        levels=bare,
        chains=rounding[0],
        places=rounding[1],
        verdicts=verdicts,
    )
    return shape, nodes


def _with_answers(table: NodeAnswers, answers: Ints) -> NodeAnswers:
    return replace(table, answers=answers)


def _without_nodes(rules: ConstraintSystem) -> ConstraintSystem:
    is_open = tuple(_no_rows(level) for level in rules.open)
    lower = tuple(_no_rows(level) for level in rules.lower)
    return replace(rules, open=is_open, lower=lower, caps=_no_rows(rules.caps))


def _no_rows(rows: NDArray[Row]) -> NDArray[Row]:
    """Return no row, without holding on to those there were."""
    return rows[:0].copy()


def facts_of_release(context: PublicContext, exact: dict[str, Ints], tables: dict[str, Ints]) -> ReleaseFacts:
    """Return the public side of a whole release; the only place where a shape is made.

    Args:
        context: plan and public facts.
        exact: exact node totals by level name.
        tables: exact tables other than totals, by name.
    """
    plan, geography = context.plan, context.geography
    verdicts = plan_verdicts(context)  # first: it holds as many numbers of every leaf as all that follows
    margins = exact_margins(context, tables, exact)
    rules = with_exact_answers(
        context.rules, geography, exact_rows(plan.schema, plan.invariants, tables, geography)
    )
    kinds = partition_cells(rules, answers=margins.split.of_cell)
    totals = complete_totals(geography, rules, kinds, exact, margins.split.answers)
    polytopes = split_polytopes(kinds, rules, geography, totals, margins.split.answers)
    levels = build_levels(context, polytopes, margins)
    chains = tuple(
        chain_of(polytopes, v.index, v.chain, v.chain_weights, v.exact.of_cell * v.exact_beside)
        for v in levels
    )
    in_chain = tuple(bound_positions(context.rules, polytopes, i, chain) for i, chain in enumerate(chains))
    made = (context.rules, rules), polytopes, levels, (chains, in_chain), verdicts
    shape, nodes = separate_facts(*made)
    return ReleaseFacts(shape, nodes, context.rules, polytopes, levels)
