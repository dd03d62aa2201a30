"""The document of `pgsr compare`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from pgsr.documents.shared import Calibration, Truth
from topdown.documents.shared import Part, Positive, Rational

NotNegative = Annotated[float, Meta(ge=0)]
ByLevel = Annotated[list[NotNegative], Meta(min_length=1)]


class ComparedMechanism(Part, frozen=True, kw_only=True):
    """Mean errors of one mechanism, by level."""

    mechanism: str
    calibration: Calibration
    totals: Annotated[Literal["public", "not public"], Meta(description="Numbers of groups of regions")]
    claimed: Rational
    true_epsilon: Rational
    private_as_claimed: bool
    l1: ByLevel
    emd: Annotated[ByLevel, Meta(description="In persons")]
    coverage: Annotated[
        list[Annotated[float, Meta(ge=0, le=1)]] | None,
        Meta(description="Part of the cells with groups within their intervals; null of peers"),
    ]
    violations: NotNegative
    seconds: NotNegative
    repeats: Positive


class Compare(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.compare"):
    """The result of pgsr compare --json: errors of mechanisms, computed from true counts."""

    version: Literal[3] = 3
    engine: str
    stamp: Literal["NOT-A-RELEASE"] = "NOT-A-RELEASE"
    truth: Truth | None
    shape: str
    levels: Annotated[list[str], Meta(min_length=1)]
    rows: Annotated[list[ComparedMechanism], Meta(min_length=1)]
