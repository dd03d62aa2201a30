"""Estimate time, memory and disk of a run from the plan alone."""

from __future__ import annotations

from math import log2
from typing import Any

from topdown.plan.plan import Plan
from topdown.rehearse.memory import allowed_bytes, kind_of, needed_bytes
from topdown.screen import figures

# CPU seconds of one worker, measured with bench/bench_needs.py on one machine; extensions were measured less.
START_SECONDS = 2.2
SECONDS_A_QUERY = 0.055  # of one level: certified losses of the statements
SECONDS_A_CELL = 1.3e-3  # the table of the root, twice: in the rehearsal, too
SECONDS_A_NUMBER = {"own": 2.5e-7, "tree": 4.6e-7, "wide": 1.7e-6, "extension": 4e-7}
SECONDS_A_SOLVE = 2e-4


def estimate(plan: Plan, n_solves: int) -> dict[str, Any]:
    """Return what a run with one worker needs: seconds (of CPU), memory_bytes and disk_bytes.

    The noise cannot be compressed below its entropy.
    """
    bits = 0.0
    for depth, level in enumerate(plan.levels):
        every = level.n_measured * sum(m.n_answers for m in level.measurements)
        listed = plan.numbers_at(depth) / every if every else 0.0  # below one for an extension
        bits += listed * sum(
            level.n_measured
            * m.n_answers
            * max(1.0, log2(4.14 * max(figures.stddev(m.law, m.parameter, m.variance), 0.3)))
            for m in level.measurements
        )
    nodes = sum(level.n_nodes for level in plan.levels)
    n_queries = sum(len(level.measurements) for level in plan.levels)
    root = 0 if plan.base is not None else SECONDS_A_CELL * plan.schema.n_cells
    start = START_SECONDS + SECONDS_A_QUERY * n_queries + root
    below = SECONDS_A_NUMBER[kind_of(plan)] * plan.n_numbers + SECONDS_A_SOLVE * n_solves
    return {
        "seconds": round(start + below, 1),
        "memory_bytes": needed_bytes(plan),
        "disk_bytes": int(1.3 * bits / 8 + 200 * nodes + 100_000),
    }


def memory_warning(plan: Plan, allowed: int | None = None) -> list[dict[str, str]]:
    """Warn of a plan that may need more memory than this process may use; generate refuses what needs twice as much.

    Args:
        plan: of the run. allowed: bytes; `allowed_bytes` if None.
    """
    most = allowed_bytes() if allowed is None else allowed
    needed = needed_bytes(plan)
    if needed <= most:
        return []
    text = f"about {figures.size(needed)} of memory are needed, and this process may use {figures.size(most)}"
    return [{"code": "C141", "text": text}]
