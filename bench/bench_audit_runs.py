"""Audit by runs: CPU seconds of 10^5 runs on 50 pairs, and how much slower one run a call is.

The land has four levels of two queries, the 2020 redistricting settings five levels of ten or eleven.

Run: `pytest bench/bench_audit_runs.py -s`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.helpers.audited import make_land, make_shipped
from topdown.plan import PublicContext
from topdown.practice import find_pairs, queries_of
from topdown.practice import repeated_draws as stage
from topdown.practice.audit_by_runs import audit_by_runs

RUNS, MOST_SECONDS = 100_000, 120
FEW = 500  # runs of a pair, one a call

CASES = {
    "land": make_land,
    "pl94_2020": lambda folder: make_shipped(folder, "pl94_2020", "pl94_2020"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_hundred_thousand_runs(case: str, tmp_path: Path) -> None:
    """An audit that takes hours is made once; in two minutes it is made before every release."""
    context = CASES[case](tmp_path)
    start = time.process_time()
    found = audit_by_runs(context, RUNS)
    total = time.process_time() - start
    pairs = [v for a in found.pairs if a.pair.kind == "everything" for v in a.views if v.target is None]
    low, high = max((v.shown[0].mu for v in pairs), key=lambda mu: mu[0] / mu[1])
    each = 1e6 * total / (2 * RUNS * len(found.pairs))
    print(
        f"\n{case}: {RUNS:,} runs on each side of {len(found.pairs)} pairs: {total:.1f} CPU s, "
        f"{each:.2f} microseconds a run; mu at least {low:.3f} of {high:.3f}"
    )
    alone, together = one_a_call(context), many_a_call(context)
    print(
        f"{case}: drawn one run a call {alone:.0f} microseconds a run, {alone / together:.0f} times as many a call"
    )
    assert total <= MOST_SECONDS
    assert alone > 10 * together


def many_a_call(context: PublicContext) -> float:
    """Return CPU microseconds of drawing a run."""
    return _drawing(context, 20_000)


def one_a_call(context: PublicContext) -> float:
    """Return the same with one run a call, as a release is drawn once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "NUMBERS_A_CALL", 1)
        return _drawing(context, FEW)


def _drawing(context: PublicContext, n: int) -> float:
    queries = queries_of(context)
    stages = [stage.PairRuns(context, queries, pair) for pair in find_pairs(context, at_least=5)[0][:5]]
    start = time.process_time()
    for each in stages:
        for _ in each.runs(1, n):
            pass
    return 1e6 * (time.process_time() - start) / (n * len(stages))
