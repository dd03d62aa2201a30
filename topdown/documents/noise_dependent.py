"""The document of `topdown noise --dependent`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Enclosure, Part, Positive, Rational


class NoiseDependent(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise.dependent"):
    """The result of topdown noise --dependent --json."""

    version: Literal[1] = 1
    epsilon: Rational
    delta: Rational
    sensitivity: Positive
    loss: str
    largest_count: Positive
    minimised: Literal["average", "largest"]
    least_loss: Annotated[Enclosure, Meta(description="Least loss of kernels with these answers")]
    bits: Positive
    weights: Annotated[
        list[list[Annotated[str, Meta(pattern="^[0-9]+$")]]],
        Meta(description="P(answer y | count n) = weights[n][y] / 2^bits"),
    ]
    delta_needed: Annotated[str, Meta(description="Decimal, rounded up")]
    row_losses: Annotated[list[str], Meta(description="Decimals, rounded up")]
    compared: Annotated[dict[str, str], Meta(description="Loss of simple rules, decimals, rounded up")]
    sentences: list[str]
