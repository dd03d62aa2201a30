"""Times, ratios against the paper's cost tables, errors and interval coverage of group-size release.

Run: `pytest bench/bench_pgsr.py --benchmark-json=bench/results/pgsr.json -s`. CPU seconds of one process, medians;
data are made up in the paper's shape. Ratios survive a busy or different machine; seconds do not.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from math import ceil, exp
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from build_kernels import build
from pgsr import Budget, Sizes, Tree
from pgsr.comparison import emd_by_level, l1_by_level
from pgsr.estimators import (
    cumulative_estimate,
    estimate,
    half_width,
    mechanism_named,
    tree_optimum,
    vector_kind,
)
from pgsr.level_noise import calibrate
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import measure_exactly
from tests.oracles import group_sizes
from tests.oracles.group_sizes import table_optimum
from topdown.arrays import Ints

EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
LIMITS = {"M_H^dp": 1.0, "M_c^dp": 1.0, "M_c^ch": 1.0, "tracking": 1.0, "posterior": 1.5}
LEVELS = 3
ROOT, TABLES = Path(__file__).resolve().parents[1], "tests.oracles.kernels_tables"


@pytest.fixture(scope="module")
def census() -> tuple[Tree, Ints]:
    made = synthesize("census")
    return made.hierarchy.tree, made.counts


def noisy_answers(
    name: str, tree: Tree, truth: Ints, epsilon: Fraction, seed: int, calibration: str = "correct"
):
    """Return simulated answers of a mechanism in the paper's setting."""
    kind = vector_kind(mechanism_named(name), "cumulative")
    plan = calibrate(kind, tree, Sizes(len(truth)), Budget(epsilon, calibration=calibration))
    rng = np.random.default_rng(seed)
    noisy = measure_exactly(kind, tree, truth)
    for level, scale in enumerate(plan.parameters):
        here = tree.columns(level)
        success = 1 - exp(-1 / float(scale))
        shape = noisy[:, here].shape
        noisy[:, here] += rng.geometric(success, shape) - rng.geometric(success, shape)
    return kind, plan, noisy


def cpu_median(task: Callable[[], object], repeats: int = 5) -> float:
    """Median CPU seconds of several runs."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        task()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("name", LIMITS)
def test_census_within_a_second(benchmark: BenchmarkFixture, census, name: str, epsilon: Fraction) -> None:
    tree, truth = census
    calibration = "published" if name == "M_c^ch" else "correct"
    kind, plan, noisy = noisy_answers(name, tree, truth, epsilon, 1, calibration)
    total = int(truth[:, 0].sum())
    mechanism = mechanism_named(name)
    seconds = cpu_median(lambda: estimate(mechanism, tree, noisy, total, kind, plan))
    benchmark.pedantic(lambda: estimate(mechanism, tree, noisy, total, kind, plan), rounds=3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    benchmark.extra_info.update(cpu_seconds=seconds, peak_gb=peak)
    print(f"\n{name} epsilon {epsilon}: {seconds:.3f} CPU s for {truth.size:,} cells; peak {peak:.2f} GB")
    assert seconds <= LIMITS[name]
    assert peak <= 1.5


@pytest.mark.parametrize(("n_sizes", "epsilon"), [(5, Fraction(1)), (20, Fraction(1)), (5, Fraction(1, 2))])
def test_ratio_against_cost_tables(
    benchmark: BenchmarkFixture, census, n_sizes: int, epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper's tables, compiled, with its own truncation 3 ceil(2 lam^2), on the first sizes of the census shape."""
    tree, full = census
    truth = np.ascontiguousarray(full[:n_sizes])
    total = int(truth[:, 0].sum())
    _, plan, noisy = noisy_answers("M_H^dp", tree, truth, epsilon, 1)
    radius = 3 * ceil(2 * float(plan.parameters[0]) ** 2)
    build(ROOT, [TABLES], again=False)
    sys.modules.pop(TABLES)
    monkeypatch.setattr(group_sizes, "tables_down", import_module(TABLES).tables_down)
    tables = table_optimum(tree, noisy, total, radius=radius)
    ours = tree_optimum(tree, noisy, total)
    assert tables is not None
    assert tables[1] == ours[1]
    slow = cpu_median(lambda: table_optimum(tree, noisy, total, radius=radius), 3)
    fast = cpu_median(lambda: [tree_optimum(tree, noisy, total) for _ in range(20)], 5) / 20
    benchmark.pedantic(lambda: tree_optimum(tree, noisy, total), rounds=5)
    benchmark.extra_info.update(ratio=slow / fast)
    print(
        f"\nN={n_sizes} epsilon {epsilon}: tables {slow:.3f} s, ours {fast:.5f} s, {slow / fast:.0f} times faster"
    )
    assert slow / fast >= 90


def test_tracking_against_histogram_route(benchmark: BenchmarkFixture, census) -> None:
    """In persons never further off than M_c^dp at epsilon 1, L1 within 5 %; how it depends on the rounds."""
    tree, truth = census
    total = int(truth[:, 0].sum())
    variants = {
        "M_c^dp": {"method": "M_c^dp"},
        **{f"{r} rounds": {"rounds": r} for r in (1, 3, 5, 8)},
        "ADMM 30": {"admm": 30},
    }
    answers = [noisy_answers("tracking", tree, truth, Fraction(1), seed)[2] for seed in range(3)]
    errors = {}
    for name, options in variants.items():
        start = time.process_time()
        found = [cumulative_estimate(tree, noisy, total, **options).counts for noisy in answers]
        seconds = (time.process_time() - start) / len(found)
        l1 = np.mean([l1_by_level(tree, counts, truth) for counts in found], axis=0)
        emd = np.mean([emd_by_level(tree, counts, truth) for counts in found], axis=0)
        errors[name] = (l1, emd)
        base_l1, base_emd = errors["M_c^dp"]
        print(
            f"\n{name:>9} {seconds:5.2f} s  L1 x {np.round(l1 / base_l1, 3)}  EMD / {np.round(base_emd / emd, 1)}",
            end="",
        )
    benchmark.pedantic(lambda: cumulative_estimate(tree, answers[0], total), rounds=3)
    (base_l1, base_emd), (l1, emd) = errors["M_c^dp"], errors["8 rounds"]
    assert np.all(base_emd >= emd)
    assert np.all(l1 <= 1.05 * base_l1)


@pytest.mark.parametrize("name", ["M_H^dp", "M_c^dp", "tracking"])
def test_coverage_of_noise_intervals(benchmark: BenchmarkFixture, census, name: str) -> None:
    """How often the 95 % noise interval of a released count covers the truth, on nonzero cells: honest, per level."""
    tree, truth = census
    total = int(truth[:, 0].sum())
    for epsilon in (Fraction(1, 10), Fraction(1)):
        kind, plan, noisy = noisy_answers(name, tree, truth, epsilon, 7)
        counts = estimate(mechanism_named(name), tree, noisy, total, kind, plan).counts
        covered = []
        for level, parameter in enumerate(plan.parameters):
            here = tree.columns(level)
            width = half_width(
                "geometric", parameter, accumulates=kind != "histogram", coverage=Fraction(19, 20)
            )
            some = truth[:, here] > 0
            covered.append(float((np.abs(counts - truth)[:, here] <= width)[some].mean()))
        shown = " ".join(f"{100 * c:.0f} %" for c in covered)
        benchmark.extra_info[f"coverage {epsilon}"] = covered
        print(f"\n{name} epsilon {epsilon}: nation, state, county {shown}", end="")
    benchmark.pedantic(
        lambda: half_width("geometric", Fraction(6), accumulates=False, coverage=Fraction(19, 20)), rounds=1
    )
