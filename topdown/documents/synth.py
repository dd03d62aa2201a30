"""The document of `topdown synth`."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Count, Part


class LevelSize(Part, frozen=True, kw_only=True):
    """Areas of one level."""

    level: str
    n_nodes: Count


class Synth(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.synth"):
    """The result of topdown synth --json."""

    version: Literal[1] = 1
    records: str
    leaves: str
    run_file: str
    n_people: Count
    n_rows: Count
    n_empty: Count
    nodes: list[LevelSize]
