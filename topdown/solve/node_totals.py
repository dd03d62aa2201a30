"""Exact statistics in the solver's terms: node totals by level, and the tables that are kept beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.errors import DataError, InfeasibleError
from topdown.model import (
    BATCH_LEAVES,
    NO_LIMIT,
    CellPartition,
    ConstraintSystem,
    ExactTable,
    Geography,
    MergedTable,
    arrange_exact_tables,
    coarser_answers,
    exact_tables_of,
    possible_cells,
)
from topdown.plan import PublicContext
from topdown.solve.group_constraints import FixedTable
from topdown.solve.polytopes import deepest_exact_answers


def no_table_fits() -> InfeasibleError:
    """Return the error that an exact table excludes what is below it."""
    return InfeasibleError(
        "the exact table of a place contradicts the public facts or the exact statistics below it",
        code="I013",
        fix="correct the records or the public leaf table, or choose other invariants",
    )


def exact_totals(context: PublicContext, values: dict[str, Any]) -> dict[str, Ints]:
    """Return the exact total of every node of each level that has one.

    Args:
        context: plan and geography.
        values: by invariant name, answers of shape (n_nodes, n_answers) in the order of the level.

    Raises:
        DataError: an exact statistic is missing or has another shape.
    """
    totals: dict[str, Ints] = {}
    for invariant in context.plan.invariants.exact:
        answers = np.asarray(values.get(invariant.name, ()), dtype=np.int64)
        n_nodes = len(context.geography.levels[context.geography.index(invariant.level)])
        if answers.shape != (n_nodes, context.plan.query(invariant.query).n_answers):
            raise DataError(
                f"exact statistic {invariant.name!r} is missing or incomplete in measurements/exact.json",
                code="D051",
                fix="measure again, or get the release again",
            )
        total = answers.sum(axis=1)
        if invariant.level in totals and not np.array_equal(totals[invariant.level], total):
            raise _exact_contradiction(f"two exact totals of level {invariant.level!r} differ", None)
        totals[invariant.level] = total
    return totals


def exact_tables(context: PublicContext, values: dict[str, Any]) -> dict[str, Ints]:
    """Return the exact tables other than totals, by name; `exact_totals` checks their shapes."""
    chosen = [e for e in context.plan.invariants.exact if context.plan.query(e.query).factors]
    return {e.name: np.asarray(values[e.name], dtype=np.int64) for e in chosen}


@dataclass(frozen=True, eq=False)
class NodeAnswers:
    """An exact table of every node of a level; without answers where nothing is exact.

    Args:
        of_cell: int64 (n_cells,), answer of each cell; zeros where nothing is exact.
        answers: int64 (n_nodes, n_answers).
    """

    of_cell: Ints
    answers: Ints

    @staticmethod
    def none(n_cells: int, n_nodes: int) -> NodeAnswers:
        """Return a table without answers."""
        return NodeAnswers(np.zeros(n_cells, dtype=np.int64), np.zeros((n_nodes, 0), dtype=np.int64))

    @property
    def is_told(self) -> bool:
        """Whether there are answers."""
        return bool(self.answers.shape[1])

    @property
    def tells_more(self) -> bool:
        """Whether there are more answers than the total."""
        return bool(self.answers.shape[1] > 1)

    def at(self, index: Ints, cells: Ints) -> FixedTable:
        """Return the answers of some cells at some nodes (InfeasibleError I013: other cells would have records)."""
        if not self.is_told:
            return FixedTable.none(len(cells), len(index))
        present, of = np.unique(self.of_cell[cells], return_inverse=True)
        answers = np.ascontiguousarray(self.answers[index][:, present].T)
        if answers.sum() != self.answers[index].sum():
            raise no_table_fits()
        return FixedTable(of.reshape(-1), answers)

    def may_hold(self, index: Ints, cells: Ints) -> NDArray[np.bool_]:
        """Return which of some cells may hold records at some nodes, bool (n_nodes, n_cells): where no answer is 0."""
        if not self.is_told:
            return np.ones((len(index), len(cells)), dtype=bool)
        return self.answers[index][:, self.of_cell[cells]] > 0


@dataclass(frozen=True, eq=False)
class ExactMargins:
    """Exact tables above the leaves that must be kept beside totals.

    Args:
        split: of the deepest exact level; the totals as one answer if nothing but totals, or a table of the leaves, is
            exact there; without answers where nothing is exact.
        root: the root's own table, without answers where there is none.
    """

    split: NodeAnswers
    root: NodeAnswers


def exact_margins(context: PublicContext, tables: dict[str, Ints], totals: dict[str, Ints]) -> ExactMargins:
    """Return the tables to keep above the leaves; tables that are sums of others are checked and left out.

    Args:
        context: plan and public facts. tables: as from `exact_tables`. totals: as from `exact_totals`.

    Raises:
        InfeasibleError: two exact tables contradict each other; the node is named.
    """
    geography, rules, invariants = context.geography, context.rules, context.plan.invariants
    n_cells, given = context.plan.schema.n_cells, {geography.index(name): n for name, n in totals.items()}
    split = NodeAnswers(np.zeros(n_cells, dtype=np.int64), deepest_exact_answers(geography, given, None))
    if not any(context.plan.query(e.query).factors for e in invariants.exact):
        return ExactMargins(split, NodeAnswers.none(n_cells, 1))
    known = exact_tables_of(context.plan.schema, invariants, geography.level_names)
    kept, reachable = arrange_exact_tables(known, rules, geography.level_names), possible_cells(rules)
    answers = [
        totals[geography.level_names[t.depth]][:, None] if t.is_total else tables[t.name] for t in known
    ]
    for depth, merged in ((0, kept.root_sums), (kept.depth, kept.deepest)):
        if merged is None:
            continue
        held = _merged_answers(merged, answers, len(geography.levels[depth]))
        for table, values in zip(known, answers, strict=True):
            into = coarser_answers(merged, table.labels, reachable)
            if table.depth <= depth and into is not None:
                _check_sums(geography, depth, held, into, table, values)
    if kept.split.tells_more:
        n_nodes = len(geography.levels[kept.depth])
        split = NodeAnswers(kept.split.labels, _merged_answers(kept.split, answers, n_nodes))
    return ExactMargins(split, NodeAnswers(kept.root.labels, _merged_answers(kept.root, answers, 1)))


def _merged_answers(merged: MergedTable, answers: list[Ints], n_nodes: int) -> Ints:
    none = np.zeros(n_nodes, dtype=np.int64)
    columns = [none if s is None else answers[s[0]][:, s[1]] for s in merged.sources]
    return np.array(columns, dtype=np.int64).reshape(-1, n_nodes).T


def _check_sums(
    geography: Geography, depth: int, held: Ints, into: Ints, table: ExactTable, values: Ints
) -> None:
    """Compare a table with the sums of a finer one at the same level or below."""
    added = np.zeros((len(held), values.shape[1]), dtype=np.int64)
    for answer, place in enumerate(into.tolist()):
        if place >= 0:
            added[:, place] += held[:, answer]
    wrong = np.flatnonzero((geography.upward(added, depth, table.depth) != values).any(axis=1))
    if len(wrong):
        code = geography.levels[table.depth].codes[int(wrong[0])]
        raise _exact_contradiction(
            "an exact table of a place is not the sum of the exact tables below it", code
        )


def complete_totals(
    geography: Geography,
    rules: ConstraintSystem,
    kinds: CellPartition,
    exact: dict[str, Ints],
    answers: Ints | None = None,
) -> dict[int, Ints]:
    """Return exact totals by depth, those above the deepest exact level added up from it.

    Args:
        geography, rules, kinds: of the release. exact: exact totals by level name.
        answers: int64 (n_nodes, n_answers), the exact table of the deepest level where kinds have answers.

    Raises:
        InfeasibleError: totals contradict each other, or the public facts below a node; the node is named.
    """
    given = {geography.index(name): values for name, values in exact.items()}
    if not given:
        return {}
    deepest = max(given)
    totals = {deepest: given[deepest]}
    _check_deepest(geography, rules, kinds, deepest, deepest_exact_answers(geography, totals, answers))
    for depth in range(deepest - 1, -1, -1):
        added = geography.upward(totals[depth + 1], depth + 1, depth)
        wrong = np.flatnonzero(added != given.get(depth, added))
        if len(wrong):
            text = "the exact total of a place is not the sum of the exact totals below it"
            raise _exact_contradiction(text, geography.levels[depth].codes[wrong[0]])
        totals[depth] = added
    return totals


def _check_deepest(
    geography: Geography, rules: ConstraintSystem, kinds: CellPartition, depth: int, table: Ints
) -> None:
    """Hold the exact table of the deepest exact level against what its leaves can hold, some leaves at a time."""
    n_leaves, spread = len(geography.leaves), np.flatnonzero(kinds.spread)
    few, many = np.zeros_like(table), np.zeros_like(table)
    boundless = np.zeros(table.shape, dtype=bool)
    least_spread = np.zeros((len(table), len(spread)), dtype=np.int64)
    most_spread = np.zeros_like(least_spread)
    of = [_outermost_sets(kinds, answer, whole=table.shape[1] == 1) for answer in range(table.shape[1])]
    for first in range(0, n_leaves, BATCH_LEAVES):
        here = slice(first, first + BATCH_LEAVES)
        is_open = rules.open[-1][here][:, kinds.class_of]
        least, most = kinds.ranges(is_open, kinds.low[here], kinds.high[here])
        if (least > most).any():
            text = "the exact tables of a place contradict the public facts about it"
            raise _exact_contradiction(
                text, geography.leaves.codes[first + int((least > most).any(axis=1).argmax())]
            )
        node = geography.ancestors_of_leaves[depth][here]
        for answer, (chosen, loose) in enumerate(of):
            free = is_open[:, loose].any(axis=1) | (most[:, chosen] >= NO_LIMIT).any(axis=1)
            np.add.at(few[:, answer], node, least[:, chosen].sum(axis=1))
            np.add.at(many[:, answer], node, np.where(most >= NO_LIMIT, 0, most)[:, chosen].sum(axis=1))
            np.logical_or.at(boundless[:, answer], node, free)
        for i, s in enumerate(spread):
            np.add.at(least_spread[:, i], node, least[:, s])
            np.add.at(most_spread[:, i], node, np.minimum(most[:, s], NO_LIMIT // n_leaves))
    what = "table" if table.shape[1] > 1 else "total"
    text = f"the exact {what} of a place contradicts the public facts about it"
    ends = [*zip(table.T, few.T, np.where(boundless, NO_LIMIT, many).T, strict=True)]
    for i, s in enumerate(spread):
        held = table[:, np.unique(kinds.answer_of[kinds.members[s]])].sum(axis=1)
        ends.append((held, least_spread[:, i], most_spread[:, i]))
    for held, fewest, most_there in ends:
        wrong = np.flatnonzero((held < fewest) | (held > most_there))
        if len(wrong):
            raise _exact_contradiction(text, geography.levels[depth].codes[wrong[0]])


def _outermost_sets(kinds: CellPartition, answer: int, *, whole: bool) -> tuple[Bools, Bools]:
    """Return the outermost sets of an answer's cells, and its kinds in no set, or in one that the table decides."""
    mine = kinds.answer_of == answer
    chosen = (kinds.nest.outer < 0) & ~kinds.spread & ((kinds.members & mine).any(axis=1) | whole)
    return chosen, mine & np.append(kinds.spread, True)[kinds.nest.innermost]


def _exact_contradiction(text: str, node: str | None) -> InfeasibleError:
    fix = "correct the records or the public leaf table, or choose other invariants"
    return InfeasibleError(text, code="I013", node=node, fix=fix)
