"""Draws a second of the exact sampler, beside numpy's rounded float normal and the slow exact twin.

Run: `pytest bench/bench_noise.py --benchmark-json=bench/results/noise.json -s`. Ratios are of one run on
one core (CPU time, medians), so they survive a busy or different machine; draws a second do not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from topdown.privacy import AesBits, Sampler, certified_thresholds, draw_one, table_of
from topdown.privacy.laws import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric, law_tails

N_DRAWS = 4_000_000
N_SLOW = 1_000
LAWS: list[NoiseDistribution] = [*map(DiscreteGaussian, [4, 100, 2500]), *map(TwoSidedGeometric, [2, 10])]


def draws_per_second(task: Callable[[], object], n_draws: int) -> float:
    """Median rate of three runs, by CPU time of this process."""
    rates = []
    for _ in range(3):
        start = time.process_time()
        task()
        rates.append(n_draws / (time.process_time() - start))
    return statistics.median(rates)


def rounded_normal(law: NoiseDistribution, out: np.ndarray) -> None:
    """Draw what numpy users draw: a double, rounded (neither exact nor private)."""
    generator = np.random.default_rng()
    if isinstance(law, DiscreteGaussian):
        out[:] = np.rint(generator.normal(0.0, float(law.variance) ** 0.5, out.size))
    else:
        out[:] = np.rint(generator.laplace(0.0, float(law.scale), out.size))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_draws_per_second(benchmark: BenchmarkFixture, law: NoiseDistribution) -> None:
    """The exact sampler must not be slower than the inexact one it replaces."""
    source = AesBits()
    sampler, out = Sampler(law, source), np.zeros(N_DRAWS, dtype=np.int32)
    benchmark.pedantic(sampler.draw_into, args=(out,), rounds=15, warmup_rounds=2)
    fast = draws_per_second(lambda: sampler.draw_into(out), N_DRAWS)
    floats = draws_per_second(lambda: rounded_normal(law, out), N_DRAWS)
    slow = draws_per_second(lambda: [draw_one(law, source) for _ in range(N_SLOW)], N_SLOW)
    benchmark.extra_info.update(
        draws_per_second=fast, ratio_to_rounded_float=fast / floats, ratio_to_slow_twin=fast / slow
    )
    print(
        f"\n{law}: {fast / 1e6:.0f} M/s, {fast / floats:.1f} x rounded float, {fast / slow:,.0f} x slow twin"
    )
    assert fast > floats


@pytest.mark.parametrize("variance", [4, 2500, Fraction(79633, 10), 10**6], ids=str)
def test_table_build(benchmark: BenchmarkFixture, variance: Fraction) -> None:
    """Paid once per distinct variance of a run."""

    def build() -> None:
        table_of.cache_clear()
        certified_thresholds.cache_clear()
        law_tails.cache_clear()
        table_of(DiscreteGaussian(variance))

    benchmark.pedantic(build, rounds=7, warmup_rounds=1)
