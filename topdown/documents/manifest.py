"""manifest.json."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Count, Part, Sha256


class SealedFile(Part, frozen=True, kw_only=True):
    """One file of the release."""

    path: str
    bytes: Count
    sha256: Sha256


class Manifest(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.manifest"):
    """manifest.json: SHA-256 of every other file of a release."""

    version: Literal[1] = 1
    plan_hash: Sha256
    files: list[SealedFile]
