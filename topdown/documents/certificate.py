"""certificate.json."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.plan import PlanMeasured
from topdown.documents.shared import (
    Count,
    LossName,
    Neighbours,
    Part,
    Rational,
    Sha256,
)
from topdown.documents.statements import ByDelta, Composed, CurvePoint, LedgerSecrets, Secrets, Step


class UnspentLoss(Part, frozen=True, kw_only=True):
    """Budget of a level that the geography lacks."""

    level: str
    loss: Rational
    delta: Rational | UnsetType = UNSET


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
    charged_delta: Rational | UnsetType = UNSET
    conditional_on: list[str]
    secrets: LedgerSecrets


class Privacy(Part, frozen=True, kw_only=True):
    """What the release costs, and what is said of each secret."""

    unit: str
    neighbours: Neighbours
    loss_name: LossName
    loss: Rational
    loss_with_base: Rational
    delta: Rational | UnsetType = UNSET
    unspent: list[UnspentLoss]
    epsilon: Annotated[ByDelta | None, Meta(description="Of the first secret")]
    usual: UsualEpsilon
    curve: list[CurvePoint] | UnsetType = UNSET
    secrets: Secrets | UnsetType = UNSET
    steps: list[Step] | UnsetType = UNSET
    conditional_on: list[str] | UnsetType = UNSET
    sentence: str | UnsetType = UNSET
    everything_released: EverythingReleased
    composed: Composed | UnsetType = UNSET


class PassedCheck(Part, frozen=True, kw_only=True):
    """One check of the release's files."""

    name: str
    ok: bool
    text: str
    n_checked: Count
    n_failed: Count


class Certificate(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.certificate"):
    """certificate.json: what the release costs, what was checked, and the files that decide it."""

    version: Literal[1] = 1
    engine: str
    plan_hash: Sha256
    stamps: list[Literal["NOT-A-RELEASE", "DEMO", "DRAFT"]]
    open_answers: list[str]
    privacy: Privacy
    checks: list[PassedCheck]
    software: dict[str, str]
    files: dict[str, Sha256]
    measured: PlanMeasured | UnsetType = UNSET
