"""What `topdown interval --json` prints."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Count, Part, Rational, Sha256


class IntervalOfAnswer(Part, frozen=True, kw_only=True):
    """One count of a union: released, estimated, and its interval."""

    labels: dict[str, str]
    count: Count
    estimate: float
    stddev: float
    low: Count
    high: Count
    basis: Literal["tree", "exact"]


class IntervalsOfUnion(Part, frozen=True, kw_only=True):
    """The answers of one union that public facts leave open."""

    area: str
    n_areas: Count
    n_leaves: Count
    answers: list[IntervalOfAnswer]


class Intervals(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.interval"):
    """Intervals of unions of areas, from the measurements of a release."""

    version: Literal[1] = 1
    release: str
    plan_hash: Sha256
    query: str
    coverage: Rational
    meaning: str
    unions: list[IntervalsOfUnion]
