"""What one unit of privacy may change: the neighbour relation, its sensitivities, its words, and what a ledger binds.

Nothing else asks which relation it is. A new unit or relation is an edit here, one where schemas name their unit, one
in the check of the records, and one in verify.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Protocol, get_args

from topdown.errors import ConfigError
from topdown.formats.common import Neighbours

BOTH_FIT = "both of which fit"
NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)
GROUP_STEPS = "steps of group sizes: "
"""How a charge for group sizes begins the name of its relation; the steps follow, as in "move+new"."""


class Change(Enum):
    """How two neighbouring data sets differ; the values are the names in plans and ledgers."""

    REPLACE = "bounded"
    ADD_REMOVE = "add_remove"


class CountQuery(Protocol):
    """A query whose answers each count some records."""

    def record_weight(self) -> int:
        """Return how much one record adds to the one answer, of one area, that counts it; derived from the query."""


@dataclass(frozen=True)
class StatedChange:
    """One kind of change that a statement about a whole relation has a row for.

    Args:
        kind: presence, everything, or step (one step of a relation that is named by its steps).
        name: of the row.
        asked: what an attacker must tell.
        fit: how it goes on where what is exact or public follows.
        neighbours: relation whose change it is; see `steps_between`.
    """

    kind: str
    name: str
    asked: str
    fit: str
    neighbours: str


@dataclass(frozen=True)
class Relation:
    """Which data sets are neighbours.

    Args:
        change: what one unit may change.
        unit: whose answers are protected, as the schema names it.
        most_records: records of one unit, at most; records must be checked against it where it is more than 1.
    """

    change: Change
    unit: str = "person"
    most_records: int = 1

    @classmethod
    def named(cls, neighbours: str, unit: str = "person") -> Relation:
        """Return the relation that plans and ledgers call `neighbours`; ConfigError A013 if there is none."""
        try:
            return cls(Change(neighbours), unit)
        except ValueError:
            names = " or ".join(f'"{change.value}"' for change in Change)
            raise ConfigError(f"neighbours is {neighbours!r}", code="A013", fix=f"write {names}") from None

    @property
    def shifts(self) -> tuple[int, ...]:
        """By how much each count moves that a neighbour moves in one measurement of a level, all in the worst case.

        A record is counted once in a measurement: a replaced one leaves a count and enters another, which may be in
        another area; an added or removed one changes one count.
        """
        more = self.most_records
        return (more, -more) if self.change is Change.REPLACE else (more,)

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

    @property
    def states_presence(self) -> bool:
        """Whether neighbours differ in that a record is there; a replaced record is stated too."""
        return self.change is Change.ADD_REMOVE

    def sampled_odds(self, rate: Fraction, base: Fraction) -> Fraction:
        """Return e^epsilon of a mechanism on a Poisson sample that is one-sided with `base` (selection/PROOF.md, 1).

        Args:
            rate: of the sample, 0 .. 1, below 1.
            base: at most by which a record that is added to the sample multiplies the chance of an outcome, above 1.
        """
        added, removed = 1 + rate * (base - 1), 1 / (1 - rate)
        if self.change is Change.ADD_REMOVE:
            return max(added, removed)
        return added * removed if rate else Fraction(1)

    @property
    def verb(self) -> str:
        """What neighbours are made by: "replace one record"."""
        return "replace one record" if self.change is Change.REPLACE else "add or remove one record"

    @property
    def noun(self) -> str:
        """The change as a noun: "a record replaced"."""
        return "a record replaced" if self.change is Change.REPLACE else "a record added or removed"

    @property
    def unit_changed(self) -> str:
        """The change of a unit: "One person replaced"."""
        return f"One {self.unit} {'replaced' if self.change is Change.REPLACE else 'added or removed'}"


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
    if charged.startswith(GROUP_STEPS):
        return 1 if neighbours == Change.ADD_REMOVE.value else None
    return 2 if (neighbours, charged) == (Change.REPLACE.value, Change.ADD_REMOVE.value) else None


def stated_changes(neighbours: str, unit: str) -> tuple[StatedChange, ...]:
    """Return the changes that a statement about a ledger's relation speaks of, the relation's own first.

    Args:
        neighbours: as the ledger is bound: bounded, add_remove, or names of steps of whole groups.
        unit: of privacy.
    """
    asked = f"which of two answers one {unit} gave"
    replaced = StatedChange("everything", f"one {unit}, everything", asked, BOTH_FIT, "bounded")
    if neighbours == Change.REPLACE.value:
        return (replaced,)
    if neighbours == Change.ADD_REMOVE.value:
        asked = f"whether one {unit}'s answers were there at all"
        return StatedChange(
            "presence", f"one {unit}, presence", asked, "where both fit", "add_remove"
        ), replaced
    asked = f"which of two data sets one step apart ({neighbours}) is the true one"
    return (StatedChange("step", f"one step of {neighbours}", asked, BOTH_FIT, neighbours),)
