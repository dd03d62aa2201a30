"""Check that columns and rows were chosen as the noisy answers of the levels above say, by code of its own.

The slow twin of `kernels_rows.py`: the same sums in the same order, vector by vector.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgsr.check import Check
from pgsr.verify_files import Files

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def check_choice(files: Files) -> Check:
    """Recompute columns and rows of every region; expect no answer where none was asked."""
    document, n_sizes = files.certificate, len(files.answers)
    stated, adaptive = document.get("choice"), document["mechanism"]["measures"] == "tail_rows"
    check = Check("choice", "none: every region was measured alike")
    if (stated is not None) != adaptive or adaptive != (
        document["mechanism"]["name"] == "tracking+parent+rows"
    ):
        check.fail("the certificate states columns and rows of a mechanism that has none, or lacks them")
    if not adaptive or stated is None:
        return check
    totals = _totals(files)
    if totals is None or len(stated) != len(files.parent):
        check.fail("columns and rows are not stated of every region, or its number of groups is not public")
        return check
    found = [(n_sizes, 0)] * len(stated)
    spreads = _variances(document)
    for g, below in _parts(files).items():
        steady = _steady(files.answers[:, g].tolist(), *found[g], totals[g])
        for c in below:
            found[c] = choice_of(steady, totals[c], totals[g], spreads[int(files.level[c])])
    for node, (due, said) in enumerate(zip(found, stated, strict=True)):
        check.n_checked += 1
        code = document["regions"][node][0]
        if due != tuple(said):
            check.fail(
                f"{code}: {said[0]} columns and {said[1]} rows are stated, the answers say {due[0]} and {due[1]}"
            )
        if files.answers[sum(due) :, node].any():
            check.fail(f"{code} has answers past its columns and rows")
    n_rows = sum(1 for _, rows in found if rows)
    check.summary = f"{n_rows:,} of {len(found):,} regions by rows too, as the answers above them say"
    return check


def choice_of(steady: list[int], part: int, total: int, variance: float) -> tuple[int, int]:
    """Return columns and rows of a region: those of the least expected error, if it is well below that of columns.

    Args:
        steady: tail counts of its parent, descending, the last 0.
        part, total: number of groups of the region and of its parent.
        variance: of one answer.
    """
    n = len(steady) - 1
    if total <= 0 or part <= 0:
        return n, 0
    at = np.arange(n)
    end = np.minimum((3 * at + 4) // 2 + 1, n)
    tails, share, scale = np.array(steady, dtype=np.int64), part / total, float(np.sqrt(variance / 2.0))
    rho = share * (tails[:-1] - tails[end]) / (end - at)
    column = np.minimum(share * tails[:-1], _root(variance * rho))
    row = np.minimum(np.minimum(rho * scale, _root(rho * rho * variance)), column.max())
    whole = float(np.cumsum(column)[-1])
    before, left = np.cumsum(column), float(np.cumsum(row)[-1])
    best, found = 0.85 * whole, (n, 0)
    for c in range(1, n):
        left -= float(row[c - 1])
        rows = min(ceil(3.0 * (share * steady[c - 1])) + 10, part)
        cost = float(before[c - 1]) + left + 3.0 * scale
        if cost < best and rows <= n - c:
            best, found = cost, (c, rows)
    return found


def _root(x: Floats) -> Floats:
    """Return x to the power 1/4 + 1/16 + 1/64 + 1/256."""
    found, power = np.ones_like(x), x
    for _ in range(4):
        power = np.sqrt(np.sqrt(power))
        found = found * power
    return found


def _steady(answers: list[int], columns: int, rows: int, total: int) -> list[int]:
    """Return descending whole tail counts, one more than sizes: pooled columns, then how many pooled rows go on."""
    n = len(answers)
    tails = _falling(answers[:columns], total)
    long = _falling(answers[columns : columns + rows], n - columns)
    longer = np.searchsorted([-length for length in long], -np.arange(n + 1 - columns), side="left")
    return [*tails, *(min(count, tails[-1]) for count in longer.tolist())]


def _falling(values: list[int], high: int) -> list[int]:
    """Return the least-squares descending fit in 0..high, rounded half up, in whole numbers."""
    blocks: list[tuple[int, int]] = []
    for value in values:
        total, n = value, 1
        while blocks and blocks[-1][0] * n <= total * blocks[-1][1]:
            total, n = total + blocks[-1][0], n + blocks[-1][1]
            blocks.pop()
        blocks.append((total, n))
    return [min(max((2 * total + n) // (2 * n), 0), high) for total, n in blocks for _ in range(n)]


def _parts(files: Files) -> dict[int, list[int]]:
    """Return the parts of every region that has some, in order."""
    found: dict[int, list[int]] = {}
    for c, g in enumerate(files.parent.tolist()[1:], start=1):
        found.setdefault(g, []).append(c)
    return dict(sorted(found.items()))


def _totals(files: Files) -> list[int] | None:
    """Return the number of groups of every region from the public ones; None if one is missing."""
    document = files.certificate
    totals = [document["public_totals"].get(code, -1) for code, _, _ in document["regions"]]
    totals[0] = int(document["total"])
    for g, below in reversed(_parts(files).items()):
        if totals[g] < 0 and min(totals[c] for c in below) >= 0:
            totals[g] = sum(totals[c] for c in below)
    return totals if min(totals) >= 0 else None


def _variances(document: dict[str, Any]) -> list[float]:
    """Return the variance of one answer of every level, 2 b^2 of geometric noise, rounded once."""
    parameters = [Fraction(level["parameter"]) for level in document["levels"]]
    gaussian = document["privacy"]["noise"] == "gaussian"
    return [float(p if gaussian else 2 * p * p) for p in parameters]
