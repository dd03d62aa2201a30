"""Estimate time, memory and disk of a run from the plan alone."""

from __future__ import annotations

from math import log2
from typing import Any

from topdown.plan.plan import Plan
from topdown.rehearse.memory import allowed_bytes, needed_bytes
from topdown.screen import figures
from topdown.solve.wide import most_dense_rows

# Measured on two cores; good to a factor of two, which is what a person needs before starting a run.
START_SECONDS, SECONDS_A_NUMBER, SECONDS_A_SOLVE = 3.0, 4e-7, 2e-4
SECONDS_A_WIDE_NUMBER = 2.5e-6  # least squares, rounding and intervals of schemas of thousands of cells


def estimate(plan: Plan, n_solves: int) -> dict[str, Any]:
    """Return seconds, memory_bytes and disk_bytes (the noise cannot be compressed below its entropy)."""
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
    a_number = SECONDS_A_WIDE_NUMBER if most_dense_rows(plan) < plan.schema.n_cells else SECONDS_A_NUMBER
    return {
        "seconds": round(START_SECONDS + a_number * plan.n_numbers + SECONDS_A_SOLVE * n_solves, 1),
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
