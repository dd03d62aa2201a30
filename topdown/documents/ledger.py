"""The document of `topdown ledger`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from topdown.documents.shared import LedgerId, LossName, Part, Positive, Rational


class LedgerState(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.ledger"):
    """The result of topdown ledger --json."""

    version: Literal[1] = 1
    action: Literal["new", "vouch", "void"]
    ledger: LedgerId
    path: str
    witness: str
    data_set: str
    neighbours: str
    unit: str
    loss_name: LossName
    charged: Rational
    charged_delta: Rational | UnsetType = UNSET
    limit: Rational | UnsetType = UNSET
    delta_limit: Rational | UnsetType = UNSET
    n_records: Positive
