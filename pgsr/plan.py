"""What a person decides before a release: what is counted and covered, with which noise, and what is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgsr.budget import Budget
from pgsr.ledger import DATA_SET, UNIT, binding_of
from pgsr.mechanism import PARENT, Mechanism, mechanism_named, vector_kind
from pgsr.sizes import Sizes
from pgsr.steps import default_steps, steps_in_order
from pgsr.vectors import Kind, Relation
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.ledger.records import Binding


@dataclass(frozen=True)
class Plan:
    """What is released and how it is measured; all of it public, so none of it may be taken from the data.

    Args:
        sizes: public range of sizes.
        budget: how much may be lost, and how it is divided.
        mechanism: see `mechanism.MECHANISMS`.
        direction: sums over sizes from the largest ("tail", default) or the smallest ("cumulative").
        relations: neighbour steps that the noise covers: "move" (a group's size changes by one), "new" (one person
            founds a group), "dropped" (a group of the last size disappears). G is published exactly, so only
            "move" is protected; it must be among them. Or "household": a group has any other size; with it, if at
            all, "appears": a group of any size appears or disappears. Default: move, and new where groups of size
            0 are not listed.
        unit: who adds one to the size of a group, in one word; with "household" what a group is, such as "household".
        total: number of groups G, checked against the data; None to publish the data's own.
        public: number of groups of some regions, checked against the data; what is released agrees with them.

    Raises:
        ConfigError: unknown mechanism (C153), direction (C154) or step (C168); "household" without a unit
            of its own (C185).
    """

    sizes: Sizes
    budget: Budget
    mechanism: str = PARENT
    direction: str = "tail"
    relations: Sequence[Relation] | None = None
    unit: str = UNIT
    total: int | None = None
    public: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        vector_kind(mechanism_named(self.mechanism), self.direction)
        if "household" in self.steps and self.unit == UNIT:
            raise ConfigError(
                f"household protects whole groups, so that no {UNIT} is its unit",
                code="C185",
                fix="name what a group is: --unit household",
            )

    @property
    def post_processing(self) -> Mechanism:
        """The mechanism that the plan names."""
        return mechanism_named(self.mechanism)

    @property
    def kind(self) -> Kind:
        """What is measured."""
        return vector_kind(self.post_processing, self.direction)

    @property
    def steps(self) -> tuple[Relation, ...]:
        """The neighbour steps that the noise covers."""
        chosen = default_steps(self.sizes.smallest) if self.relations is None else self.relations
        return steps_in_order(chosen)

    def binding(self, data_set: str = DATA_SET) -> Binding:
        """Return what the ledger of a data set must be bound to (ConfigError C130: a name that is no file's)."""
        return binding_of(data_set, self.steps, self.sizes.smallest, self.unit, self.budget.noise)
