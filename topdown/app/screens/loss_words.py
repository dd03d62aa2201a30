"""What every screen says of a loss in words: right choices in 100, what they are between, what is not protected."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from topdown.app.screens import figures


def accuracy_lines(certified: dict[str, Any]) -> list[str]:
    """Return how often the best guess is right, for the neighbours' own secret and beside it a replaced record."""
    coin = "(a coin: 50)"
    right = f"at most {certified['right_in_100']} right choices in 100"
    alone = certified["alone"]
    step = "" if alone is None else f"; {alone['right_in_100']} for this step alone"
    replaced = certified["replaced"]
    if replaced is None:
        return [f"{right} {coin}{step}"]
    return [
        f"{right} whether one record was there at all {coin}{step}",
        f"at most {replaced['right_in_100']} between two answers one record may hold",
    ]


def conditional_line(rows: list[dict[str, Any]], *, public_facts: bool) -> str:
    """Say which answers the numbers are about; empty if all of them."""
    exact = dict.fromkeys(name for row in rows if row["status"] == "conditional" for name in row["exact"])
    parts = [f"what is exact ({', '.join(exact)})"] if exact else []
    parts += ["the public facts"] if public_facts else []
    return f"between answers that fit {' and '.join(parts)}" if parts else ""


def disclosed_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Say of each secret that is not protected by what it is disclosed."""
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
