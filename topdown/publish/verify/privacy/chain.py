"""From the plans of a release and of those it extends, and the public files: every secret and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topdown.model.constraint import Never, NoneWhereZero
from topdown.publish.verify.arithmetic import fraction
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.privacy.board import Closing
from topdown.publish.verify.privacy.changes import OwnChange, Statistic, own_changes
from topdown.publish.verify.privacy.labels import (
    Reading,
    as_it_is,
    groups_of,
    inside,
    read_below,
)
from topdown.publish.verify.privacy.losses import Loss, Moved, loss_of
from topdown.publish.verify.reader import unreadable
from topdown.publish.verify.tree import Tree, closed_leaves

_FACTS = ("never", "none_where_zero", "at_least", "at_most")


@dataclass(frozen=True)
class Measured:
    """One query at one level: what can change its answers, and the parameter of its noise."""

    depth: int
    attributes: frozenset[str]
    parameter: Fraction


@dataclass(frozen=True, eq=False)
class Step:
    """One release of a chain, and how its attributes read in the newest."""

    plan: PlanFile
    reading: Reading

    def measured(self, tree: Tree) -> list[Measured]:
        """Return what it measures."""
        return [
            Measured(
                tree.names.index(level.name),
                frozenset(groups_of(self.plan.schema, m.query, self.reading)),
                fraction(m.parameter),
            )
            for level in self.plan.doc.levels
            for m in level.measurements
        ]


@dataclass(frozen=True, eq=False)
class Own:
    """All that a certificate may say of secrets.

    Args:
        changes: the kinds of change and what exact statistics say of them.
        conditional_on: names of all exact statistics.
        public_facts: whether rules narrow what an answer can be.
        steps: release id, plan hash, and the loss of each kind of change, for each release of the chain, oldest first.
        losses: of each kind of change, of the chain together; None where it is disclosed.
    """

    changes: tuple[OwnChange, ...]
    conditional_on: tuple[str, ...]
    public_facts: bool
    steps: tuple[tuple[str, str, tuple[Loss | None, ...]], ...]
    losses: tuple[Loss | None, ...]


def steps_of(plan: PlanFile, below: dict[str, PlanFile]) -> tuple[Step, ...]:
    """Return every release of the chain, oldest first; UnreadableError (V160) if a base does not fit its extension.

    Args:
        plan: of the release.
        below: plans of those it extends, newest first, by path.
    """
    out = [Step(plan, as_it_is(plan.schema))]
    for path, base in below.items():
        above = out[-1]
        names = above.plan.doc.base.map if above.plan.doc.base is not None else ()
        try:
            reading = read_below(above.plan.schema, above.reading, base.schema, names)
        except (ValueError, KeyError) as error:
            raise unreadable("V160", path, f"does not fit the release above it: {error}") from None
        out.append(Step(base, reading))
    return tuple(reversed(out))


def own_statements(plan: PlanFile, below: dict[str, PlanFile], tree: Tree) -> Own:
    """Derive everything anew; UnreadableError (V160) if the plans of the chain do not fit together."""
    steps = steps_of(plan, below)
    for step, path in zip(steps, [*reversed(below), "plan.json"], strict=True):
        strange = [level.name for level in step.plan.doc.levels if level.name not in tree.names]
        strange += [e.level for e in step.plan.doc.invariants.exact if e.level not in tree.names]
        if strange:
            raise unreadable("V160", path, f"has a level {strange[0]!r} that the geography lacks")
    statistics, closings = _statistics(steps, tree), _closings(steps, tree)
    changes = own_changes(plan.schema, tree, closings, statistics, plan.doc.neighbours)
    measured = [step.measured(tree) for step in steps]

    def each(rows: Sequence[Measured]) -> tuple[Loss | None, ...]:
        return tuple(
            None if c.status == "disclosed" else loss_of(plan.law, _moved(c, rows, tree)) for c in changes
        )

    return Own(
        changes,
        tuple(s.name for s in statistics),
        any(getattr(s.plan.doc.invariants, kind) for s in steps for kind in _FACTS),
        tuple(
            (s.plan.doc.release.id, s.plan.computed_hash, each(rows))
            for s, rows in zip(steps, measured, strict=True)
        ),
        each([m for rows in measured for m in rows]),
    )


def _moved(change: OwnChange, rows: Sequence[Measured], tree: Tree) -> Iterable[Moved]:
    """Return the counts that a change moves by one: one that it leaves and one that it enters, or one for presence."""
    for m in rows:
        if change.kind == "attribute" and change.of not in m.attributes:
            continue
        if change.kind == "within_level" and m.depth <= tree.names.index(change.of):
            continue
        yield m.parameter, 1, 1 if change.kind == "presence" else 2


def _statistics(steps: Sequence[Step], tree: Tree) -> list[Statistic]:
    out: list[Statistic] = []
    for step in steps:
        doc = step.plan.doc
        for e in doc.invariants.exact:
            taken = any(s.name == e.name for s in out)
            name = f"{e.name} ({doc.release.id})" if taken else e.name
            groups = groups_of(step.plan.schema, e.query, step.reading)
            out.append(Statistic(name, tree.names.index(e.level), groups))
    return out


def _closings(steps: Sequence[Step], tree: Tree) -> list[Closing]:
    """Return the rules that close cells; of releases that are extended those that hold at every leaf."""
    out = []
    for step in steps:
        rules = step.plan.doc.invariants
        every: list[Never | NoneWhereZero] = [*rules.never]
        if step is steps[-1]:
            every += rules.none_where_zero
        for rule in every:
            leaves = (
                np.ones(tree.n_leaves, dtype=bool)
                if isinstance(rule, Never)
                else closed_leaves(tree, rule.columns)
            )
            out.append(Closing(rule.name, inside(step.plan.schema, rule.cells, step.reading), leaves))
    return out
