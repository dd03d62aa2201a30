"""selection.json: what a choice is asked, all of it public, before a record is read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from topdown.documents.json_schema import either
from topdown.documents.shared import Neighbours, Part, Positive, Rational, Sha256


class Candidate(Part, frozen=True, kw_only=True):
    """A candidate, with the district whose limit it counts towards, and where it lies in degrees; null if not said."""

    name: str
    district: str | None
    latitude: str | None
    longitude: str | None


class AskedSites(Part, frozen=True, kw_only=True):
    """Which k candidates cover many records."""

    kind: Literal["sites"]
    candidates: list[Candidate]
    coverage_sha256: Annotated[Sha256, Meta(description="Of public/coverage.csv")]
    k: Positive
    per: Annotated[str | None, Meta(description="What districts are; null without a limit by district")]
    most: Annotated[int, Meta(ge=1, description="The most candidates of one district")]


class AskedOrder(Part, frozen=True, kw_only=True):
    """An order of all candidates in which every record soon meets one that covers it."""

    kind: Literal["order"]
    candidates: list[Candidate]
    coverage_sha256: Annotated[Sha256, Meta(description="Of public/coverage.csv")]
    most_records: Annotated[
        Positive | None,
        Meta(description="Public bound on the number of records, for thresholds; null: by choices"),
    ]


class AskedFrequent(Part, frozen=True, kw_only=True):
    """Which answers of queries many records share in an area."""

    kind: Literal["frequent"]
    level: str
    queries: list[str]
    symbols: Annotated[int, Meta(ge=1, description="Areas x answers of the largest query")]
    cap: Annotated[int, Meta(ge=1, description="How many reports a record takes part in at most")]
    threshold: Annotated[int, Meta(ge=1, description="Records of the sample that a report asks for")]
    light: Annotated[int, Meta(ge=0, description="So many records are reported with a small chance only")]
    heavy: Annotated[
        int, Meta(ge=1, description="So many are reported but for a small chance, below the cap")
    ]
    failing: Annotated[Rational, Meta(description="Both chances, over all reports together")]


class Selection(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.selection"):
    """selection.json; plan_hash is the SHA-256 of all the rest."""

    version: Literal[1] = 1
    data_set: str
    unit: str
    neighbours: Neighbours
    schema: str
    geography_sha256: Sha256
    epsilon: Rational
    rate: Annotated[Rational, Meta(description="Each record enters the sample with this probability")]
    base: Annotated[Rational, Meta(description="e^epsilon that one more record of the sample may cost")]
    question: Annotated[dict[str, Any], either(AskedSites, AskedOrder, AskedFrequent)]
    plan_hash: Sha256
