"""The document of `topdown explain`."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Part


class ErrorPage(Part, frozen=True, kw_only=True):
    """What an error code means, why it is an error, and how to fix it."""

    code: str
    title: str
    why: str
    fix: str
    example: str


class Explain(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.explain"):
    """The result of topdown explain --json."""

    version: Literal[1] = 1
    pages: list[ErrorPage]
