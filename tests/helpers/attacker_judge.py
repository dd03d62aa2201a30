"""Judge every printed row by what the attacker reaches; each finding is a sentence that should never be true."""

from fractions import Fraction

import numpy as np

from tests.helpers.attacker import NEAR, Attacker
from tests.helpers.attacker_odds import Moved
from tests.helpers.published import Document

NUMBERS = {"rho", "mu", "epsilon", "best_guess", "right_in_100", "n_counts_moved"}


def beaten(attacker: Attacker, said: Document, *, slack: frozenset[str] = frozenset()) -> list[str]:
    """Return what the attacker finds wrong in the document of `topdown audit --json`.

    Args:
        slack: names of protected rows whose number no pair of this census reaches.
    """
    found, n_close = [], 0
    exact = set(attacker.exact)
    if set(said["conditional_on"]) != exact:
        found.append(f"exact are {sorted(exact)}, stated {said['conditional_on']}")
    for row in said["secrets"]:
        findings, close = judge(attacker, row)
        n_close += close
        found += [f"{row['name']}: {finding}" for finding in findings]
        if not close and row["status"] == "protected" and row["name"] not in slack:
            found.append(f"{row['name']}: no pair comes near the number")
    return found


def judge(attacker: Attacker, row: Document) -> tuple[list[str], bool]:
    """Judge one row: findings, and whether some pair reaches its numbers."""
    of = _of(row)
    one, other = attacker.pairs(row["kind"], of)
    apart = attacker.altered(one, other)
    differs = np.zeros(len(one), dtype=bool)
    for marks in apart.values():
        differs |= marks
    found = []
    excluded = attacker.excluded(row["kind"], of)
    status = "disclosed" if differs.all() else "conditional" if differs.any() or excluded else "protected"
    if row["status"] != status:
        found.append(f"{status}, stated {row['status']}")
    names = {name for name, marks in apart.items() if marks.any()} | excluded
    if len(one) and set(row["exact"]) != names:
        found.append(f"{sorted(names)} alter, stated {row['exact']}")
    if row["status"] == "disclosed":
        if NUMBERS & set(row):
            found.append("a number for what is disclosed")
        return found, False
    if not NUMBERS - {"rho", "mu"} <= set(row):
        return [*found, "no number"], False
    fits = ~differs
    close = False
    for moved in attacker.moved(one[fits], None if other is None else other[fits]):
        worse, near = against(moved, row)
        found += worse
        close |= near
    return found, close


def against(moved: Moved, row: Document) -> tuple[list[str], bool]:
    """Compare what one pair shows with a row: what beats it, and whether it comes as near as a test can."""
    found = []
    low, high = map(Fraction, row["best_guess"])
    right = moved.right()
    if right > high + Fraction(1, 10**12):
        found.append(f"a guess is right {right:.6f} of the time, stated at most {float(high):.6f}")
    if 100 * right > row["right_in_100"]:
        found.append(f"a guess is right {100 * right:.3f} times in 100, stated {row['right_in_100']}")
    if moved.n > row["n_counts_moved"]:
        found.append(f"{moved.n} counts differ, stated {row['n_counts_moved']}")
    near = moved.n == row["n_counts_moved"]
    for delta, (least, most) in row["epsilon"].items():
        if moved.geometric:
            if moved.largest_loss > Fraction(most):
                found.append(f"odds change by {moved.largest_loss}, stated {most}")
            near &= moved.largest_loss == Fraction(least)
        elif moved.counts:
            if moved.delta(float(Fraction(most))) > float(Fraction(delta)) * (1 + 1e-8):
                found.append(f"{moved.delta(float(Fraction(most))):.3e} above epsilon {most}, stated {delta}")
            near &= moved.delta(float(Fraction(least)) - 10 * NEAR) > float(Fraction(delta))
    if not moved.geometric:
        if moved.rho > Fraction(row["rho"]):
            found.append(f"rho {moved.rho}, stated {row['rho']}")
        near &= moved.rho == Fraction(row["rho"]) and right > low - Fraction(NEAR)
    return found, near


def _of(row: Document) -> str:
    name: str = row["name"]
    return {
        "attribute": name.removesuffix(" only"),
        "within_level": name.removeprefix("place within one "),
    }.get(row["kind"], "")
