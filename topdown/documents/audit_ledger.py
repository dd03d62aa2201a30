"""The document of `topdown audit --ledger`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.shared import Count, LedgerId, LossName, Part, Positive, Rational, Sha256
from topdown.documents.statements import LedgerSecrets


class PaidRelease(Part, frozen=True, kw_only=True):
    """A release or choice that charged the ledger."""

    release: str
    what: Annotated[Literal["release", "choice"], Meta(description="Noise was drawn, or a choice")]
    plan_hash: Sha256
    loss: Rational
    delta: Rational | UnsetType = UNSET
    n_charges: Positive
    n_unfinished: Count


class VoidedCharge(Part, frozen=True, kw_only=True):
    """A charge that a person has taken back, before a witness."""

    record: int
    reason: str
    witness: str


class AuditLedger(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.audit.ledger"):
    """The result of topdown audit --ledger --json."""

    version: Literal[1] = 1
    ledger: LedgerId
    head: Sha256
    data_set: str
    neighbours: str
    unit: str
    loss_name: LossName
    charged: Rational
    charged_delta: Rational | UnsetType = UNSET
    conditional_on: list[str]
    secrets: LedgerSecrets
    releases: list[PaidRelease]
    voided: list[VoidedCharge]
    vouched: list[str]

    def __repr__(self) -> str:
        return (
            f"AuditLedger({self.data_set!r}, {self.loss_name} {self.charged}, {len(self.releases)} releases)"
        )

    def _repr_html_(self) -> str:
        from topdown.shown import card

        rows = [(one.release, one.what, one.plan_hash[:8], one.loss) for one in self.releases]
        head = ("release", "what", "plan", self.loss_name)
        title = f"Everything released from {self.data_set}: {self.loss_name} {self.charged}"
        return card(title, rows, head=head, note=" ".join(row["sentence"] for row in self.secrets))
