"""The document of `pgsr microdata`."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Count, Part


class Microdata(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.microdata"):
    """The result of pgsr microdata --json."""

    version: Literal[1] = 1
    engine: str
    folder: str
    file: str
    groups: Count
    members: Count
    members_exact: bool
