"""The document of `topdown generate`, `resolve`, `extend` and `demo`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.shared import Count, LossName, Part, Rational, Sha256
from topdown.documents.verify import Verify


class Generate(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.generate"):
    """The result of topdown generate --json, and of resolve, extend and demo."""

    version: Literal[1] = 1
    engine: str
    release_id: str
    release: Annotated[str, Meta(description="Folder of the release")]
    plan_hash: Sha256
    loss_name: LossName
    loss: Rational
    delta: Rational | UnsetType = UNSET
    seconds: Annotated[dict[str, float], Meta(description="Wall time by stage")]
    peak_memory_bytes: Count
    n_records: Count
    n_splits: Count
    n_failsafe: Count
    checks: Verify
