"""The least change of a table after which it keeps its constraints: the failsafe, its reasons, repairs of soft rules.

Failsafe (Census TopDown, section 7): when a node's table cannot be split, a minimum-cost flow sends every record of the
node through its class of cells to a leaf's place for it. Records may change cell at a cost of 2, the L1 distance: first
only in the attributes that constraints speak of, so that every marginal on the others stays; if that is not enough, in
any attribute. The total and the answers of exact tables at the node's level and above never change. Which constraints
exclude each other there is the smallest set, or an irreducible one.

Repair: a leaf that breaks soft rules changes as few records as possible, found by an integer program over the classes
of cells that rules and bounds tell apart; again first only in attributes that soft rules speak of. What must stay exact
at a leaf (the answers of exact tables, the cells of a base release) never changes. Totals stay, at every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, vstack

from topdown.arrays import Ints
from topdown.errors import InternalError
from topdown.formats.release_documents import Broken, Repair
from topdown.model import (
    NO_LIMIT,
    ConstraintSystem,
    FlowArcs,
    SplitConstraints,
    smallest_conflict,
    soft_rule_rows,
)
from topdown.plan import Plan, PublicContext
from topdown.solve.flows import Network, minimum_cost_flow
from topdown.solve.scipy_programs import IMPOSSIBLE, OPTIMAL, minimise_integer
from topdown.solve.solved_parts import Node, Tally


@dataclass(frozen=True, eq=False)
class RelaxedTable:
    """The closest table that can be split.

    Args:
        table: of the node.
        distance: L1 distance to the table before, in records.
        marginals_kept: whether all marginals on attributes that no constraint speaks of are as before.
    """

    table: Node
    distance: int
    marginals_kept: bool


def relax_to_feasible(
    context: PublicContext, constraints: SplitConstraints, depth: int, children: Ints, parent: Node
) -> RelaxedTable | None:
    """Return the closest table that splits over the children, or None if none has the same total.

    Args:
        context: plan and public facts. constraints: of the release.
        depth: level of the children. children: their indices. parent: with its table.
    """
    arcs = tuple(constraints.arcs(depth, int(child)) for child in children)
    totals, kinds = child_totals(constraints, depth, children), constraints.partition.of_cell
    possible = np.flatnonzero(kinds >= 0)
    exact = _answers_above(context, depth, possible)
    for kept in (True, False):
        keys = [*exact, _unconstrained_values(context, possible)] if kept else exact
        rest = np.unique(np.stack([np.zeros_like(possible), *keys]), axis=1, return_inverse=True)[1].reshape(
            -1
        )
        near = np.isin(rest, rest[np.isin(possible, parent.cells)])
        found = least_change(kinds, arcs, totals, possible[near], rest[near], parent.cells, parent.counts)
        if found is not None:
            new, distance = found
            return RelaxedTable(Node(parent.index, possible[near][new > 0], new[new > 0]), distance, kept)
    return None


def can_split(constraints: SplitConstraints, depth: int, children: Ints, parent: Node) -> bool:
    """Tell whether a table splits over the children, as a maximum flow of its kinds."""
    arcs = tuple(constraints.arcs(depth, int(child)) for child in children)
    totals, kinds = child_totals(constraints, depth, children), constraints.partition.of_cell
    if (kinds[parent.cells] < 0).any():
        return False
    alone = np.arange(len(parent.cells))
    return least_change(kinds, arcs, totals, parent.cells, alone, parent.cells, parent.counts) is not None


def child_totals(constraints: SplitConstraints, depth: int, children: Ints) -> Ints:
    """Return the children's exact totals, -1 where there is none."""
    return np.asarray(constraints.total_at(depth).answers[children].max(axis=1, initial=-1))


def _answers_above(context: PublicContext, depth: int, cells: Ints) -> list[Ints]:
    """Return the answers of cells in every exact table above a level; records may only change cell within them."""
    plan, geography = context.plan, context.geography
    above = [plan.query(e.query) for e in plan.invariants.exact if geography.index(e.level) < depth]
    return [query.labels[cells].astype(np.int64) for query in above if query.factors]


def _unconstrained_values(context: PublicContext, cells: Ints) -> Ints:
    """Return a number for each cell's values of the attributes that no constraint speaks of."""
    schema, rules = context.plan.schema, context.plan.invariants
    varying = (rule for rule in rules.leaf_rules if rule.read_columns)  # others hold for every cell alike
    spoken = {attribute for rule in varying for attribute, _ in rule.cells}
    spoken |= {f.attribute for e in rules.exact for f in context.plan.query(e.query).factors}
    number = np.zeros(len(cells), dtype=np.int64)
    for attribute, values in zip(schema.attributes, schema.coordinates(cells), strict=True):
        if attribute.name not in spoken:
            number = number * len(attribute.labels) + values
    return number


def least_change(
    kind_of_cell: Ints,
    arcs: tuple[FlowArcs, ...],
    totals: Ints,
    candidates: Ints,
    rest: Ints,
    cells: Ints,
    counts: Ints,
) -> tuple[Ints, int] | None:
    """Move as few records as possible between candidates of equal `rest` so that the table splits.

    Args:
        kind_of_cell: int64 (n_cells,). arcs: of the children.
        totals: int64 (n_children,), exact totals; -1 where there is none.
        candidates, rest: cells that may hold records. cells, counts: the table.

    Returns:
        (counts of the candidates, L1 distance), or None if no such table splits.
    """
    n, everybody = len(candidates), int(counts.sum())
    _, group = np.unique(rest, return_inverse=True)
    n_groups, n_kinds = int(group.max(initial=-1)) + 1, int(kind_of_cell.max(initial=-1)) + 1
    held = np.zeros(n, dtype=np.int64)
    place = np.searchsorted(candidates, cells)
    inside = place < n
    inside[inside] &= candidates[place[inside]] == cells[inside]
    if not inside.all():
        return None
    held[place] = counts
    cell, hub, kind = np.arange(n), n + group.reshape(-1), n + n_groups + np.arange(n_kinds)
    start = n + n_groups + n_kinds
    parts: list[tuple[Ints, Ints, Ints | int, Ints | int, int]] = [
        (cell, kind[kind_of_cell[candidates]], 0, everybody, 0)
    ]
    parts += [(cell[held > 0], hub[held > 0], 0, everybody, 1), (hub, cell, 0, everybody, 1)]
    sinks = []
    for one in arcs:
        sinks.append(start)
        node = start + np.arange(one.n_nodes)
        start += one.n_nodes
        # A child's network runs from everybody to the kinds; here the kinds are where records come from.
        parts.append((node[one.heads], node[one.tails], one.low, np.minimum(one.high, everybody), 0))
        used = np.intersect1d(one.heads, 1 + np.arange(n_kinds))
        parts.append((kind[used - 1], node[used], 0, everybody, 0))
    last = start
    known, sink = totals >= 0, np.array(sinks, dtype=np.int64)
    parts.append((sink[~known], np.full(int((~known).sum()), last), 0, everybody, 0))
    columns = [
        np.concatenate([np.broadcast_to(part[i], part[0].shape).astype(np.int64) for part in parts])
        for i in range(5)
    ]
    tails, heads, low, high, cost = columns
    if (high < low).any():
        return None
    supplies = np.zeros(last + 1, dtype=np.int64)
    supplies[:n] = held
    supplies[sink[known]] -= totals[known]
    supplies[last] = int(totals[known].sum()) - everybody
    if supplies[last] > 0 or (known.all() and supplies[last] < 0):
        return None
    np.subtract.at(supplies, tails, low)
    np.add.at(supplies, heads, low)
    flows = minimum_cost_flow(Network(tails, heads, high - low, cost, supplies))
    if flows is None:
        return None
    return flows[:n], int((flows * cost).sum())


MAX_TRIES = 300  # sets that are tried; each is a maximum flow


@dataclass(frozen=True)
class NodeConflict:
    """Constraints without a common table at a node.

    Args:
        names: of bounds and of rules that close cells, in the order of the invariants.
        smallest: whether no set with fewer members conflicts; otherwise only none of these can be left out.
    """

    names: tuple[str, ...]
    smallest: bool


def find_node_conflict(
    context: PublicContext, constraints: SplitConstraints, depth: int, parent: Node
) -> NodeConflict:
    """Return why a node's table does not split; exact totals, exact tables of leaves and `never` are taken as given.

    Args:
        context: plan and public facts. constraints: of the release.
        depth: level of the children. parent: the node at the level above, with its table.
    """
    schema, invariants, geography = context.plan.schema, context.plan.invariants, constraints.geography
    children = np.arange(*geography.child_pointers[depth - 1][parent.index : parent.index + 2])
    inside = constraints.leaf_range(depth - 1, parent.index)
    rows = context.leaf_rows
    asking = [row for row in rows if not row.rule.closes_everywhere and row.asks[inside].any()]
    names, n_asking = [row.name for row in asking], len(asking)
    # The exact table is one more constraint.
    if constraints.has_exact_table and depth <= constraints.unit_depth:
        level = geography.level_names[constraints.unit_depth]
        tables = [e for e in invariants.exact if e.level == level and context.plan.query(e.query).factors]
        names.append(" and ".join(e.name for e in tables))

    def conflicts(kept: frozenset[int]) -> bool:
        left = [
            *(row for row in rows if row.rule.closes_everywhere),
            *(row for i, row in enumerate(asking) if i in kept),
        ]
        system = ConstraintSystem.from_rows(schema, geography, left).with_exact_of(constraints.system)
        weaker = constraints.under(system)
        if n_asking < len(names) and n_asking not in kept:
            weaker = weaker.with_totals(constraints.totals)
        return not can_split(weaker, depth, children, parent)

    found = smallest_conflict(len(names), conflicts, max_tests=MAX_TRIES)
    return NodeConflict(tuple(names[i] for i in sorted(found.members)), found.is_smallest)


@dataclass(frozen=True, eq=False)
class SoftRuleRepair:
    """Repairs the leaves of one release; it knows no node.

    Args:
        plan: of the release.
        rows: soft rules, int64 (n_rules, n_cells).
        base: labels of the table that the leaves have from the release that is extended, int64 (n_cells,), if there is
            one.
    """

    plan: Plan
    rows: Ints
    base: tuple[Ints, ...]

    @staticmethod
    def of_release(context: PublicContext) -> SoftRuleRepair:
        """Return what repairs the leaves of a release."""
        rows = soft_rule_rows(context.plan.schema, context.plan.invariants)
        base = () if context.support is None else (context.support.of_cell,)
        return SoftRuleRepair(context.plan, rows, base)

    @cached_property
    def _kept(self) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
        """Labels of the tables that stay as they are: cautious, and as little as is allowed; the first is finest."""
        plan, schema = self.plan, self.plan.schema
        spoken = {name for rule in plan.invariants.soft_rules for name in rule.attributes}
        far = [np.zeros(schema.n_cells, dtype=np.int64)]  # the total
        far += [plan.query(e.query).labels.astype(np.int64) for e in plan.invariants.exact]
        far += self.base
        values = schema.coordinates(np.arange(schema.n_cells))
        others = [v for a, v in zip(schema.attributes, values, strict=True) if a.name not in spoken]
        return _finest_tables([*far, _combined_labels(schema.n_cells, others)]), _finest_tables(far)

    @cached_property
    def _cells_of_answer(self) -> tuple[tuple[Ints, Ints], ...]:
        """For the finest table of both: cells in order of their answer, and the first place of every answer."""
        out = []
        for label, *_ in self._kept:
            order = np.argsort(label, kind="stable")
            out.append((order, np.searchsorted(label[order], np.arange(int(label.max()) + 2))))
        return tuple(out)

    def finish(self, leaf: Node, system: ConstraintSystem, codes: Sequence[str], tally: Tally) -> Node:
        """Return the leaf with all soft rules kept, or as it is if no change does that; both are reported.

        Args:
            system, codes: constraints and geocodes of the leaves of this part of the tree.
        """
        if not len(self.rows):
            return leaf
        held = self.rows[:, leaf.cells] @ leaf.counts
        if not (held > 0).any():
            return leaf
        code, soft = codes[leaf.index], self.plan.invariants.soft_rules
        names = [rule.name for rule, over in zip(soft, held, strict=True) if over > 0]
        for cautious in (True, False):
            repaired, proved = self._repaired(leaf, system, cautious=cautious)
            if repaired is not None:
                distance = self._check(leaf, repaired, system)
                tally.repairs.append(
                    Repair(
                        node=code,
                        distance=distance,
                        marginals_kept=cautious,
                        proved=proved,
                        constraints=names,
                    )
                )
                return repaired
        tally.broken.append(Broken(node=code, proved=proved, constraints=names))
        return leaf

    def _repaired(self, leaf: Node, rules: ConstraintSystem, *, cautious: bool) -> tuple[Node | None, bool]:
        # The second value: whether this is proved to be the smallest change, or that there is none.
        labels = self._kept[0 if cautious else 1]
        order, first = self._cells_of_answer[0 if cautious else 1]
        answers = np.unique(labels[0][leaf.cells])
        cells = np.concatenate([order[first[a] : first[a + 1]] for a in answers])
        for label in labels[1:]:
            cells = cells[np.isin(label[cells], label[leaf.cells])]
        cells = np.union1d(cells[rules.open[-1][leaf.index, rules.class_of_cell[cells]]], leaf.cells)
        held = np.zeros(len(cells), dtype=np.int64)
        held[np.searchsorted(cells, leaf.cells)] = leaf.counts
        bounds = [*zip(rules.bound_cells, rules.lower[-1][leaf.index], strict=True)]
        caps = [*zip(rules.cap_cells, rules.caps[leaf.index], strict=True)]
        inside = np.array([c[cells] for c, _ in bounds + caps], dtype=np.int64).reshape(-1, len(cells))
        fixed = np.array([label[cells] for label in labels])
        signature = np.vstack([fixed, self.rows[:, cells], inside])
        alike = np.unique(signature, axis=1, return_inverse=True)[1].reshape(-1)
        target = self._cell_of_each_class(cells, held, alike)
        source = np.flatnonzero(held)
        n_up, n = len(target), len(target) + len(source)
        column = np.concatenate([target, source])
        sign = np.concatenate([np.ones(n_up), -np.ones(len(source))])
        parts, low, high = [], [], []

        def between(rows: Ints, least: Ints, most: Ints) -> None:
            parts.append(coo_array(rows[:, column] * sign))
            now = rows @ held
            low.append(np.where(least <= -NO_LIMIT, -np.inf, least - now))
            high.append(np.where(most >= NO_LIMIT, np.inf, most - now))

        for label in fixed:
            same = (label[None, :] == np.unique(label)[:, None]).astype(np.int64)
            between(same, same @ held, same @ held)
        none = np.full(len(self.rows), -NO_LIMIT)
        between(self.rows[:, cells], none, np.zeros(len(self.rows), dtype=np.int64))
        if bounds or caps:
            least = np.array([int(b) for _, b in bounds] + [-NO_LIMIT] * len(caps), dtype=np.int64)
            most = np.array([NO_LIMIT] * len(bounds) + [int(c) for _, c in caps], dtype=np.int64)
            between(inside, least, most)
        result = minimise_integer(
            np.ones(n),
            np.ones(n),
            np.concatenate([np.full(n_up, float(held.sum())), held[source].astype(float)]),
            (vstack(parts).tocsr(), np.concatenate(low), np.concatenate(high)),
        )
        if result.x is None:
            return None, bool(result.status == IMPOSSIBLE)
        change = np.rint(result.x).astype(np.int64)
        new = held.copy()
        np.add.at(new, target, change[:n_up])
        np.subtract.at(new, source, change[n_up:])
        return Node(leaf.index, cells[new > 0], new[new > 0]), bool(result.status == OPTIMAL)

    def _cell_of_each_class(self, cells: Ints, held: Ints, alike: Ints) -> Ints:
        """Choose one cell of each class of cells that no constraint tells apart, to add records to.

        It is the cell with most records of the leaf; then the one whose values, in the attributes that soft rules
        name, are most frequent there; then the lowest.

        Args:
            cells: candidates, (n,). held: records of the leaf in each. alike: class of each.

        Returns:
            indices into `cells`, one a class.
        """
        plan = self.plan
        spoken = {name for rule in plan.invariants.soft_rules for name in rule.attributes}
        values = plan.schema.coordinates(cells)
        of_rules = [v for a, v in zip(plan.schema.attributes, values, strict=True) if a.name in spoken]
        label = _combined_labels(len(cells), of_rules)
        common = np.bincount(label, weights=held.astype(np.float64))[label]
        order = np.lexsort((cells, -common, -held, alike))
        return order[np.flatnonzero(np.diff(alike[order], prepend=-1))]

    def _check(self, before: Node, after: Node, rules: ConstraintSystem) -> int:
        """Re-check a repair in integers and return its L1 distance in records."""
        broken = ""
        is_open = rules.open[-1][after.index, rules.class_of_cell[after.cells]]
        if (after.counts <= 0).any() or not is_open.all():
            broken = "records where none may be"
        elif any(_table_changed(label, before, after) for label in self._kept[1]):
            broken = "a table that must stay as it is"
        elif (self.rows[:, after.cells] @ after.counts > 0).any():
            broken = "a rule it was to keep"
        for cells, least in zip(rules.bound_cells, rules.lower[-1][after.index], strict=True):
            if after.counts[cells[after.cells]].sum() < least:
                broken = "a lower bound that is missed"
        for cells, most in zip(rules.cap_cells, rules.caps[after.index], strict=True):
            if after.counts[cells[after.cells]].sum() > most:
                broken = "an upper bound that is exceeded"
        if broken:
            raise InternalError(f"the repair of a leaf left {broken}", code="X003")
        both = np.union1d(before.cells, after.cells)
        moved = np.zeros(len(both), dtype=np.int64)
        moved[np.searchsorted(both, after.cells)] += after.counts
        moved[np.searchsorted(both, before.cells)] -= before.counts
        return int(np.abs(moved).sum())


def _combined_labels(n: int, labels: list[Ints] | list[NDArray[np.int64]]) -> Ints:
    """Return a number for every combination of labels, 0..; all equal if there are none."""
    number = np.zeros(n, dtype=np.int64)
    for label in labels:
        number = number * (int(label.max(initial=0)) + 1) + label
        number = np.unique(number, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return number


def _finest_tables(labels: list[Ints]) -> tuple[Ints, ...]:
    """Return the tables of which no other is a refinement, the one with most answers first."""
    ranked = sorted(labels, key=lambda label: -len(np.unique(label)))
    out: list[Ints] = []
    for label in ranked:
        if not any(
            _combined_labels(len(label), [fine, label]).max() == _combined_labels(len(fine), [fine]).max()
            for fine in out
        ):
            out.append(label)
    return tuple(out)


def _table_changed(label: Ints, before: Node, after: Node) -> bool:
    """Tell whether a table of two nodes differs."""
    change = np.zeros(int(label.max()) + 1, dtype=np.int64)
    np.add.at(change, label[after.cells], after.counts)
    np.subtract.at(change, label[before.cells], before.counts)
    return bool(change.any())
