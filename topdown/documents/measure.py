"""The document of `topdown measure`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.shared import Count, LossName, Part, Rational, Sha256


class Measure(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.measure"):
    """The result of topdown measure --json."""

    version: Literal[1] = 1
    release_id: str
    release: Annotated[str, Meta(description="Folder of the release")]
    plan_hash: Sha256
    loss_name: LossName
    loss: Annotated[Rational, Meta(description="Charged for this release, all attempts together")]
    delta: Rational | UnsetType = UNSET
    seconds: Annotated[dict[str, float], Meta(description="Wall time by stage")]
    n_attempts: Annotated[Count, Meta(description="Charges; 1 without a crash")]
    n_drawn: Annotated[Count, Meta(description="Files of noisy answers drawn now")]
    n_adopted: Annotated[Count, Meta(description="Files kept from before")]
