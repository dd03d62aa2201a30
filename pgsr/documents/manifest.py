"""manifest.json of pgsr."""

from __future__ import annotations

from typing import Literal

from pgsr.documents.shared import Engine, Stamp, Whole
from topdown.documents.shared import Part, Sha256


class SealedFile(Part, frozen=True, kw_only=True):
    """One file of a release."""

    sha256: Sha256
    bytes: Whole


class Manifest(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.manifest"):
    """manifest.json: the files of a release and their SHA-256."""

    version: Literal[2] = 2
    engine: Engine
    release: bool
    stamp: Stamp
    files: dict[str, SealedFile]
