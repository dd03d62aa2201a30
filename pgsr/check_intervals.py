"""Check the bounds beside every count: that they hold it, mirror each other, and are as wide as the noise allows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pgsr.check import Check
from pgsr.intervals import MEANING, OF_MODEL, bounds
from pgsr.verify_files import Files

NORMAL_95 = 1.96
MORE = 1e-6


def check_intervals(files: Files) -> Check:
    """Recompute bounds of the noise alone; of the others their form, and that none is wider than the noise drawn."""
    document = files.certificate
    stated, valid = document["intervals"], document["mechanism"]["consistent"]
    check = Check("intervals", n_checked=files.counts.size)
    known = np.full(len(files.parent), int(document["total"]))
    for node, (code, _, _) in enumerate(document["regions"]):
        known[node] = document["public_totals"].get(code, known[node])
    if stated["method"] == OF_MODEL:
        widths = np.maximum(files.upper - files.counts, files.counts - files.lower)
        most = _widest(files)
        if np.any(widths > most[files.level]) or document["mechanism"]["name"] not in (
            "tracking",
            "tracking+parent",
            "tracking+parent+rows",
        ):
            check.fail("bounds are wider than the noise of their level and of those above it")
    else:
        fixed = np.array([level["half_width_95"] for level in document["levels"]], dtype=np.int64)
        widths = np.broadcast_to(fixed[files.level], files.counts.shape)
    lower, upper = bounds(files.counts, widths, known, valid=valid)
    wrong = (files.lower != lower) | (files.upper != upper)
    for size, node in np.argwhere(wrong).tolist():
        check.fail(
            f"{document['regions'][node][0]}, size row {size}: {files.counts[size, node]} is not in the middle of "
            f"[{files.lower[size, node]}, {files.upper[size, node]}]"
        )
    if stated["meaning"] != MEANING:
        check.fail("what the bounds mean is described in other words than the format has")
    check.summary = f"{files.counts.size:,} counts lie within their bounds ({stated['method']})"
    return check


def _widest(files: Files) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return, per level, the half width of a difference of two answers with the noise of the level and all above."""
    gaussian = files.certificate["privacy"]["noise"] == "gaussian"
    spread, found = 0.0, []
    for level in files.certificate["levels"]:
        parameter = float(Fraction(level["parameter"]))
        spread += parameter if gaussian else 2.0 * parameter * parameter
        found.append(NORMAL_95 * (2.0 * spread) ** 0.5 * (1.0 + MORE) + 0.5)
    return np.array(found)
