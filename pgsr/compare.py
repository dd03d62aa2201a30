"""Run mechanisms side by side on known counts: errors per level, violations, time, and the true epsilon."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from pgsr import _engine
from pgsr.budget import Budget, Calibration, calibrate
from pgsr.hierarchy import Ints, Tree
from pgsr.intervals import half_width
from pgsr.kuo import MOST_GROUPS, kuo_counts
from pgsr.mechanism import estimate, mechanism_named, vector_kind
from pgsr.metrics import constraint_violations, coverage_by_level, emd_by_level, l1_by_level
from pgsr.rows import Sideways, all_answers
from pgsr.sizes import Sizes
from pgsr.vectors import ADAPTIVE, measure_exactly
from topdown.progress import Event, Report, silent

KUO = {"Kuo counts": "cumulative", "Kuo sizes": "sizes"}
"""Peers by name, with what Kuo et al. (2018) measure; no release has them."""


@dataclass(frozen=True)
class Run:
    """One mechanism as it is run.

    Args:
        mechanism: see `mechanism.MECHANISMS`, or a name of `KUO`.
        calibration: "correct" or "published".
        public: whether every region's number of groups is public; always so of a peer.
    """

    mechanism: str
    calibration: str = "correct"
    public: bool = False

    @property
    def label(self) -> str:
        """How the run is called in tables and pictures."""
        name = self.mechanism
        if name == "M_c^ch":
            name += " as published" if self.calibration == "published" else " corrected"
        return f"{name}, totals public" if self.public else name


DEFAULT_RUNS = (
    *(Run(name) for name in ("M_H^r", "M_H^dp", "TopDown", "M_c^r", "M_c^dp", "tracking", "tracking+parent")),
    Run("M_c^ch", "published"),
    Run("M_c^ch"),
    *(Run(name, public=True) for name in ("tracking", "tracking+parent", "tracking+parent+rows", *KUO)),
)


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism at one claimed epsilon.

    Args:
        run: what was run.
        claimed: epsilon it was calibrated for.
        true_epsilon: what its noise guarantees.
        l1, emd: mean error per level, root first, in groups and in persons.
        coverage: part of the cells with groups, per level, whose interval holds the true count; None of peers.
        violations: mean number of violated sums.
        seconds: median CPU time of post-processing.
        repeats: runs averaged.
    """

    run: Run
    claimed: Fraction
    true_epsilon: Fraction
    l1: tuple[float, ...]
    emd: tuple[float, ...]
    coverage: tuple[float, ...] | None
    violations: float
    seconds: float
    repeats: int

    @property
    def private(self) -> bool:
        """Whether the claim holds."""
        return self.true_epsilon <= self.claimed


def compare(
    tree: Tree,
    truth: Ints,
    epsilons: Sequence[Fraction],
    *,
    runs: Sequence[Run] = DEFAULT_RUNS,
    direction: str = "cumulative",
    repeats: int = 3,
    seed: int = 0,
    report: Report = silent,
) -> list[MechanismRow]:
    """Return one row per epsilon and run, by simulation: reads the truth, which must be made up or public.

    Every mechanism of one family sees the same noisy answers in one repetition. The paper's setting: moves,
    equal budget a level.

    Args:
        tree: the regions.
        truth: true counts [size][node].
        epsilons: claimed budgets.
        runs: what is run.
        direction: running sums from the smallest size as in the paper ("cumulative") or from the largest ("tail").
        repeats: repetitions averaged.
        seed: of the simulated noise.
        report: called with progress.
    """
    rows, done = [], 0
    for epsilon in epsilons:
        for run in runs:
            plan = _calibration(run, tree, len(truth), epsilon, direction)
            l1, emd, held, violations, seconds = [], [], [], [], []
            for repeat in range(repeats):
                report(Event("compare", done, len(epsilons) * len(runs) * repeats, run.label))
                source = _engine.NoiseSource(seed * 1_000_003 + repeat)
                counts, widths, spent = _counts(run, tree, truth, plan, source, direction)
                seconds.append(spent)
                l1.append(l1_by_level(tree, counts, truth))
                emd.append(emd_by_level(tree, counts, truth))
                held += [] if widths is None else [coverage_by_level(tree, counts, truth, widths)]
                violations.append(constraint_violations(tree, counts))
                done += 1
            rows.append(
                MechanismRow(
                    run,
                    epsilon,
                    plan.loss,
                    tuple(np.mean(l1, axis=0).tolist()),
                    tuple(np.mean(emd, axis=0).tolist()),
                    tuple(np.mean(held, axis=0).tolist()) if held else None,
                    float(np.mean(violations)),
                    float(np.median(seconds)),
                    repeats,
                )
            )
    report(Event("compare", done, done))
    return rows


def possible(runs: Sequence[Run], total: int) -> list[Run]:
    """Return the runs that a number of groups allows: sorted sizes are one answer a group and level."""
    return [run for run in runs if KUO.get(run.mechanism) != "sizes" or total <= MOST_GROUPS]


def _calibration(run: Run, tree: Tree, n_sizes: int, epsilon: Fraction, direction: str) -> Calibration:
    # One person changes one cumulative count and one sorted size of a level by one, so that peers have its noise.
    kind = "cumulative" if run.mechanism in KUO else vector_kind(mechanism_named(run.mechanism), direction)
    return calibrate(kind, tree, Sizes(n_sizes), Budget(epsilon, calibration=run.calibration))


def _counts(
    run: Run, tree: Tree, truth: Ints, plan: Calibration, source: _engine.NoiseSource, direction: str
) -> tuple[Ints, Ints | None, float]:
    """Return simulated counts, half widths if any, CPU seconds: of post-processing, and of a peer's noise too."""
    if run.mechanism in KUO:
        started = time.process_time()
        scales = [float(p) for p in plan.parameters]
        forms = [KUO[run.mechanism]] * tree.n_levels
        counts = kuo_counts(tree, truth, forms, scales, partial(source.noise, plan))
        return counts, None, time.process_time() - started
    mechanism = mechanism_named(run.mechanism)
    kind = vector_kind(mechanism, direction)
    total, known = int(truth[:, 0].sum()), truth.sum(axis=0) if run.public else None
    spreads = tuple(map(float, plan.relative_variance))
    public = Sideways(tree, truth.sum(axis=0), spreads) if kind == ADAPTIVE else None
    noisy = all_answers(source, measure_exactly(kind, tree, truth), plan, tree, public)
    started = time.process_time()
    found = estimate(mechanism, tree, noisy, total, kind, plan, known)
    spent = time.process_time() - started
    of_noise = [half_width(plan.noise, p, accumulates=kind != "histogram") for p in plan.parameters]
    widths = np.array(of_noise)[tree.level_of] if found.half_widths is None else found.half_widths
    return found.counts, widths, spent


def warm_up() -> None:
    """Compile every kernel on a toy instance, so that times are those of cached kernels."""
    from pgsr.hierarchy import tree_of

    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    truth = tree.sums(np.array([[1, 2, 3], [2, 0, 1]], dtype=np.int64))
    compare(tree, truth, [Fraction(1)], repeats=1)
