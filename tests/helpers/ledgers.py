"""Ledgers for tests: made explicitly, as an office would, and asked what was charged."""

from __future__ import annotations

from pathlib import Path

from topdown.measure import create_run_ledger
from topdown.privacy.ledger import read_ledger


def with_ledger(run: Path) -> Path:
    """Make the ledger a run file describes, or join the one that is there; return the run file."""
    create_run_ledger(run)
    return run


def n_intents(ledger: Path) -> int:
    """Return how often a ledger was charged; no ledger, no charge."""
    return len(read_ledger(ledger).intents)
