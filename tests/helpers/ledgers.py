"""Ledgers for tests: made explicitly, as an office would, and asked what was charged."""

from dataclasses import replace
from pathlib import Path

from topdown.errors import BudgetError
from topdown.measure import create_run_ledger
from topdown.measure.run_ledger import ledger_location_of_file
from topdown.plan import load_run_file
from topdown.privacy.ledger import open_ledger, read_ledger


def with_ledger(run: Path) -> Path:
    """Make the ledger a run file describes, or join the one that is there, with its limit; return the run file."""
    try:
        create_run_ledger(run)
    except BudgetError as error:
        if error.code != "B066":
            raise
        limit_as_stated(run)
        create_run_ledger(run)
    return run


def limit_as_stated(run: Path) -> None:
    """Change the limit of a ledger to that of a run file, as a person would by command."""
    place = ledger_location_of_file(run)
    there = read_ledger(place.path).opened
    with open_ledger(replace(place, id=there.ledger if there else "")) as ledger:
        ledger.change_limits(load_run_file(run).ledger.limits, "A. Person", "for a test")


def n_intents(ledger: Path) -> int:
    """Return how often a ledger was charged; no ledger, no charge."""
    return len(read_ledger(ledger).intents)
