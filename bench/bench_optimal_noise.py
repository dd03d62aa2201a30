"""Time to make a certified law, beside the bare linear program that it rests on.

Run: `pytest bench/bench_optimal_noise.py -s -p no:cacheprovider`. Ratios are of one run on one machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import pytest

from tests.helpers.optimal_runs import error_costs
from topdown.optimal_noise import (
    Absolute,
    CompactLP,
    NoiseRequest,
    Promise,
    Square,
    linear_programs,
    optimal_law,
)

CASES = [(e, d, s) for e in ("1/2", "1", "2") for d in ("1e-6", "1e-3", "1e-1") for s in (1, 2)]


def seconds(task: Callable[[], object], rounds: int = 3) -> float:
    """Median CPU time of this process."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        task()
        found.append(time.process_time() - start)
    return statistics.median(found)


def ask(epsilon: str, delta: str, sensitivity: int, loss: object = None) -> NoiseRequest:
    return NoiseRequest((Promise(Fraction(epsilon), Fraction(delta)),), sensitivity, loss or Absolute())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reference_table(case: tuple[str, str, int]) -> None:
    """Every law of the table within 50 ms, all included: program, rationals, weights, checks."""
    optimal_law(ask(*case))
    for loss in (Absolute(), Square()):
        one = ask(*case, loss)
        law = optimal_law(one)
        whole = seconds(lambda one=one: optimal_law(one).gap)
        lp = CompactLP(error_costs(loss, law.last), case[2], one.limits, mirror=True)
        bare = seconds(lambda lp=lp: linear_programs.solve_linear_program(lp.program))
        print(
            f"\n{case} {loss.name}: {whole * 1e3:.1f} ms, {whole / bare:.1f} times the bare program", end=""
        )
        assert whole < max(0.05, 20 * bare)


def test_sensitivity_four() -> None:
    """A wide law: 435 values a side, 3,500 rows."""
    one = ask("1/10", "1e-6", 4)
    whole = seconds(lambda: optimal_law(one).gap)
    lp = CompactLP(error_costs(Absolute(), 440), 4, one.limits, mirror=True)
    bare = seconds(lambda: linear_programs.solve_linear_program(lp.program))
    print(
        f"\nsensitivity 4, epsilon 1/10, delta 1e-6: {whole:.2f} s, {whole / bare:.1f} times the bare program"
    )
    assert whole < max(1.0, 4 * bare)
