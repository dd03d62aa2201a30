"""Ledgers for tests: made explicitly, as an office would, and asked what was charged."""

from __future__ import annotations

from pathlib import Path

from topdown.ledger.ledger import read_ledger
from topdown.measure.run_ledger import create_for_run


def with_ledger(run: Path) -> Path:
    """Make the ledger a run file describes, or join the one that is there; return the run file."""
    create_for_run(run)
    return run


def n_intents(ledger: Path) -> int:
    """Return how often a ledger was charged; no ledger, no charge."""
    return len(read_ledger(ledger).intents)
