"""The document of `topdown audit --runs`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from topdown.documents.json_schema import either
from topdown.documents.shared import Count, Neighbours, Part, Rational, Sha256
from topdown.documents.statements import Status

ScoreName = Literal["likelihood ratio", "learned"]
End = Annotated[str, Meta(pattern=r"^([0-9]+\.[0-9]+|inf)$")]
ShownClaimed = Annotated[
    tuple[End, End], Meta(description="What runs have shown, rounded down; what is claimed, rounded up")
]


class ReachedSecret(Part, frozen=True, kw_only=True):
    """A secret that pairs of made-up neighbours differ in."""

    name: str
    status: Status
    n_pairs: Count
    exceeds: bool
    best_guess: ShownClaimed
    mu: ShownClaimed
    epsilon: ShownClaimed


class UnreachedSecret(Part, frozen=True, kw_only=True):
    """A secret that no pair differs in."""

    name: str
    status: Status
    n_pairs: Count


class Target(Part, frozen=True, kw_only=True):
    """One query of one level."""

    level: str
    query: str


class NotReached(Target, frozen=True, kw_only=True):
    """A query that no pair with this secret moves."""

    secret: str


class MadeUpRecord(Part, frozen=True, kw_only=True):
    """A record, in the words of the schema."""

    geocode: str
    values: dict[str, str]


class ThresholdTest(Part, frozen=True, kw_only=True):
    """Counted guesses at one threshold."""

    false_alarms: End
    hits: ShownClaimed
    best_guess: ShownClaimed
    mu: ShownClaimed
    epsilon: ShownClaimed
    exceeds: bool


class View(Part, frozen=True, kw_only=True):
    """What the guesser looked at, and how it told the neighbours apart."""

    of: Target | None
    score: ScoreName
    tests: list[ThresholdTest]


class Pair(Part, frozen=True, kw_only=True):
    """Two neighbours: the record of one, and that of the other (null where it is gone)."""

    secret: str
    from_: MadeUpRecord = msgspec.field(name="from")
    to: MadeUpRecord | None
    exceeds: bool
    views: list[View]


class AuditRuns(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.audit.runs"):
    """The result of topdown audit --runs --json."""

    version: Literal[1] = 1
    engine: str
    plan_hash: Sha256
    neighbours: Neighbours
    runs: Count
    delta: Rational
    false_alarm: Rational
    n_pairs: Count
    n_tests: Count
    passes: bool
    code: Literal["A053"] | None
    secrets: Annotated[list[Annotated[Any, either(ReachedSecret, UnreachedSecret)]], Meta(min_length=1)]
    not_reached: list[NotReached]
    pairs: Annotated[list[Pair], Meta(min_length=1)]
