"""The document of `pgsr explain`."""

from __future__ import annotations

from typing import Literal

from topdown.documents.explain import ErrorPage
from topdown.documents.shared import Part


class Explain(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.explain"):
    """The result of pgsr explain --json."""

    version: Literal[1] = 1
    engine: str
    pages: list[ErrorPage]
