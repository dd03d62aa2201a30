"""The smallest change after which a leaf keeps the soft rules that its split could not keep.

Records of one leaf change cell, as few as possible, found by an integer program over the kinds of cells that rules
and bounds tell apart. First only attributes that soft rules speak of may change, so that every table of the others
stays as it is; if that is not enough, any attribute. What must stay exact at a leaf (the answers of exact tables,
the cells of a base release) never changes. Totals stay, at every level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, vstack

from topdown.errors import InternalError
from topdown.model.comparison import comparison_rows
from topdown.model.constraint_table import NO_LIMIT
from topdown.plan.prepare import Context
from topdown.solve.backends.integer_program import IMPOSSIBLE, OPTIMAL, minimise
from topdown.solve.groups import Ints
from topdown.solve.node import Node
from topdown.solve.tally import Tally


@dataclass(frozen=True, eq=False)
class Repairer:
    """Repairs the leaves of one release.

    Args:
        context: plan, public facts, and the base table if there is one.
    """

    context: Context

    @cached_property
    def rows(self) -> Ints:
        """Soft rules, int64 (n_rules, n_cells)."""
        return comparison_rows(self.context.plan.schema, self.context.plan.invariants)

    @cached_property
    def _kept(self) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
        """Labels of the tables that stay as they are: cautious, and as little as is allowed; the first is finest."""
        plan, schema = self.context.plan, self.context.plan.schema
        spoken = {a for r in plan.invariants.no_more_than for a, _ in (*r.cells, *r.than)}
        far = [np.zeros(schema.n_cells, dtype=np.int64)]  # the total
        far += [plan.query(e.query).labels.astype(np.int64) for e in plan.invariants.exact]
        if self.context.support is not None:
            far.append(self.context.support.of_cell)
        values = schema.coordinates(np.arange(schema.n_cells))
        others = [v for a, v in zip(schema.attributes, values, strict=True) if a.name not in spoken]
        return _needed([*far, _number(schema.n_cells, others)]), _needed(far)

    @cached_property
    def _cells_of_answer(self) -> tuple[tuple[Ints, Ints], ...]:
        """For the finest table of both: cells in order of their answer, and the first place of every answer."""
        out = []
        for label, *_ in self._kept:
            order = np.argsort(label, kind="stable")
            out.append((order, np.searchsorted(label[order], np.arange(int(label.max()) + 2))))
        return tuple(out)

    def within(self, context: Context) -> Repairer:
        """Return what mends the leaves of a part of the tree; what does not depend on leaves is shared."""
        other = replace(self, context=context)
        vars(other).update({name: made for name, made in vars(self).items() if name != "context"})
        return other

    def finish(self, leaf: Node, tally: Tally) -> Node:
        """Return the leaf with all soft rules kept, or as it is if no change does that; both are reported."""
        if not len(self.rows):
            return leaf
        held = self.rows[:, leaf.cells] @ leaf.counts
        if not (held > 0).any():
            return leaf
        code = self.context.geography.leaves.codes[leaf.index]
        names = [
            r.name for r, h in zip(self.context.plan.invariants.no_more_than, held, strict=True) if h > 0
        ]
        for cautious in (True, False):
            repaired, proved = self._repaired(leaf, cautious=cautious)
            if repaired is not None:
                distance = self._check(leaf, repaired)
                tally.repairs.append(
                    {
                        "node": code,
                        "distance": distance,
                        "marginals_kept": cautious,
                        "proved": proved,
                        "constraints": names,
                    }
                )
                return repaired
        tally.broken.append({"node": code, "proved": proved, "constraints": names})
        return leaf

    def _repaired(self, leaf: Node, *, cautious: bool) -> tuple[Node | None, bool]:
        # The second value: whether this is proved to be the smallest change, or that there is none.
        labels = self._kept[0 if cautious else 1]
        order, first = self._cells_of_answer[0 if cautious else 1]
        answers = np.unique(labels[0][leaf.cells])
        cells = np.concatenate([order[first[a] : first[a + 1]] for a in answers])
        for label in labels[1:]:
            cells = cells[np.isin(label[cells], label[leaf.cells])]
        rules = self.context.rules
        cells = np.union1d(cells[rules.open[-1][leaf.index, rules.class_of_cell[cells]]], leaf.cells)
        held = np.zeros(len(cells), dtype=np.int64)
        held[np.searchsorted(cells, leaf.cells)] = leaf.counts
        bounds = [*zip(rules.bound_cells, rules.lower[-1][leaf.index], strict=True)]
        caps = [*zip(rules.cap_cells, rules.caps[leaf.index], strict=True)]
        inside = np.array([c[cells] for c, _ in bounds + caps], dtype=np.int64).reshape(-1, len(cells))
        fixed = np.array([label[cells] for label in labels])
        signature = np.vstack([fixed, self.rows[:, cells], inside])
        alike = np.unique(signature, axis=1, return_inverse=True)[1].reshape(-1)
        target = self._favourites(cells, held, alike)
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
        result = minimise(
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

    def _favourites(self, cells: Ints, held: Ints, alike: Ints) -> Ints:
        """Return one place for each set of cells that are alike: where most records of the leaf have its values.

        "Its values" are those of the attributes that soft rules speak of; the lowest cell wins a tie.
        """
        plan = self.context.plan
        spoken = {a for r in plan.invariants.no_more_than for a, _ in (*r.cells, *r.than)}
        values = plan.schema.coordinates(cells)
        of_rules = [v for a, v in zip(plan.schema.attributes, values, strict=True) if a.name in spoken]
        label = _number(len(cells), of_rules)
        common = np.bincount(label, weights=held.astype(np.float64))[label]
        order = np.lexsort((cells, -common, -held, alike))
        return order[np.flatnonzero(np.diff(alike[order], prepend=-1))]

    def _check(self, before: Node, after: Node) -> int:
        """Re-check a repair in integers and return its L1 distance in records."""
        rules = self.context.rules
        broken = ""
        is_open = rules.open[-1][after.index, rules.class_of_cell[after.cells]]
        if (after.counts <= 0).any() or not is_open.all():
            broken = "records where none may be"
        elif any(_changed(label, before, after) for label in self._kept[1]):
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


def _number(n: int, labels: list[Ints] | list[NDArray[np.int64]]) -> Ints:
    """Return a number for every combination of labels, 0..; all equal if there are none."""
    number = np.zeros(n, dtype=np.int64)
    for label in labels:
        number = number * (int(label.max(initial=0)) + 1) + label
        number = np.unique(number, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return number


def _needed(labels: list[Ints]) -> tuple[Ints, ...]:
    """Return the tables of which no other is a refinement, the one with most answers first."""
    ranked = sorted(labels, key=lambda label: -len(np.unique(label)))
    out: list[Ints] = []
    for label in ranked:
        if not any(
            _number(len(label), [fine, label]).max() == _number(len(fine), [fine]).max() for fine in out
        ):
            out.append(label)
    return tuple(out)


def _changed(label: Ints, before: Node, after: Node) -> bool:
    """Tell whether a table of two nodes differs."""
    change = np.zeros(int(label.max()) + 1, dtype=np.int64)
    np.add.at(change, label[after.cells], after.counts)
    np.subtract.at(change, label[before.cells], before.counts)
    return bool(change.any())
