"""Neighbour steps: which may be covered, what each means in words, and which exact statistic shows it.

The noise protects two data sets that are neighbours *and agree on every exact statistic*. The number of groups is
always exact, so a step that changes it is disclosed, whatever the noise; where groups past the last size are
refused, the release also tells that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgsr.hierarchy import Sizes
from topdown.errors import ConfigError
from topdown.privacy.relation import GROUP_SIZES_PROTECT, GROUP_STEPS

WHOLE_GROUPS = {"household", "appears"}
"""Steps of which a whole group is the unit; the second is protected by no release, so that it never stands alone."""


def default_steps(smallest: int) -> tuple[Relation, ...]:
    """Return the neighbour steps covered unless others are named: where size 0 is listed, no group is new."""
    return ("move", "new") if smallest else ("move",)


def steps_in_order(relations: Sequence[str]) -> tuple[Relation, ...]:
    """Return neighbour steps in one order and each once, or ConfigError C168: none, unknown, or no such set."""
    wrong = [name for name in relations if name not in RELATIONS]
    if wrong or not relations:
        raise ConfigError(
            f"unknown neighbour step {wrong[0]!r}" if wrong else "no neighbour step is protected",
            code="C168",
            fix=f"use one or more of: {', '.join(RELATIONS)}",
        )
    if not WHOLE_GROUPS.isdisjoint(relations) and not {"household"} <= set(relations) <= WHOLE_GROUPS:
        raise ConfigError(
            "household and appears are steps of whole groups, the others of one person: one release has one unit",
            code="C168",
            fix="name household, with appears or alone, or leave both out",
        )
    return tuple(relation for relation in RELATIONS if relation in relations)


def stated_steps(covered: Sequence[Relation]) -> tuple[Relation, ...]:
    """Return the steps that a release speaks of: those the noise covers; of a whole group both, covered or not."""
    return ("household", "appears") if "household" in covered else tuple(covered)


def relation_name(relations: tuple[Relation, ...], smallest: int) -> str:
    """Return the neighbour relation that a ledger is charged under, such as "steps of group sizes: move+new"."""
    words: dict[str, str] = {"new": "new of size 0 or 1"} if smallest == 0 else {}
    names = "+".join(words.get(relation, relation) for relation in relations)
    return names if "household" in relations else GROUP_STEPS + names


def bound_relation(relations: tuple[Relation, ...], smallest: int) -> str:
    """Return the relation of a ledger for a release: of persons who are there or not, or its steps of whole groups."""
    return relation_name(relations, smallest) if "household" in relations else GROUP_SIZES_PROTECT


NUMBER = "number of groups"
PUBLIC = "public numbers of groups of regions"


@dataclass(frozen=True)
class NeighbourStep:
    """A neighbour step in words, and the exact statistics that it alters.

    Args:
        relation: the step.
        name: whose secret it is.
        neighbours: how the two data sets differ.
        always, sometimes: exact statistics that every such step alters, and that some do.
    """

    relation: str
    name: str
    neighbours: str
    always: tuple[str, ...]
    sometimes: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Return "presence" of somebody, or the "size" of a group."""
        return "size" if self.relation == "household" else "presence"

    @property
    def status(self) -> str:
        """Return "disclosed", "conditional" or "protected"."""
        return "disclosed" if self.always else "conditional" if self.sometimes else "protected"


def exact_statistics(sizes: Sizes, public: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of what is true of the data and published without noise."""
    too_large = () if sizes.too_large == "top-code" else (f"no group larger than {sizes.largest}",)
    return (NUMBER, *too_large, *((PUBLIC,) if public else ()))


def step_in_words(relation: str, sizes: Sizes, public: Mapping[str, int], unit: str) -> NeighbourStep:
    """Return what a neighbour step means for the sizes and public facts of a release."""
    _, *others = exact_statistics(sizes, public)
    totals = tuple(name for name in others if name == PUBLIC)
    if relation in KEEP_NUMBERS:
        of_one, how = (
            (f"presence of one {unit} in a group", "changes its size by one")
            if relation == "move"
            else (f"size of one {unit}", "has any other size")
        )
        too_large = tuple(name for name in others if name != PUBLIC)
        return NeighbourStep(
            relation,
            f"{of_one} that is counted either way",
            f"one group of one leaf region {how}",
            (),
            too_large,
        )
    if relation == "new":
        size = "1" if sizes.smallest == 1 else "0 or 1"
        name = f"presence of one {unit} with whom a group of size {size} appears"
        return NeighbourStep(
            relation, name, f"one group of size {size} appears or disappears", (NUMBER,), totals
        )
    if relation == "appears":
        name = f"presence of one {unit}, whatever its size"
        return NeighbourStep(
            relation, name, "one group of any size appears or disappears", (NUMBER,), tuple(others)
        )
    last = f"{sizes.largest}{' or more' if sizes.too_large == 'top-code' else ''}"
    name = f"presence of one group of the last size, {last}"
    return NeighbourStep(relation, name, f"one group of size {last} appears or disappears", (NUMBER,), totals)


def step_sentence(this: NeighbourStep, right_in_100: int, known: tuple[str, ...]) -> str:
    """Return the sentence an official can quote."""
    tell = (
        "which of two sizes one group has"
        if this.kind == "size"
        else "whether one group has one more in it or not"
    )
    return (
        f"Someone who reads only this release, knows everybody else, and must tell {tell}, both of which fit what is "
        f"exact ({', '.join(known)}), chooses rightly at most {right_in_100} times in 100; a coin gives 50."
    )


def unit_means(unit: str, relations: Sequence[str]) -> str:
    """Return what the unit of privacy means, in one sentence."""
    if "household" in relations:
        return f"one {unit} is one whole group, whatever its size"
    return f"one {unit} adds at most one to the size of one group"


Relation = Literal["move", "new", "dropped", "household", "appears"]
RELATIONS: tuple[Relation, ...] = ("move", "new", "dropped", "household", "appears")
PERSON_STEPS = RELATIONS[:3]
KEEP_NUMBERS: tuple[Relation, ...] = ("move", "household")
"""Steps that leave the number of groups of every region as it is: one person in or out, or any other size."""
