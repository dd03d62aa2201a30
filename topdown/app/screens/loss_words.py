"""What every screen says of a loss in words: how often an attacker is right, on what condition, what is disclosed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from topdown.app.screens import figures


def accuracy_lines(certified: dict[str, Any]) -> list[str]:
    """Return how often an attacker is right, about the neighbours' own change and about a replaced record."""
    coin = "(a coin: 50)"
    right = f"an attacker is right at most {certified['right_in_100']} times in 100"
    alone = certified["alone"]
    step = "" if alone is None else f"; {alone['right_in_100']} for this step alone"
    replaced = certified["replaced"]
    if replaced is None:
        return [f"{right} {coin}{step}"]
    return [
        f"{right} {coin} whether one record was there at all{step}",
        f"at most {replaced['right_in_100']} times in 100 which of two answers one record gave",
    ]


def conditional_line(rows: list[dict[str, Any]], *, public_facts: bool) -> str:
    """Say what the numbers are conditional on; empty if on nothing."""
    exact = dict.fromkeys(name for row in rows if row["status"] == "conditional" for name in row["exact"])
    parts = [f"what is exact ({', '.join(exact)})"] if exact else []
    parts += ["the public facts"] if public_facts else []
    return f"conditional on {' and '.join(parts)}" if parts else ""


def disclosed_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Say of each change that is not protected by what it is disclosed."""
    return [
        f"{row['name']}: disclosed by: {', '.join(row['exact'])}"
        for row in rows
        if row["status"] == "disclosed"
    ]


def epsilon_text(row: dict[str, Any]) -> tuple[Fraction, str]:
    """Return the upper end of the first epsilon of a row, and where it holds."""
    delta, (_, high) = next(iter(row["epsilon"].items()))
    return Fraction(high), "at every δ" if delta == "0" else f"at δ\u00a0{delta}"


def certified_epsilon(row: dict[str, Any], digits: int) -> str:
    """Write the upper end of the first epsilon of a row, rounded up, and where it holds."""
    high, where = epsilon_text(row)
    return f"{figures.decimal(high, digits, up=True)} {where}"
