"""The document of `topdown noise`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.noise_law import NoiseLaw
from topdown.documents.shared import Part

Up = Annotated[str, Meta(description="Decimal, rounded up")]
Down = Annotated[str, Meta(description="Decimal, rounded down")]


class OtherNoise(Part, frozen=True, kw_only=True):
    """Noise of another kind that keeps the same promise."""

    name: str
    parameter: str
    expected_loss: Annotated[str, Meta(description="Decimal of nine digits")]
    saved_percent: Annotated[str, Meta(description="What the optimal law saves of that loss, rounded down")]


class Noise(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise"):
    """The result of topdown noise --json."""

    version: Literal[1] = 1
    law: NoiseLaw
    expected_loss: Up
    least_possible_loss: Down
    gap: Annotated[str, Meta(description="Loss over the bound, less 1; rounded up")]
    variance: Up
    delta_at: Annotated[dict[str, Up], Meta(description="The delta that the law needs, by epsilon")]
    others: list[OtherNoise]
