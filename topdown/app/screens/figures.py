"""Numbers with their units and losses in words, as short as they may be without saying less than is true."""

from __future__ import annotations

from fractions import Fraction
from math import floor, log10
from typing import TYPE_CHECKING

from topdown.privacy.exact_values import fixed, significant

if TYPE_CHECKING:
    from topdown.formats.accuracy_documents import Convergence
    from topdown.formats.command_documents import LedgerState
    from topdown.formats.common import Numbers
    from topdown.formats.plan_documents import CertifiedLoss, ChangeStatus, LedgerSpent

DELTA = Fraction(1, 10**10)  # the delta every screen quotes
SYMBOL = {"rho": "ρ", "epsilon": "ε", "epsilon_delta": "ε"}


def decimal(value: Fraction, digits: int = 4, *, up: bool = False, down: bool = False) -> str:
    """Write an exact number rounded to some digits, up or down where it is a claim; no float in between."""
    return fixed(value, digits, up=True if up else False if down else None)


def loss(name: str, value: Fraction, delta: Fraction = Fraction(0)) -> str:
    """Write a privacy loss, rounded up, with its symbol: `ρ 2.4914`; of a pair `ε 1.0000, δ 1e-06`."""
    beside = f", δ\u00a0{tiny(delta)}" if delta else ""
    return f"{SYMBOL.get(name, name)}\u00a0{decimal(value, up=True)}{beside}"


def tiny(value: Fraction) -> str:
    """Write a delta with three digits, rounded up."""
    return significant(value, 3, up=True)


def both(value: Fraction) -> str:
    """Write an exact number, with its decimal if it is not short."""
    return str(value) if len(str(value)) <= 5 else f"{value} ≈ {decimal(value, up=True)}"


def charged(stated: LedgerSpent | LedgerState) -> str:
    """Write sums of losses by kind, and of delta: `ρ 1/2, ε 1, δ 1/100000`; "nothing" where there are none."""
    found = [f"{SYMBOL[name]}\u00a0{both(Fraction(one))}" for name, one in stated.charged.items()]
    if stated.charged_delta:
        found.append(f"δ\u00a0{both_tiny(Fraction(stated.charged_delta))}")
    return ", ".join(found) or "nothing"


def limits(stated: LedgerSpent | LedgerState) -> str:
    """Write the limits of a ledger: `ρ 3`, `ε 2 at δ 1/100000`, or both."""
    found = [f"ρ\u00a0{stated.rho_limit}"] if stated.rho_limit else []
    if stated.epsilon_limit:
        found.append(f"ε\u00a0{stated.epsilon_limit} at δ\u00a0{stated.delta_limit or 0}")
    return " and ".join(found)


def both_tiny(value: Fraction) -> str:
    """Write a delta exactly, with its decimal if it is not short."""
    return str(value) if len(str(value)) <= 12 else f"{value} ≈ {tiny(value)}"


def two_digits(value: float) -> str:
    """Write a noise level with two significant digits: 0.012, 2.2, 89, 1,200."""
    if value <= 0:
        return "0"
    if value < 0.001:
        return "< 0.001"
    digits = 1 - floor(log10(value))
    rounded = round(value, digits)
    if rounded >= 10:
        return f"{rounded:,.0f}"
    return f"{rounded:.{max(1, 1 - floor(log10(rounded)))}f}"


def convergence(solved: Convergence) -> str:
    """Say how many splits are further from their optimum than they should be, and how far the worst is."""
    return (
        f"Solver: {solved.n_unconverged:,} of {solved.n_splits:,} splits further than {solved.target_persons:.0e} "
        f"persons from their optimum; the furthest {solved.worst_persons:.1e}."
    )


def percent(value: Fraction) -> str:
    """Write a share as a percentage."""
    return f"{decimal(100 * value, 1)} %"


def seconds(value: float) -> str:
    """Write a duration."""
    if value >= 5400:
        return f"{value / 3600:.1f} h"
    return f"{value:.1f} s" if value < 600 else f"{value / 60:.0f} min"


def size(n_bytes: float) -> str:
    """Write a number of bytes."""
    for unit, limit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= 0.95 * limit:
            shown = n_bytes / limit
            return f"{shown:.1f} {unit}" if shown < 9.95 else f"{shown:,.0f} {unit}"
    return f"{n_bytes:.0f} B"


def accuracy_lines(certified: CertifiedLoss) -> list[str]:
    """Return how often an attacker is right, about the neighbours' own change and about a replaced record."""
    coin = "(a coin: 50)"
    right = f"an attacker is right at most {certified.right_in_100} times in 100"
    alone = certified.alone
    step = "" if alone is None else f"; {alone.right_in_100} for this step alone"
    about = " whether one record was there at all" if certified.kind == "presence" else ""
    lines = [f"{right} {coin}{about}{step}"]
    if certified.replaced is not None:
        times = certified.replaced.right_in_100
        lines.append(f"at most {times} times in 100 which of two answers one record gave")
    return lines


def conditional_line(rows: list[ChangeStatus], *, public_facts: bool) -> str:
    """Say what the numbers are conditional on; empty if on nothing."""
    exact = dict.fromkeys(name for row in rows if row.status == "conditional" for name in row.exact)
    parts = [f"what is exact ({', '.join(exact)})"] if exact else []
    parts += ["the public facts"] if public_facts else []
    return f"conditional on {' and '.join(parts)}" if parts else ""


def disclosed_lines(rows: list[ChangeStatus]) -> list[str]:
    """Say of each change that is not protected by what it is disclosed."""
    return [f"{row.name}: disclosed by: {', '.join(row.exact)}" for row in rows if row.status == "disclosed"]


def certified_epsilon(row: Numbers, digits: int) -> str:
    """Write the upper end of the first epsilon of a row, rounded up, and where it holds."""
    delta, (_, high) = next(iter(row.epsilon.items()))
    where = "at every δ" if delta == "0" else f"at δ\u00a0{delta}"
    return f"{decimal(Fraction(high), digits, up=True)} {where}"


def error(value: float | None, sign: str = "") -> str:
    """Write an error in records: more digits where it is small, with a plus sign if `sign` is "+"; "" for none."""
    if value is None:
        return ""
    digits = 4 if 0 < abs(value) < 0.1 else 2 if abs(value) < 1000 else 0
    return f"{value:{sign if value else ''},.{digits}f}"
