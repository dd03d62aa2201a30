"""What `topdown noise` writes and prints: a noise law with its proof, and what is said of the best noise."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.formats.common import Count, Enclosure, Part, Positive, Rational

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
