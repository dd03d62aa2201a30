"""What is known of a release before its solve, in two halves: its shape, and the facts of nodes.

The *shape* is whatever is asked of all leaves (which kinds of cells there are, whether limits are needed, chains,
verdicts) and what follows for every node alike. It does not grow with areas. The facts of nodes are rows that any run
of nodes has for itself. A part of a tree is its own rows under the shape of the release: it is given the shape and has
nothing to make one from, so a run without dormitories goes the way of the nation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from topdown.model.geography import Geography
from topdown.model.kinds import Kinds
from topdown.model.narrow import Narrow, narrow
from topdown.model.public import Rules
from topdown.solve.answers import Ranges
from topdown.solve.chain import Chain, NoFlow, Places
from topdown.solve.exact import NodeTable
from topdown.solve.groups import Ints
from topdown.solve.implied.classify import Verdict
from topdown.solve.level import LevelModel
from topdown.solve.polytopes import AllLeaves, Polytopes

Marks = NDArray[np.bool_]
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

    public: Rules
    rules: Rules
    kinds: Kinds
    all_leaves: AllLeaves
    levels: tuple[LevelModel, ...]
    chains: tuple[Chain, ...]
    places: tuple[Places | NoFlow, ...]
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

    open: tuple[Marks, ...]
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
class Known:
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
    public: Rules
    polytopes: Polytopes
    levels: tuple[LevelModel, ...]

    @property
    def chains(self) -> tuple[Chain, ...]:
        """Rounding chain of every level."""
        return self.shape.chains

    @property
    def places(self) -> tuple[Places | NoFlow, ...]:
        """Per level, where lower bounds sit in the rounding chain, or why rounding is no flow."""
        return self.shape.places

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the plan promises of every level."""
        return self.shape.verdicts


def known_from(shape: ReleaseShape, geography: Geography, nodes: NodeFacts) -> Known:
    """Return what is known of a tree, or a part of one, from the shape of the release and the facts of its nodes."""
    n_bounds, n_caps = len(shape.public.bound_cells), len(shape.public.cap_cells)
    lower = tuple(level[:, :n_bounds] for level in nodes.lower)
    public = replace(shape.public, open=nodes.open, lower=lower, caps=nodes.caps[:, :n_caps])
    rules = replace(shape.rules, open=nodes.open, lower=nodes.lower, caps=nodes.caps)
    kinds = shape.kinds.at(nodes.lower[-1], nodes.caps)
    polytopes = Polytopes(kinds, rules, geography, nodes.totals, nodes.answers, shape.all_leaves)
    levels = tuple(
        replace(
            level,
            open=nodes.open[i],
            lower=lower[i],
            totals=_of(level.totals, polytopes.totals_at(i)),
            exact=_of(level.exact, nodes.exact[i]),
        )
        for i, level in enumerate(shape.levels)
    )
    return Known(shape, nodes, public, polytopes, levels)


def split_off(
    rules: tuple[Rules, Rules],
    polytopes: Polytopes,
    levels: tuple[LevelModel, ...],
    rounding: tuple[tuple[Chain, ...], tuple[Places | NoFlow, ...]],
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
            open=_none_of(level.open),
            lower=_none_of(level.lower),
            totals=_of(level.totals, _none_of(level.totals.answers)),
            exact=_of(level.exact, _none_of(level.exact.answers)),
        )
        for level in levels
    )
    shape = ReleaseShape(
        public=_of_no_node(rules[0]),
        rules=_of_no_node(full),
        kinds=replace(kinds, low=_none_of(kinds.low), high=_none_of(kinds.high)),
        all_leaves=polytopes.all_leaves,
        levels=bare,
        chains=rounding[0],
        places=rounding[1],
        verdicts=verdicts,
    )
    return shape, nodes


def _of(table: NodeTable, answers: Ints) -> NodeTable:
    return replace(table, answers=answers)


def _of_no_node(rules: Rules) -> Rules:
    is_open = tuple(_none_of(level) for level in rules.open)
    lower = tuple(_none_of(level) for level in rules.lower)
    return replace(rules, open=is_open, lower=lower, caps=_none_of(rules.caps))


def _none_of(rows: NDArray[Row]) -> NDArray[Row]:
    """Return no row, without holding on to those there were."""
    return rows[:0].copy()
