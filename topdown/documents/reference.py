"""The document of `topdown schema run`, schema, invariants, settings and geography."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Part


class ReferenceKey(Part, frozen=True, kw_only=True):
    """One key of an input file."""

    key: str
    type: str
    default: str
    required: bool
    text: str
    example: str
    codes: list[str]


class ReferenceTable(Part, frozen=True, kw_only=True):
    """One table of an input file; empty for its top."""

    table: str
    keys: list[ReferenceKey]


class Reference(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.reference"):
    """What can stand in an input file."""

    version: Literal[1] = 1
    file: str
    title: str
    tables: list[ReferenceTable]
