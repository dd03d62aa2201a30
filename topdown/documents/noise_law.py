"""The document of a noise law for one query, with what proves it best."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Count, Part, Positive, Rational

WholeText = Annotated[str, Meta(pattern="^[0-9]{1,40}$", description="Whole number as text")]
Short = Annotated[
    str, Meta(pattern="^[0-9]{1,80}(/[1-9][0-9]{0,80})?$", description="Whole or a fraction a/b")
]


class NoisePromise(Part, frozen=True, kw_only=True):
    """An event is at most e^epsilon times as likely, plus delta, for answers that differ by the sensitivity."""

    epsilon: Rational
    delta: Rational


class NoiseMultipliers(Part, frozen=True, kw_only=True):
    """Multipliers of one promise and shift: `left` before `start`, then `values`, then 0; mirrored below 0."""

    promise: Count
    shift: int
    start: int
    left: Short
    values: list[Short]


class NoiseLaw(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise_law"):
    """A noise law: probabilities weight / 2^bits of whole values from `first` on, and multipliers of a lower bound."""

    version: Literal[1] = 1
    promises: Annotated[list[NoisePromise], Meta(min_length=1, max_length=16)]
    sensitivity: Positive
    loss: Annotated[str, Meta(max_length=100_000, description="l1, l2, pinball:a:b, table:v,v,v:left:right")]
    bits: Literal[128]
    first: int
    weights: Annotated[list[WholeText], Meta(min_length=1, max_length=1_000_000)]
    multipliers: list[NoiseMultipliers]
