"""The document of `topdown account`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Count, Enclosure, Neighbours, Part, Positive, Rational
from topdown.documents.statements import ByDelta, UsualConversions


class Composed(Part, frozen=True, kw_only=True):
    """Measurements that are alike."""

    rho: Rational
    variance: Rational
    count: Positive


class Account(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.account"):
    """The result of topdown account --json."""

    version: Literal[2] = 2
    engine: str
    neighbours: Neighbours
    rho: Rational
    measurements: list[Composed]
    n_measurements: Count
    counts_per_measurement: Literal[1, 2]
    n_counts_moved: Positive
    mu: float
    delta: Annotated[dict[str, Enclosure], Meta(description="Enclosure by epsilon")]
    epsilon: ByDelta
    trade_off: Annotated[dict[str, Enclosure], Meta(description="Enclosure by false-alarm rate")]
    usual: UsualConversions
    best_guess: Enclosure
    right_in_100: Annotated[int, Meta(ge=50)]
    sentence: str
