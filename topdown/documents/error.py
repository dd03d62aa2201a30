"""The document of every error, of both programs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Count, Part


class Error(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.error"):
    """An error of any command, with --json."""

    version: Literal[1] = 1
    code: Annotated[str, Meta(pattern="^[CDBIHVAX][0-9]{3}$", description="Page of `topdown explain`")]
    text: str
    details: list[list[str]]
    file: str | None
    line: Count | None
    column: Count | None
    node: Annotated[str | None, Meta(description="Geocode of the area concerned")]
    key: Annotated[str | None, Meta(description="Path of the key concerned in a TOML file")]
    fix: str
    exit_code: Annotated[int, Meta(extra_json_schema={"enum": [1, 2, 3, 4, 130]})]
