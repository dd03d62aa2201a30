"""The document of `pgsr synth`."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Count, Part


class Synth(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.synth"):
    """The result of pgsr synth --json."""

    version: Literal[1] = 1
    engine: str
    shape: str
    folder: str
    groups: Count
