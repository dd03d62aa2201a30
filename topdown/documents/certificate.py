"""certificate.json."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.plan import BaseRelease, Law
from topdown.documents.shared import (
    Basis,
    Count,
    LossName,
    Neighbours,
    Part,
    Positive,
    Rational,
    ReleaseNames,
    Sha256,
)
from topdown.documents.solve import Comparisons, FailsafeUse
from topdown.documents.statements import ByDelta, CurvePoint, LedgerSecrets, Secrets, Step


class LevelNodes(Part, frozen=True, kw_only=True):
    """Areas of one level."""

    level: str
    nodes: Count


class Summary(Part, frozen=True, kw_only=True):
    """What was released."""

    unit: str
    records: Count
    root: str
    levels: list[LevelNodes]


class UnspentLoss(Part, frozen=True, kw_only=True):
    """Budget of a level that the geography lacks."""

    level: str
    loss: Rational


class UsualEpsilon(Part, frozen=True, kw_only=True):
    """Epsilon by delta of the usual formula, rounded up."""

    label: str
    formula: str
    epsilon: dict[str, Annotated[str, Meta(pattern="^[0-9.]+$")]]


class EverythingReleased(Part, frozen=True, kw_only=True):
    """What the whole ledger costs, up to this release."""

    data_set: str
    neighbours: str
    unit: str
    loss_name: LossName
    charged: Rational
    conditional_on: list[str]
    secrets: LedgerSecrets


class Privacy(Part, frozen=True, kw_only=True):
    """What the release costs, and what is said of each secret."""

    unit: str
    neighbours: Neighbours
    loss_name: LossName
    loss: Rational
    loss_with_base: Rational
    unspent: list[UnspentLoss]
    epsilon: Annotated[ByDelta | None, Meta(description="Of the first secret")]
    usual: UsualEpsilon
    curve: list[CurvePoint] | UnsetType = UNSET
    secrets: Secrets | UnsetType = UNSET
    steps: list[Step] | UnsetType = UNSET
    conditional_on: list[str] | UnsetType = UNSET
    sentence: str | UnsetType = UNSET
    everything_released: EverythingReleased


class PromisedInvariant(Basis, frozen=True, kw_only=True):
    """One promise about public knowledge, and in how many places it says something."""

    kind: Literal["exact", "at_least", "none_where_zero", "at_most"]
    name: str
    level: str
    query: str | UnsetType = UNSET
    n: Count


class StructuralZero(Basis, frozen=True, kw_only=True):
    """Cells that hold no record, by definition."""

    name: str
    n_cells: Count


class MeasuredQuery(Part, frozen=True, kw_only=True):
    """One query and its noise."""

    query: str
    n_answers: Count
    law: Law
    parameter: Rational
    loss: Rational


class MeasuredLevel(Part, frozen=True, kw_only=True):
    """What was drawn at one level."""

    level: str
    n_nodes: Count
    n_measured: Count
    n_numbers: Count
    loss: Rational
    queries: list[MeasuredQuery]


class LevelResidual(Part, frozen=True, kw_only=True):
    """How far the fits of one level are from their optimum, at most."""

    level: str
    max_kkt_residual_persons: float


class Solver(Part, frozen=True, kw_only=True):
    """How far fits are from their optimum, at most."""

    n_problems: Count
    n_unconverged: Count
    max_kkt_residual_persons: float
    levels: list[LevelResidual]


class ChargedIntent(Part, frozen=True, kw_only=True):
    """One charge of the ledger."""

    seq: Count
    plan_hash: Sha256
    loss: Rational
    state: Literal["open", "committed", "void"]
    release: str
    attempt: Positive
    covers: list[str]


class LedgerHead(Part, frozen=True, kw_only=True):
    """The ledger up to this release."""

    lines: Count
    head: Sha256
    charged: Rational
    intents: list[ChargedIntent]


class PassedCheck(Part, frozen=True, kw_only=True):
    """One check of the release's files."""

    name: str
    ok: bool
    text: str
    n_checked: Count
    n_failed: Count


class SoftRule(Basis, frozen=True, kw_only=True):
    """A rule that is kept where possible."""

    name: str
    times: Positive


class ComparedRules(Comparisons, frozen=True, kw_only=True):
    """Soft rules, and how they were kept."""

    rules: list[SoftRule]


class Certificate(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.certificate"):
    """certificate.json: what is exact, what was drawn, what it cost, what was checked."""

    version: Literal[1] = 1
    engine: str
    release: ReleaseNames
    plan_hash: Sha256
    stamps: list[Literal["NOT-A-RELEASE", "DEMO", "DRAFT"]]
    open_answers: list[str]
    summary: Summary
    privacy: Privacy
    invariants: list[PromisedInvariant]
    structural_zeros: list[StructuralZero]
    measurements: list[MeasuredLevel]
    solver: Solver
    failsafe: list[FailsafeUse]
    ledger: LedgerHead
    checks: list[PassedCheck]
    software: dict[str, str]
    files: dict[str, Sha256]
    base: BaseRelease | UnsetType = UNSET
    comparisons: ComparedRules | UnsetType = UNSET
