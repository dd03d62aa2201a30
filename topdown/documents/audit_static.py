"""The document of `topdown audit`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from topdown.documents.shared import Neighbours, Part, Sha256
from topdown.documents.statements import Composed, CurvePoint, Secrets, Step


class AuditStatic(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.audit.static"):
    """The result of topdown audit --json."""

    version: Literal[1] = 1
    engine: str
    neighbours: Neighbours
    plan_hash: Sha256
    certificate_agrees: bool | None
    deltas: list[str]
    secrets: Secrets
    conditional_on: list[str]
    steps: list[Step]
    curve: list[CurvePoint]
    composed: Composed | UnsetType = UNSET
    sentence: str
