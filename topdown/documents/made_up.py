"""The mark of a made-up table, a small file beside it."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Part, Sha256


class MadeUp(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.made_up"):
    """FILE.made-up.json: the mark of a made-up table."""

    version: Literal[1] = 1
    generator: str
    seed: int
    sha256: Sha256
