"""The document of `pgsr schema` without a name."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Part


class Schemas(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.schemas"):
    """The result of pgsr schema --json: documents and their titles."""

    version: Literal[1] = 1
    engine: str
    schemas: dict[str, str]
