"""The document of `topdown noise --continuous`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Enclosure, Part, Positive, Rational


class LatticeLaw(Part, frozen=True, kw_only=True):
    """Noise on multiples of the width: P(first + j widths) = weights[j] / 2^bits."""

    first: int
    weights: list[Annotated[str, Meta(pattern="^[0-9]+$")]]
    bits: Positive
    delta_needed: Annotated[str, Meta(description="Decimal, rounded up")]


class NoiseContinuous(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise.continuous"):
    """The result of topdown noise --continuous --json."""

    version: Literal[1] = 1
    epsilon: Rational
    delta: Rational
    sensitivity: Rational
    loss: Literal["l1", "l2"]
    cells: Positive
    width: Rational
    least_loss: Annotated[Enclosure, Meta(description="Least expected loss of real noise")]
    lattice: LatticeLaw
    lattice_loss: Annotated[str, Meta(description="Decimal, rounded up")]
    compared: Annotated[
        dict[str, float], Meta(description="Expected loss of other noise, in floats, not certified")
    ]
    sentences: list[str]
