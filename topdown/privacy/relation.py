"""What one unit of privacy may change: the neighbour relation, its sensitivities, its words, and what a ledger binds.

Nothing else asks which relation it is, or how many records a unit has. Another relation is a value here, its name among
`Neighbours`, and verify's own value of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Literal, Protocol

from topdown.errors import ConfigError
from topdown.formats.common import Neighbours, PrivacyUnit, SecretKind

PERSON = PrivacyUnit.read("person")
GROUP_STEPS = "steps of group sizes: "
"""How a charge for group sizes begins the name of its relation; the steps follow, as in "move+new"."""
RecordChange = Literal["presence", "everything"]
"""What may happen to one record: it is there or not, or it is another one."""
_MOVES: dict[RecordChange, tuple[int, ...]] = {"presence": (1,), "everything": (1, -1)}


def n_counts_moved(kind: SecretKind) -> int:
    """Return how many counts of a measurement a change of one record moves: the one it leaves and the one it enters."""
    return len(_MOVES["presence" if kind == "presence" else "everything"])


class CountQuery(Protocol):
    """A query whose answers each count some records."""

    def record_weight(self) -> int:
        """Return how much one record adds to the one answer, of one area, that counts it; derived from the query."""


class CountNoise(Protocol):
    """Noise on counts of records."""

    @property
    def mechanism(self) -> str:
        """Its name in run files."""

    @property
    def adds_over_records(self) -> bool:
        """Whether the loss of several records is the sum of theirs, whichever counts they move."""


@dataclass(frozen=True)
class StatedChange:
    """One kind of change that a statement has a row for.

    Args:
        kind: of a record; or step, one of a relation that is named by its steps.
        name: of the row.
        asked: what an attacker must tell.
        fit: how it goes on where what is exact or public follows.
        neighbours: relation whose change it is; see `steps_between`.
        known: what the attacker knows of the record, beside all other ones.
    """

    kind: SecretKind | Literal["step"]
    name: str
    asked: str
    fit: str
    neighbours: str
    known: str = ""

    def sentence(self, reader: str, unit: str, facts: str, times: int) -> str:
        """Return the sentence to quote of a reader who is right at most so many times in 100.

        Args:
            reader: "Someone who reads only this release". unit: of privacy. times: right choices in 100, rounded up.
            facts: that the answers fit; empty if there are none.
        """
        fit = f", {self.fit} {facts}" if facts else ""
        return (
            f"{reader}, knows every other {_owner(unit)} answers{self.known}, and must tell {self.asked}{fit}, chooses "
            f"rightly at most {times} times in 100; a coin gives 50."
        )


@dataclass(frozen=True)
class Relation:
    """Which data sets are neighbours.

    Args:
        name: in plans and ledgers.
        changes: what may happen to a record, what moves the most counts first.
        verb, participle: of the change, as in "replace one record", "a record replaced".
        made_of: how many changes that another relation is about make one change of this, by its name, and `GROUP_STEPS`
            for those of group sizes of persons; what is not named says nothing of this.
        unit: whose answers are protected. All records of one unit change at once; where a unit has more than one,
            records are checked against the most that it may have.
    """

    name: Neighbours
    changes: tuple[RecordChange, ...]
    verb: str
    participle: str
    made_of: Mapping[str, int] = field(hash=False)
    unit: PrivacyUnit = PERSON

    @classmethod
    def named(cls, neighbours: str, unit: str = "person") -> Relation:
        """Return the relation that plans and ledgers call `neighbours`; ConfigError A013 if there is none."""
        if neighbours not in RELATIONS:
            names = " or ".join(f'"{name}"' for name in RELATIONS)
            raise ConfigError(f"neighbours is {neighbours!r}", code="A013", fix=f"write {names}")
        return replace(RELATIONS[neighbours], unit=PrivacyUnit.read(unit))

    @property
    def most_records(self) -> int:
        """Records of one unit, at most."""
        return self.unit.most_records

    @property
    def shifts(self) -> tuple[int, ...]:
        """By how much each count moves that a neighbour moves in one measurement of a level, all in the worst case.

        A record is counted once in a measurement: a replaced one leaves a count and enters another, which may be in
        another area; an added or removed one changes one count. All records of a unit may leave and enter the same
        counts; where noise loses more if they spread, it is not planned (`check_noise`).
        """
        return tuple(self.most_records * move for move in _MOVES[self.changes[0]])

    @property
    def n_counts(self) -> int:
        """How many counts of a measurement a neighbour moves."""
        return len(self.shifts)

    def l1_sensitivity(self, query: CountQuery) -> int:
        """Return the largest L1 change of the answers of all areas of one level between neighbours; derived."""
        return query.record_weight() * sum(abs(shift) for shift in self.shifts)

    def l2_sensitivity_squared(self, query: CountQuery) -> int:
        """Return the largest squared L2 change of the answers of all areas of one level between neighbours."""
        return query.record_weight() ** 2 * sum(shift * shift for shift in self.shifts)

    def check_noise(self, law: CountNoise) -> None:
        """Refuse noise whose loss is not known for units of several records (ConfigError A081)."""
        if self.most_records > 1 and not law.adds_over_records:
            raise ConfigError(
                f"mechanism {law.mechanism!r} with the unit {self.unit.text!r}: its loss depends on how the records "
                "of one unit spread over counts, and which way is worst is not proved",
                code="A081",
                fix='write mechanism = "geometric" and budget.epsilon, or protect single records with another schema',
                key=("mechanism",),
            )

    def check_rules(self, exact: Sequence[str], bounded: Sequence[str]) -> None:
        """Refuse rules of which it is not known what changes of several records they leave open (ConfigError A082).

        Args:
            exact: names of statistics that are published exactly. bounded: of rules with a most for some count.
        """
        if self.most_records > 1 and (exact or bounded):
            raise ConfigError(
                f"with the unit {self.unit.text!r} no statistic stays exact and no count has a most: "
                + ", ".join(f'"{name}"' for name in (*exact, *bounded)),
                code="A082",
                fix="leave these out of the invariants; structural zeros and lower bounds may stay",
                key=("invariants",),
            )

    def sampled_odds(self, rate: Fraction, base: Fraction) -> Fraction:
        """Return e^epsilon of a mechanism on a Poisson sample that is one-sided with `base` (selection/PROOF.md, 1).

        Args:
            rate: of the sample, 0 .. 1, below 1.
            base: at most by which a record that is added to the sample multiplies the chance of an outcome, above 1.
        """
        odds = {1: 1 + rate * (base - 1), -1: 1 / (1 - rate)}  # of a record that comes, and of one that goes
        moves = _MOVES[self.changes[0]]
        return max(prod((odds[way * move] for move in moves), start=Fraction(1)) for way in (1, -1))

    @property
    def made_by(self) -> str:
        """What neighbours are made by: "replace one record"."""
        if self.most_records > 1:
            return f"{self.verb} all records of one {self.unit.name}"
        return f"{self.verb} one record"

    @property
    def noun(self) -> str:
        """The change as a noun: "a record replaced"."""
        return f"{'a record' if self.most_records == 1 else f'a {self.unit.name}'} {self.participle}"

    @property
    def unit_changed(self) -> str:
        """The change of a unit: "One person replaced"."""
        return f"One {self.unit.name} {self.participle}"

    @property
    def stated(self) -> tuple[RecordChange, ...]:
        """What may happen to a record that its statements speak of: its own changes first, then what follows of others.

        Under add_remove a replaced record is stated too: it is one removed and one added.
        """
        others = (kind for kind in _MOVES if kind not in self.changes)
        return (*self.changes, *(k for k in others if steps_between(_only(k).name, self.name) is not None))


REPLACED = Relation("bounded", ("everything",), "replace", "replaced", {"add_remove": 2})
ADDED_OR_REMOVED = Relation(
    "add_remove", ("presence",), "add or remove", "added or removed", {GROUP_STEPS: 1}
)
RELATIONS: dict[str, Relation] = {relation.name: relation for relation in (REPLACED, ADDED_OR_REMOVED)}
GROUP_SIZES_PROTECT = ADDED_OR_REMOVED.name
"""Relation of a ledger that group sizes of persons are charged to."""


def _only(kind: RecordChange) -> Relation:
    """Return the relation of one change of a record alone."""
    return next(relation for relation in RELATIONS.values() if relation.changes == (kind,))


def steps_between(neighbours: str, charged: str) -> int | None:
    """Return how many changes that a charge is about make one change of a ledger's relation; None if no number does.

    A change of the ledger's own relation is one. A replaced record is one removed and one added: what a charge under
    add_remove says of one record holds twice, and counts of records move in different answers, or cancel.

    Of the steps of group sizes one unit that is there or not takes one, or none: each unit adds at most one to the size
    of one group, so that its group grows or shrinks by one ("move"). Where no group of that size was or is left, the
    number of groups is another, and it is published exactly. A replaced unit is not two such steps: founding a group
    where another one ends keeps the number of groups, and both may move the same answer by one, together by two.
    Nothing is known the other way either, from a replaced record to one that is there or not: the number of records may
    be published exactly then.

    Args:
        neighbours: relation of the ledger. charged: that of the charge.

    Example:
        >>> steps_between("bounded", "add_remove"), steps_between("add_remove", "bounded")
        (2, None)
    """
    if neighbours == charged:
        return 1
    if neighbours not in RELATIONS:
        return None
    return RELATIONS[neighbours].made_of.get(GROUP_STEPS if charged.startswith(GROUP_STEPS) else charged)


def why_not_charged(neighbours: str, unit: str, charged: str, *, is_noise: bool) -> str:
    """Say why a charge says nothing of what a ledger protects; empty if it does.

    Args:
        neighbours, unit: of the ledger. charged: relation of the charge.
        is_noise: whether it is noise on counts of records, whose moves are those of all records of a unit.
    """
    several = PrivacyUnit.read(unit).most_records > 1
    if several and not (is_noise and charged in RELATIONS):
        return f"it speaks of one record, and the ledger of all records of one {unit}"
    if steps_between(neighbours, charged) is not None:
        return ""
    if charged.startswith(GROUP_STEPS):
        return (
            f"what it says of one {unit} who is there or not does not say enough of one who is replaced, or of a "
            "whole group: two steps may move one answer twice, and need not keep the number of groups between them"
        )
    if neighbours in RELATIONS and "presence" in RELATIONS[neighbours].changes:
        return "a release that protects replaced records may publish their number, and then says nothing of one more"
    return "how many of its changes one change of the ledger's relation takes is not known"


def stated_changes(neighbours: str, unit: str) -> tuple[StatedChange, ...]:
    """Return the changes that a statement about a ledger's relation speaks of, the relation's own first.

    Args:
        neighbours: as the ledger is bound: the name of a relation, or names of steps of whole groups.
        unit: of privacy.
    """
    if neighbours not in RELATIONS:
        asked = f"which of two data sets one step apart ({neighbours}) is the true one"
        return (StatedChange("step", f"one step of {neighbours}", asked, "both of which fit", neighbours),)
    return tuple(stated_change(kind, "", unit) for kind in RELATIONS[neighbours].stated)


def stated_change(kind: SecretKind, of: str, unit: str) -> StatedChange:
    """Return what is stated of a change of one record; `of`: the attribute, or the level, that it is about."""
    fit, replaced = "both of which fit", _only("everything").name
    owner = _owner(unit)
    if kind == "attribute":
        known = f" and all of one {owner} but {of}"
        return StatedChange(kind, f"{of} only", "which of two values that is", fit, replaced, known)
    if kind == "within_level":
        place = f"place within one {of}"
        known = f" and all of one {owner} but the {place}"
        return StatedChange(kind, place, "which of two places that is", fit, replaced, known)
    name = f"one {unit}, {kind}"
    if kind == "everything":
        return StatedChange(kind, name, f"which of two answers one {unit} gave", fit, replaced)
    asked = f"whether one {owner} answers were there at all"
    return StatedChange(kind, name, asked, "where both fit", _only(kind).name)


def _owner(unit: str) -> str:
    """Return the possessive of a unit: "person's", "household's"."""
    return f"{PrivacyUnit.read(unit).name}'s"
