"""From the plans of a release and of those it extends, and the public files: every secret and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, count

from topdown.verify.change_losses import ChangeLoss, MovedCounts, loss_of
from topdown.verify.exact_arithmetic import fraction
from topdown.verify.neighbour_changes import Closing, DerivedChange, Limit, Statistic, derive_changes
from topdown.verify.noise_laws import n_counts_moved
from topdown.verify.plan_reader import PlanFile
from topdown.verify.public_tree import Facts, Tree
from topdown.verify.query_labels import Reading, identity_reading, query_groups, read_below, selected_values
from topdown.verify.strict_reader import unreadable


@dataclass(frozen=True)
class Measured:
    """One query at one level: what can change its answers, and the noise on each of them."""

    depth: int
    attributes: frozenset[str]
    parameter: Fraction
    delta: Fraction
    weights: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ChainedRelease:
    """One release of a chain, how its attributes read in the newest, and the places with its own public facts."""

    plan: PlanFile
    reading: Reading
    tree: Tree

    @property
    def measured(self) -> list[Measured]:
        """What it measures."""
        return [
            Measured(
                self.tree.names.index(level.name),
                frozenset(query_groups(self.plan.schema, m.query, self.reading)),
                fraction(m.parameter),
                self.plan.delta_of_count(m),
                tuple(m.weights or ()),
            )
            for level in self.plan.doc.levels
            for m in level.measurements
        ]


@dataclass(frozen=True, eq=False)
class DerivedPrivacy:
    """All that a certificate may say of secrets.

    Args:
        changes: the kinds of change and what exact statistics say of them.
        conditional_on: names of all exact statistics.
        public_facts: whether rules narrow what an answer can be.
        steps: release id, plan hash, and the loss of each kind of change, for each release of the chain, oldest first.
        losses: of each kind of change, of the chain together; None where it is disclosed.
        first: weights and epsilon of one count of what the first kind of change moves, and how many counts.
    """

    changes: tuple[DerivedChange, ...]
    conditional_on: tuple[str, ...]
    public_facts: bool
    steps: tuple[tuple[str, str, tuple[ChangeLoss | None, ...]], ...]
    losses: tuple[ChangeLoss | None, ...]
    first: tuple[tuple[tuple[str, ...], Fraction, int], ...]


Below = dict[str, tuple[PlanFile, Facts]]  # newest first, by path: a plan and its public facts


def steps_of(plan: PlanFile, below: Below, tree: Tree) -> tuple[ChainedRelease, ...]:
    """Return every release of the chain, oldest first; UnreadableError (V160) if a base does not fit its extension.

    Args:
        plan, tree: of the release.
        below: those it extends.
    """
    out = [ChainedRelease(plan, identity_reading(plan.schema), tree)]
    for path, (base, facts) in below.items():
        above = out[-1]
        names = above.plan.base.map if above.plan.base is not None else ()
        try:
            reading = read_below(above.plan.schema, above.reading, base.schema, names)
        except (ValueError, KeyError) as error:
            raise unreadable("V160", path, f"does not fit the release above it: {error}") from None
        out.append(ChainedRelease(base, reading, replace(tree, facts=facts)))
    return tuple(reversed(out))


def derive_privacy(plan: PlanFile, below: Below, tree: Tree) -> DerivedPrivacy:
    """Derive everything anew; UnreadableError (V160) if the plans of the chain do not fit together."""
    steps = steps_of(plan, below, tree)
    for step, path in zip(steps, [*reversed(below), "plan.json"], strict=True):
        strange = [level.name for level in step.plan.doc.levels if level.name not in tree.names]
        strange += [e.level for e in step.plan.rules.exact if e.level not in tree.names]
        if strange:
            raise unreadable("V160", path, f"has a level {strange[0]!r} that the geography lacks")
    statistics = _statistics(steps, tree)
    changes = derive_changes(
        plan.schema,
        tree,
        _closings(steps),
        _limits(steps),
        statistics,
        whole=[kind for kind, _ in plan.relation.stated],
    )
    measured, shift = [step.measured for step in steps], plan.relation.shift

    def each(rows: Sequence[Measured]) -> tuple[ChangeLoss | None, ...]:
        return tuple(
            None if c.status == "disclosed" else loss_of(plan.law, _counts_moved(c, rows, tree, shift))
            for c in changes
        )

    return DerivedPrivacy(
        changes,
        tuple(s.name for s in statistics),
        any(s.plan.rules.closing or s.plan.rules.bounds for s in steps),
        tuple(
            (s.plan.doc.release.id, s.plan.computed_hash, each(rows))
            for s, rows in zip(steps, measured, strict=True)
        ),
        each([m for rows in measured for m in rows]),
        tuple(
            (m.weights, moved.parameter, moved.n)
            for rows in measured
            for m in rows
            for moved in _counts_moved(changes[0], [m], tree, shift)
        ),
    )


def _counts_moved(
    change: DerivedChange, rows: Sequence[Measured], tree: Tree, shift: int
) -> Iterable[MovedCounts]:
    """Return the counts that a change moves by `shift`: one it leaves and one it enters, or one alone for presence."""
    n_counts = n_counts_moved(change.kind)
    for m in rows:
        if change.kind == "attribute" and change.of not in m.attributes:
            continue
        if change.kind == "within_level" and m.depth <= tree.names.index(change.of):
            continue
        yield MovedCounts(m.parameter, shift, n_counts, m.delta, m.weights)


def _statistics(steps: Sequence[ChainedRelease], tree: Tree) -> list[Statistic]:
    out: list[Statistic] = []
    for step in steps:
        doc = step.plan.doc
        for e in step.plan.rules.exact:
            taken = {s.name for s in out}
            tries = chain([e.name, f"{e.name} ({doc.release.id})"], _numbered_names(e.name, doc.release.id))
            name = next(name for name in tries if name not in taken)
            groups = query_groups(step.plan.schema, e.query, step.reading)
            out.append(Statistic(name, tree.names.index(e.level), groups))
    return out


def _numbered_names(name: str, release: str) -> Iterator[str]:
    return (f"{name} ({release}, {n})" for n in count(2))


def _closings(steps: Sequence[ChainedRelease]) -> list[Closing]:
    """Return the rules that close cells, of every release by its own public facts."""
    out = []
    for step in steps:
        for rule in step.plan.rules.closing:
            values = selected_values(step.plan.schema, rule.cells, step.reading)
            out.append(Closing(rule.name, values, rule.closed(step.tree.facts, step.tree.n_leaves)))
    return out


def _limits(steps: Sequence[ChainedRelease]) -> list[Limit]:
    """Return the rules that bound counts, of every release by its own public facts."""
    out = []
    if not any(rule.is_most for step in steps for rule in step.plan.rules.bounds):
        return []  # lower bounds alone leave room for any record more
    for step in steps:
        for rule in step.plan.rules.bounds:
            values = selected_values(step.plan.schema, rule.cells, step.reading)
            numbers = rule.numbers(step.tree.facts)
            ends = [False] * rule.is_least + [True] * rule.is_most
            out += [Limit(rule.name, values, numbers, is_most) for is_most in ends]
    return out
