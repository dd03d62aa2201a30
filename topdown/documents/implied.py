"""The document of `topdown implied`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from topdown.documents.shared import Count, Part

Needs = Literal["nothing", "combination_table"]
ExampleName = Literal["college-town", "two-by-two", "appendix", "seven-counties"]


class Verdict(Part, frozen=True, kw_only=True):
    """What is proved of the splits of one level."""

    level: str
    kind: Literal["complete_integral", "complete", "always_splits", "not_guaranteed", "refused"]
    theorems: list[str]
    needs: Needs
    sentence: str
    constraints: list[str]
    code: str


class TitledVerdict(Verdict, frozen=True, kw_only=True):
    """A verdict with its promise in words; extensions, which always split, are judged by topdown plan."""

    kind: Literal["complete_integral", "complete", "not_guaranteed", "refused"]
    title: str


class AlgebraLine(Part, frozen=True, kw_only=True):
    """One constraint, and what implies it."""

    algebra: str
    reason: str


class RefusedTable(Part, frozen=True, kw_only=True):
    """A table that no leaves add up to, and the constraint that it breaks."""

    table: list[int]
    breaks: str


class CellKind(Part, frozen=True, kw_only=True):
    """Cells that no constraint tells apart."""

    name: str
    n_cells: Count
    n_leaves: Count


class Combination(Part, frozen=True, kw_only=True):
    """Areas where the same kinds are open."""

    symbol: str
    kinds: list[str]
    n_areas: Count


class Area(Part, frozen=True, kw_only=True):
    """One concrete area and its constraints."""

    level: str
    node: str
    leaf_level: str
    n_leaves: Count
    kinds: list[CellKind]
    lines: list[AlgebraLine]
    limits: list[str]
    n_more: Count
    leaves: list[Combination]
    total_level: str
    totals: list[Combination]


class Implied(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.implied"):
    """The result of topdown implied --json."""

    version: Literal[1] = 1
    invariants: str | UnsetType = UNSET
    example: ExampleName | UnsetType = UNSET
    facts: list[str] | UnsetType = UNSET
    constraints: list[AlgebraLine]
    verdicts: list[TitledVerdict] | UnsetType = UNSET
    elimination_agrees: bool | UnsetType = UNSET
    refused: RefusedTable | UnsetType | None = UNSET
    area: Area | UnsetType = UNSET
