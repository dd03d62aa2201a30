"""From shares to noise, in exact fractions.

zCDP: a query with squared L2 sensitivity S and discrete Gaussian variance v costs rho = S / (2 v)
(Canonne, Kamath, Steinke 2020, Theorem 4). Pure DP: L1 sensitivity S and two-sided geometric scale t cost
epsilon = S / t (Ghosh, Roughgarden, Sundararajan 2009). Levels and queries add; nodes of one level do not,
because a record lies in one node of a level (the move between two nodes is inside the sensitivity).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from topdown.errors import BudgetError
from topdown.laws import NoiseLaw
from topdown.model.query import Neighbours, Query


def check_shares(shares: Mapping[str, Fraction], what: str) -> None:
    """Refuse shares that are zero or do not sum to exactly one (BudgetError B001, B002)."""
    for name, share in shares.items():
        if share <= 0:
            raise BudgetError(
                f"{what}: the share of {name!r} is {share}",
                code="B002",
                fix="give a positive share or remove it",
            )
    total = sum(shares.values(), Fraction(0))
    if total != 1:
        off = total - 1
        raise BudgetError(
            f"{what}: the shares sum to {total}, not 1 ({'+' if off > 0 else '-'}{abs(off)})",
            code="B001",
            fix="correct the shares; they are exact, so they must sum to exactly 1",
        )


def calibrated(law: NoiseLaw, loss: Fraction, query: Query, neighbours: Neighbours) -> Fraction:
    """Return the parameter of a law, in records or records squared, that makes `query` cost `loss`."""
    return law.calibrated(loss, query.sensitivity_l1(neighbours), query.sensitivity_l2_squared(neighbours))
