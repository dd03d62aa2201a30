"""What `topdown plan` and `topdown implied` print: a plan before it is spent, and what is proved of its constraints."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from topdown.formats.common import (
    Basis,
    Charged,
    Composed,
    Count,
    EstimateOfLevel,
    LawName,
    LedgerId,
    LossName,
    Mechanism,
    Neighbours,
    Numbers,
    Part,
    Positive,
    Rational,
    SecretKind,
    SecretOrNone,
    Sha256,
    Stated,
    Status,
    UsualConversions,
)
from topdown.formats.noise_documents import Up
from topdown.formats.release_documents import InvariantKindName

Needs = Literal["nothing", "combination_table"]
ExampleName = Literal["college-town", "two-by-two", "appendix", "seven-counties"]
VerdictKind = Literal["complete_integral", "complete", "always_splits", "not_guaranteed", "refused"]


class Verdict(Part, frozen=True, kw_only=True):
    """What is proved of the splits of one level.

    Complete: every whole table that satisfies the constraints of the level can be split down to the leaves. Integral:
    the rounding of the level is a flow, so a linear program already gives whole numbers. An extension of a release
    always splits, but may leave out tables that would split as well (`solve/extend/extension_checks.py`).

    Args:
        level: name.
        kind: the promise.
        theorems: that give it; numbers are those of Census TopDown.
        needs: constraints enforced beside sums of lower bounds, zeros and exact totals.
        sentence: the verdict with its reason.
        constraints: names of the constraints that stand in the way of a better verdict.
        code: of the error that a plan ends with, if the constraints are refused.
    """

    level: str
    kind: VerdictKind
    theorems: list[str] = field(default_factory=list)
    needs: Needs = "nothing"
    sentence: str
    constraints: list[str] = field(default_factory=list)
    code: str = ""


class TitledVerdict(Verdict, frozen=True, kw_only=True):
    """A verdict with its promise in words; extensions, which always split, are judged by topdown plan."""

    kind: Literal["complete_integral", "complete", "not_guaranteed", "refused"]
    title: str


class AlgebraLine(Part, frozen=True, kw_only=True):
    """One constraint, and what implies it."""

    algebra: str
    reason: str


class RefusedTable(Part, frozen=True, kw_only=True):
    """A table that no leaves add up to, and the constraint that it breaks."""

    table: list[int]
    breaks: str


class CellKind(Part, frozen=True, kw_only=True):
    """Cells that no constraint tells apart."""

    name: str
    n_cells: Count
    n_leaves: Count


class Combination(Part, frozen=True, kw_only=True):
    """Areas where the same kinds are open."""

    symbol: str
    kinds: list[str]
    n_areas: Count


class Area(Part, frozen=True, kw_only=True):
    """What the table of one area must satisfy so that it splits down to the leaves.

    Args:
        level, node: the area. leaf_level: name of the lowest level. n_leaves: leaves of the area.
        kinds: of cells.
        lines: bounds, zeros and exact statistics, added up.
        limits: on sets of kinds, where needed, those that follow from no others; n_more: those beyond the listed.
        leaves: combinations of open kinds among the leaves, by frequency.
        total_level: level of the areas below whose totals are exact, empty if there are none.
        totals: combinations of open kinds among them; `symbol` is the sum of their exact totals.
    """

    level: str
    node: str
    leaf_level: str
    n_leaves: Count
    kinds: list[CellKind]
    lines: list[AlgebraLine]
    limits: list[str]
    n_more: Count
    leaves: list[Combination]
    total_level: str
    totals: list[Combination]


class Implied(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.implied"):
    """The result of topdown implied --json."""

    version: Literal[1] = 1
    invariants: str | UnsetType = UNSET
    example: ExampleName | UnsetType = UNSET
    facts: list[str] | UnsetType = UNSET
    constraints: list[AlgebraLine]
    verdicts: list[TitledVerdict] | UnsetType = UNSET
    elimination_agrees: bool | UnsetType = UNSET
    refused: RefusedTable | UnsetType | None = UNSET
    area: Area | UnsetType = UNSET


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
    law: LawName
    parameter: Rational
    variance: Rational
    stddev: float


class PlannedInvariant(Basis, frozen=True, kw_only=True):
    """One rule about public knowledge, and in how many places it says something."""

    name: str
    kind: InvariantKindName
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


Than = Literal["less", "more", "open"]
"""How much variance discrete Gaussian noise needs for the same promise; open is what quick bounds leave open."""

Better = Literal["discrete_gaussian", "optimal", "neither"]
Method = Literal["composed losses", "sums"]


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
    gaussian_needs: Than | UnsetType = UNSET
    certified: CertifiedLoss
    usual: dict[str, Annotated[str, Meta(pattern="^[0-9.]+$")]]
    public_facts: bool
    conditional_on: list[str]
    changes: Annotated[list[ChangeStatus], Meta(min_length=1)]


class LedgerSpent(Part, frozen=True, kw_only=True):
    """The ledger as it is now; no id while there is none."""

    path: str
    rho_limit: Rational | UnsetType = UNSET
    epsilon_limit: Rational | UnsetType = UNSET
    delta_limit: Rational | UnsetType = UNSET
    charged: Charged
    charged_delta: Rational | UnsetType = UNSET
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
    """One value of a plan that differs: old is null if it is new, new is null if it is gone."""

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
    method: Method
    better: Better
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
    saved: str | None = None
    differs: bool | None = None
    changes: list[ChangedValue] | UnsetType = UNSET
    feasible: Feasible
    estimates: list[EstimateOfLevel] | UnsetType = UNSET
    accuracy: list[ExpectedAccuracy] | UnsetType = UNSET
    base: ExtendedBase | UnsetType = UNSET
    noise_compared: ComparedNoise | UnsetType = UNSET
    budget_for: BudgetFor | UnsetType = UNSET
    compared: ComparedPlan | UnsetType = UNSET

    def __repr__(self) -> str:
        loss = f"{self.privacy.loss_name} {self.privacy.loss}"
        return f"PlanSummary({self.release_id!r}, {loss}, plan {self.plan_hash[:8]}, {len(self.warnings)} warnings)"
