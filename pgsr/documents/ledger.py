"""The document of `pgsr ledger`."""

from __future__ import annotations

from typing import Literal

from pgsr.documents.shared import LossName
from topdown.documents.shared import LedgerId, Part, Positive, Rational


class LedgerState(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.ledger"):
    """The result of pgsr ledger --json."""

    version: Literal[2] = 2
    engine: str
    id: LedgerId
    action: Literal["new", "found", "vouch", "void"]
    path: str
    witness: str
    data_set: str
    neighbours: str
    unit: str
    loss_name: LossName
    charged: Rational
    n_records: Positive
