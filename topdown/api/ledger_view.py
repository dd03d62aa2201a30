"""What a data set's ledger says, for screens: reads only, never repairs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from topdown.ledger.book import losses_by_plan
from topdown.ledger.ledger import read_ledger


@dataclass(frozen=True)
class LedgerView:
    """Limit, what is charged so far by how many intents, and how much of it under each plan hash.

    `delta_limit` and `spent_delta` are 0 unless losses are pairs.
    """

    limit: Fraction
    spent: Fraction
    n_intents: int
    by_plan: dict[str, Fraction]
    delta_limit: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)

    def spent_on(self, plan_hash: str) -> Fraction:
        """Return what is charged under one plan."""
        return self.by_plan.get(plan_hash, Fraction(0))


def view_ledger(path: Path, limit: Fraction, delta_limit: Fraction | None = None) -> LedgerView:
    """Read what is spent; a ledger that does not exist has spent nothing.

    Raises:
        BudgetError: the ledger is damaged (B006).
    """
    book = read_ledger(path)
    by_plan = losses_by_plan(book.live.values())
    both = (delta_limit or Fraction(0), book.charged_delta)
    return LedgerView(limit, book.charged, len(book.live), by_plan, *both)
