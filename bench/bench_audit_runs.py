"""Audit by runs: CPU seconds of 10^5 runs on 50 pairs of four levels with two queries each.

Run: `pytest bench/bench_audit_runs.py -s`.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.helpers.audited import make_land
from topdown.audit_runs import audit_runs

RUNS, MOST_SECONDS = 100_000, 120


def test_a_hundred_thousand_runs(tmp_path: Path) -> None:
    """An audit that takes hours is made once; in two minutes it is made before every release."""
    context = make_land(tmp_path)
    start = time.process_time()
    found = audit_runs(context, RUNS)
    total = time.process_time() - start
    pairs = [v for a in found.pairs if a.pair.kind == "everything" for v in a.views if v.target is None]
    low, high = max((v.shown[0].mu for v in pairs), key=lambda mu: mu[0] / mu[1])
    drawn = 2 * RUNS * len(found.pairs)
    print(
        f"\n{RUNS:,} runs on each side of {len(found.pairs)} pairs: {total:.1f} CPU s, "
        f"{1e6 * total / drawn:.2f} microseconds a run; mu at least {low:.3f} of {high:.3f}"
    )
    assert total <= MOST_SECONDS
