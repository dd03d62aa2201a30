"""The document of `topdown plan`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.implied import Verdict
from topdown.documents.noise import Up
from topdown.documents.plan import Law, Mechanism
from topdown.documents.shared import (
    Basis,
    Count,
    EstimateOfLevel,
    LedgerId,
    LossName,
    Neighbours,
    Part,
    Positive,
    Rational,
    Sha256,
)
from topdown.documents.statements import (
    Composed,
    Numbers,
    SecretKind,
    SecretOrNone,
    Stated,
    Status,
    UsualConversions,
)


class PlannedLevel(Part, frozen=True, kw_only=True):
    """What is measured and solved at one level."""

    level: str
    n_nodes: Count
    n_measured: Count
    n_empty: Count
    n_numbers: Count
    loss: Rational
    delta: Rational | UnsetType = UNSET
    share: Rational
    n_solves: Count
    most_children: Count
    most_unknowns: Count


class PlannedQuery(Part, frozen=True, kw_only=True):
    """One query of one level and its noise."""

    level: str
    query: str
    n_answers: Count
    loss: Rational
    delta: Rational | UnsetType = UNSET
    law: Law
    parameter: Rational
    variance: Rational
    stddev: float


class PlannedInvariant(Basis, frozen=True, kw_only=True):
    """One rule about public knowledge, and in how many places it says something."""

    name: str
    kind: Literal["exact", "none_where_zero", "at_least", "never", "at_most", "no_more_than"]
    level: str
    n: Count


class UnspentShare(Part, frozen=True, kw_only=True):
    """Budget of a level that the geography lacks."""

    level: str
    share: Rational


class CertifiedLoss(Numbers, frozen=True, kw_only=True):
    """The neighbours' own secret, with the releases that are extended; `alone` without them."""

    name: str
    kind: SecretKind
    status: Stated
    exact: list[str]
    rho: Rational | UnsetType = UNSET
    mu: float | UnsetType = UNSET
    delta: Rational | UnsetType = UNSET
    usual: UsualConversions | UnsetType = UNSET
    alone: SecretOrNone
    replaced: SecretOrNone


class ChangeStatus(Part, frozen=True, kw_only=True):
    """What exact statistics say of one kind of change."""

    name: str
    kind: SecretKind
    status: Status
    exact: list[str]


class PlannedPrivacy(Part, frozen=True, kw_only=True):
    """What the plan costs."""

    unit: str
    neighbours: Neighbours
    loss_name: LossName
    budget: Rational
    loss: Rational
    loss_with_base: Rational
    delta: Rational | UnsetType = UNSET
    composed: Composed | UnsetType = UNSET
    gaussian_needs: Literal["less", "more", "open"] | UnsetType = UNSET
    certified: CertifiedLoss
    usual: dict[str, Annotated[str, Meta(pattern="^[0-9.]+$")]]
    public_facts: bool
    conditional_on: list[str]
    changes: Annotated[list[ChangeStatus], Meta(min_length=1)]


class LedgerSpent(Part, frozen=True, kw_only=True):
    """The ledger as it is now; no id while there is none."""

    path: str
    limit: Rational
    spent: Rational
    delta_limit: Rational | UnsetType = UNSET
    spent_delta: Rational | UnsetType = UNSET
    n_intents: Count
    id: LedgerId | None


class NeededResources(Part, frozen=True, kw_only=True):
    """Estimates."""

    seconds: float
    memory_bytes: Count
    disk_bytes: Count


class Warned(Part, frozen=True, kw_only=True):
    """A warning, by the page of `topdown explain`."""

    code: str
    text: str


class ChangedValue(Part, frozen=True, kw_only=True):
    """A value that differs from the plan compared with."""

    key: str
    old: str | None
    new: str | None


class QueryNoise(Part, frozen=True, kw_only=True):
    """One query under the compared promise: variances of one answer and their ratio, rounded up; its own promise."""

    level: str
    query: str
    gaussian_parameter: Up
    gaussian_variance: Up
    optimal_variance: Up
    ratio: Up
    epsilon: Rational
    delta: Rational


class ComparedNoise(Part, frozen=True, kw_only=True):
    """Discrete Gaussian noise and the best noise for single counts, both under (epsilon, delta); deltas rounded up."""

    epsilon: Rational
    delta: Rational
    n_counts_moved: Positive
    gaussian_delta: Up
    optimal_delta: Up
    method: Literal["composed losses", "sums"]
    better: Literal["discrete_gaussian", "optimal", "neither"]
    queries: Annotated[list[QueryNoise], Meta(min_length=1)]


class Feasible(Part, frozen=True, kw_only=True):
    """What is proved of the constraints; a plan with contradictions is refused."""

    ok: Annotated[bool, Meta(extra_json_schema={"const": True})]
    verdicts: list[Verdict]


class MappedAttribute(Part, frozen=True, kw_only=True):
    """An attribute of the base, and what it is here."""

    base: str
    here: str


class ExtendedBase(Part, frozen=True, kw_only=True):
    """The release that is extended, and what it leaves open."""

    release_id: str
    plan_hash: Sha256
    schema: str
    map: list[MappedAttribute]
    n_records: Count
    n_patterns: Count
    n_reserved: Count


class BudgetFor(Part, frozen=True, kw_only=True):
    """The budget that costs at most epsilon at delta; `certified` is what it costs there, rounded up."""

    loss_name: LossName
    budget: Rational
    epsilon: Rational
    delta: Rational
    certified: Up


class ExpectedAccuracy(Part, frozen=True, kw_only=True):
    """Mean standard deviation of a table's estimates, records, and half the width of an interval of 95 in 100."""

    level: str
    query: str
    stddev: float
    half_width: float


class DeviationBeside(Part, frozen=True, kw_only=True):
    """Standard deviation at one level, records, of this plan and the other; null where a plan has none."""

    level: str
    query: str
    stddev: float | None
    other: float | None


class ComparedPlan(Part, frozen=True, kw_only=True):
    """Another plan of the same schema: what it costs and needs, and its deviations beside this plan's."""

    plan_hash: Sha256
    title: str
    settings: str
    neighbours: Neighbours
    loss_name: LossName
    loss: Rational
    certified: CertifiedLoss
    n_numbers: Count
    needs: NeededResources
    noise: list[DeviationBeside]
    estimates: list[DeviationBeside]


class PlanSummary(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.plan_summary"):
    """What topdown plan --json prints: the plan, the ledger, estimates and warnings."""

    version: Literal[1] = 1
    engine: str
    plan_hash: Sha256
    release_id: str
    title: str
    data_set: str
    schema: str
    settings: str
    neighbours: Neighbours
    mechanism: Mechanism
    draft: bool
    open_answers: list[str]
    levels: list[PlannedLevel]
    queries: list[PlannedQuery]
    invariants: list[PlannedInvariant]
    unspent: list[UnspentShare]
    privacy: PlannedPrivacy
    ledger: LedgerSpent
    needs: NeededResources
    warnings: list[Warned]
    saved: str | None
    differs: bool | None
    changes: list[ChangedValue] | UnsetType = UNSET
    feasible: Feasible
    estimates: list[EstimateOfLevel] | UnsetType = UNSET
    accuracy: list[ExpectedAccuracy] | UnsetType = UNSET
    base: ExtendedBase | UnsetType = UNSET
    noise_compared: ComparedNoise | UnsetType = UNSET
    budget_for: BudgetFor | UnsetType = UNSET
    compared: ComparedPlan | UnsetType = UNSET
