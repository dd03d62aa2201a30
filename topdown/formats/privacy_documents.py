"""What `topdown account` and `topdown audit` print: exact losses of measurements, releases, ledgers and runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from topdown.formats.common import (
    ByDelta,
    Charged,
    Composed,
    Count,
    CurvePoint,
    Enclosure,
    EverythingReleased,
    LossName,
    Neighbours,
    Part,
    Positive,
    Rational,
    Secrets,
    Sha256,
    Status,
    Step,
    UsualConversions,
)
from topdown.formats.json_schema import either
from topdown.notebook import card


class ComposedMeasurements(Part, frozen=True, kw_only=True):
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
    measurements: list[ComposedMeasurements]
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


class WorstPair(Part, frozen=True, kw_only=True):
    """The pair of paths that costs most."""

    epsilon: Enclosure
    paths: list[str]


class AccountDhc2020(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.account.dhc2020"):
    """The result of topdown account --dhc2020 --json."""

    version: Literal[2] = 2
    engine: str
    neighbours: Neighbours
    rho: Rational
    n_counts_moved: Positive
    n_paths: Count
    n_pairs: Count
    worst: dict[str, WorstPair]
    unbypassed: ByDelta
    usual: UsualConversions


class AuditStatic(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.audit.static"):
    """The result of topdown audit --json."""

    version: Literal[1] = 1
    engine: str
    neighbours: Neighbours
    plan_hash: Sha256
    certificate_agrees: bool | None
    deltas: list[str]
    secrets: Secrets
    conditional_on: list[str]
    steps: list[Step]
    curve: list[CurvePoint]
    composed: Composed | UnsetType = UNSET
    sentence: str


class PaidRelease(Part, frozen=True, kw_only=True):
    """A release or choice that charged the ledger."""

    release: str
    what: Annotated[Literal["release", "choice"], Meta(description="Noise was drawn, or a choice")]
    plan_hash: Sha256
    loss_name: LossName
    loss: Rational
    delta: Rational | UnsetType = UNSET
    neighbours: Annotated[str, Meta(description="Relation under which it was charged")]
    n_charges: Positive
    n_unfinished: Count


class AuditLedger(
    EverythingReleased, frozen=True, kw_only=True, tag_field="type", tag="topdown.audit.ledger"
):
    """The result of topdown audit --ledger --json."""

    version: Literal[3] = 3
    head: Sha256
    newest: Annotated[bool, Meta(description="A registry confirms that no newer ledger is known")]
    releases: list[PaidRelease]

    def __repr__(self) -> str:
        """Return a line: data set, sums, releases.

        >>> import topdown
        >>> [paid.release for paid in topdown.audit_ledger("release/ledger.jsonl").releases]
        ['made-up']
        """
        return f"AuditLedger({self.data_set!r}, {_sums(self.charged)}, {len(self.releases)} releases)"

    def _repr_html_(self) -> str:
        rows = [
            (one.release, one.what, one.plan_hash[:8], f"{one.loss_name} {one.loss}") for one in self.releases
        ]
        head = ("release", "what", "plan", "loss")
        title = f"Everything released from {self.data_set}: {_sums(self.charged)}"
        return card(title, rows, head=head, note=" ".join(row["sentence"] for row in self.secrets))


def _sums(charged: Charged) -> str:
    return ", ".join(f"{name} {loss}" for name, loss in charged.items()) or "nothing"


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
