"""What a choice is published as: selection.json, result.json, certificate.json; and the self-check."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from topdown.formats.common import Enclosure, EverythingReleased, Neighbours, Part, Positive, Rational, Sha256
from topdown.formats.json_schema import either


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


class Frequent(Part, frozen=True, kw_only=True):
    """An answer of a query that was reported in an area; `values` is empty for the query total."""

    query: str
    area: str
    values: dict[str, str]


class SelectionResult(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.selection.result"):
    """The result of topdown select; the order of `chosen` is that of the choices, or of names with districts."""

    version: Literal[1] = 1
    plan_hash: Sha256
    chosen: Annotated[list[str], Meta(description="Names of candidates; empty for frequent answers")]
    frequent: Annotated[list[Frequent], Meta(description="Empty for sites and orders")]


class SelectionCertificate(
    Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.selection.certificate"
):
    """What may be said of a choice."""

    version: Literal[1] = 1
    engine: str
    plan_hash: Sha256
    data_set: str
    unit: str
    neighbours: Neighbours
    epsilon: Annotated[Rational, Meta(description="Pure, for every delta 0")]
    exp_epsilon: Annotated[Rational, Meta(description="e^epsilon that rate and base keep, exact")]
    rate: Rational
    base: Rational
    best_guess: Annotated[Enclosure, Meta(description="The most that the best guess is right, enclosed")]
    right_in_100: int
    sentence: str
    not_protected: list[str]
    n_attempts: Positive
    everything_released: EverythingReleased


class CheckedRatio(Part, frozen=True, kw_only=True):
    """The worst ratio of an outcome's probabilities over small neighbours; null where there is no bound."""

    question: Literal["sites", "sites by district", "order", "order by thresholds", "frequent"]
    neighbours: Neighbours
    worst: Rational | None
    promised: Rational
    holds: bool


class SelectionCheck(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.selection.check"):
    """Exact ratios of the shipped code; they prove the promise for these small data sets only."""

    version: Literal[1] = 1
    holds: bool
    ratios: list[CheckedRatio]
