"""Neighbour steps by name: which are covered, in which order, and what a ledger calls them together."""

from __future__ import annotations

from collections.abc import Sequence

from pgsr.vectors import RELATIONS, Relation
from topdown.errors import ConfigError

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
    """Return the neighbour relation as a ledger is bound to it: "move", "move+new", "move+new of size 0 or 1"."""
    words: dict[str, str] = {"new": "new of size 0 or 1"} if smallest == 0 else {}
    return "+".join(words.get(relation, relation) for relation in relations)
