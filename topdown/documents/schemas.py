"""The document of `topdown schema` without a name."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Part


class Schemas(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.schemas"):
    """The result of topdown schema --json: documents and their titles."""

    version: Literal[1] = 1
    schemas: dict[str, str]
