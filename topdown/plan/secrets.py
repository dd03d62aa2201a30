"""What a plan, its public facts and the releases it extends say of each change of one record, before any noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from topdown.errors import ConfigError
from topdown.model.changes import Change, KnownStatistic, find_changes
from topdown.model.constraint import Selection
from topdown.model.constraint_table import CLOSING, leaf_rows, of_kinds
from topdown.model.geography import Geography
from topdown.model.possible import ValueBound, Values, Zero
from topdown.model.public import PublicFacts
from topdown.model.reading import Reading, groups_of, read_in, same, then
from topdown.model.schema import Schema
from topdown.plan.plan import Plan


@dataclass(frozen=True, eq=False)
class Extended:
    """A release that is extended: its plan, and the public facts that it was made from."""

    plan: Plan
    facts: PublicFacts


@dataclass(frozen=True, eq=False)
class ReleaseChain:
    """A plan, the releases it extends, and the public facts: all that statements are made from.

    Args:
        plan, facts: of the release.
        bases: the releases it extends, oldest first.
        geography: of all of them.
    """

    plan: Plan
    bases: tuple[Extended, ...]
    geography: Geography
    facts: PublicFacts

    @cached_property
    def steps(self) -> tuple[tuple[Plan, Reading], ...]:
        """Every plan, oldest first, and how its attributes read in the schema of the newest."""
        out = [(self.plan, same(self.plan.schema))]
        for base in reversed(self.bases):
            above, reading = out[-1]
            names = dict(above.base.map) if above.base is not None else {}
            out.append((base.plan, then(read_in(above.schema, base.plan.schema, names), reading)))
        return tuple(reversed(out))

    @cached_property
    def known(self) -> tuple[KnownStatistic, ...]:
        """The exact statistics of every step, each under a name of its own."""
        found: dict[str, KnownStatistic] = {}
        for plan, reading in self.steps:
            for exact in plan.invariants.exact:
                name, n = exact.name, 1
                while name in found:
                    name = f"{exact.name} ({plan.release.id}{f', {n}' * (n > 1)})"
                    n += 1
                depth = self.geography.index(exact.level)
                found[name] = KnownStatistic(name, depth, groups_of(plan.query(exact.query), reading))
        return tuple(found.values())

    @property
    def loss(self) -> Fraction:
        """Total rho or epsilon of the plan and of those it extends."""
        return sum((plan.loss for plan in (*(b.plan for b in self.bases), self.plan)), Fraction(0))

    @property
    def conditional_on(self) -> tuple[str, ...]:
        """Names of all statistics that are exact."""
        return tuple(k.name for k in self.known)

    @property
    def has_public_facts(self) -> bool:
        """Whether rules that hold for every true population narrow what an answer can be."""
        kinds = ("never", "none_where_zero", "at_least", "at_most")
        return any(getattr(plan.invariants, kind) for plan, _ in self.steps for kind in kinds)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What exact statistics and public facts say of each kind of change; the neighbours' own comes first."""
        zeros, bounds = [], []
        limited = any(
            plan.invariants.at_most for plan, _ in self.steps
        )  # else lower bounds leave room for anybody
        for (plan, reading), facts in zip(
            self.steps, (*(b.facts for b in self.bases), self.facts), strict=True
        ):
            rows = leaf_rows(plan.schema, plan.invariants, facts.columns, self.geography)
            for row in of_kinds(rows, *CLOSING, *(("at_least", "at_most") if limited else ())):
                values, above = _values(plan.schema, reading, row.selection), row.kind == "at_most"
                if row.kind in CLOSING:
                    zeros.append(Zero(row.name, values, row.high == 0))
                else:
                    bounds.append(ValueBound(row.name, values, row.high if above else row.low, above))
        return find_changes(self.plan.schema, self.geography, self.known, zeros, bounds, self.plan.neighbours)


def _values(schema: Schema, reading: Reading, cells: Selection) -> Values:
    out = {}
    for name, labels in cells:
        here, value = reading[name]
        inside = [label in labels for label in schema.attribute(name).labels]
        out[here] = tuple(inside[v] for v in value)
    return out


def check_guarantee(policy: ReleaseChain) -> None:
    """Refuse a plan whose neighbours all differ in what is exact: its guarantee would speak of nothing (C120)."""
    first = policy.changes[0]
    if first.status != "disclosed":
        return
    if first.kind == "presence" and policy.known:
        names = ", ".join(f'"{name}"' for name in policy.conditional_on)
        raise ConfigError(
            f"with neighbours = add_remove every record more or less changes {names}, which "
            f"{'is' if len(policy.known) == 1 else 'are'} published exactly: the guarantee would be empty",
            code="C120",
            fix='use neighbours = "bounded", or leave the exact statistics out of the invariants',
            key=("neighbours",),
        )
    names = ", ".join(f'"{name}"' for name in first.exact)
    raise ConfigError(
        f"no two data sets that differ in one record agree on {names}: the guarantee would be empty",
        code="C120",
        fix="keep fewer statistics exact, close fewer cells, or leave out bounds that meet",
        key=("invariants",),
    )
