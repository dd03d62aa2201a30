"""The document of `topdown noise`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.noise_law import NoiseLaw
from topdown.documents.shared import Part, Positive

Up = Annotated[str, Meta(description="Decimal, rounded up")]
Down = Annotated[str, Meta(description="Decimal, rounded down")]


class OtherNoise(Part, frozen=True, kw_only=True):
    """Noise of another kind that keeps the same promise."""

    name: str
    parameter: str
    expected_loss: Annotated[str, Meta(description="Decimal of nine digits")]
    saved_percent: Annotated[str, Meta(description="What the optimal law saves of that loss, rounded down")]


class SharedNoise(Part, frozen=True, kw_only=True):
    """Noise of several answers that keep the promise together, each moved by 1 by one record: variances, computed."""

    n_answers: Positive
    variance: Annotated[str, Meta(description="Of the best noise for one answer, tuned for so many")]
    gaussian_variance: Annotated[str, Meta(description="Of Gaussian noise that keeps the same")]
    ratio: Annotated[str, Meta(description="Above 1, Gaussian noise is better")]


class Noise(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise"):
    """The result of topdown noise --json."""

    version: Literal[1] = 1
    law: NoiseLaw
    expected_loss: Up
    least_possible_loss: Down
    gap: Annotated[
        str, Meta(description="Loss over the bound, less 1 (the difference where the bound is 0); rounded up")
    ]
    variance: Up
    delta_at: Annotated[dict[str, Up], Meta(description="The delta that the law needs, by epsilon")]
    others: list[OtherNoise]
    several: Annotated[
        list[SharedNoise], Meta(description="For sensitivity 1 and one promise, where it was compared")
    ]
