"""The document of `topdown init`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import LedgerId, Part


class LedgerPlace(Part, frozen=True, kw_only=True):
    """The ledger that was made or joined."""

    id: LedgerId
    path: str


class Init(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.init"):
    """The result of topdown init --json."""

    version: Literal[1] = 1
    run_file: str
    drafted: Annotated[
        list[str], Meta(description="Schema, invariants, settings, drafted from a list of codes")
    ]
    open_answers: list[str]
    missing_files: list[str]
    check_prefix_lengths: bool
    ledger: LedgerPlace | None
