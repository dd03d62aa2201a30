"""Run mechanisms side by side on known counts: errors per level, violations, time, and the true epsilon."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pgsr import _engine
from pgsr.budget import Budget, calibrate
from pgsr.hierarchy import Ints, Tree
from pgsr.mechanism import estimate, mechanism_named, vector_kind
from pgsr.metrics import constraint_violations, emd_by_level, l1_by_level
from pgsr.sizes import Sizes
from pgsr.vectors import measure_exactly
from topdown.progress import Event, Report, silent

DEFAULT_RUNS = (
    ("M_H^r", "correct"),
    ("M_H^dp", "correct"),
    ("TopDown", "correct"),
    ("M_c^r", "correct"),
    ("M_c^dp", "correct"),
    ("tracking", "correct"),
    ("tracking+ADMM", "correct"),
    ("M_c^ch", "published"),
    ("M_c^ch", "correct"),
)


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism at one claimed epsilon.

    Args:
        mechanism, calibration: what was run.
        claimed: epsilon it was calibrated for.
        true_epsilon: what its noise guarantees.
        l1, emd: mean error per level, root first, in groups.
        violations: mean number of violated sums.
        seconds: median CPU time of post-processing.
        repeats: runs averaged.
    """

    mechanism: str
    calibration: str
    claimed: Fraction
    true_epsilon: Fraction
    l1: tuple[float, ...]
    emd: tuple[float, ...]
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
    runs: Sequence[tuple[str, str]] = DEFAULT_RUNS,
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
        runs: (mechanism, calibration) pairs.
        direction: running sums from the smallest size as in the paper ("cumulative") or from the largest ("tail").
        repeats: repetitions averaged.
        seed: of the simulated noise.
        report: called with progress.
    """
    rows, done = [], 0
    total = int(truth[:, 0].sum())
    for epsilon in epsilons:
        for name, calibration in runs:
            mechanism = mechanism_named(name)
            kind = vector_kind(mechanism, direction)
            plan = calibrate(kind, tree, Sizes(len(truth)), Budget(epsilon, calibration=calibration))
            answers = measure_exactly(kind, tree, truth)
            l1, emd, violations, seconds = [], [], [], []
            for repeat in range(repeats):
                report(Event("compare", done, len(epsilons) * len(runs) * repeats, name))
                noisy = _engine.NoiseSource(seed * 1_000_003 + repeat).add(answers, plan, tree)
                started = time.process_time()
                counts = estimate(mechanism, tree, noisy, total, kind, plan).counts
                seconds.append(time.process_time() - started)
                l1.append(l1_by_level(tree, counts, truth))
                emd.append(emd_by_level(tree, counts, truth))
                violations.append(constraint_violations(tree, counts))
                done += 1
            rows.append(
                MechanismRow(
                    name,
                    calibration,
                    epsilon,
                    plan.loss,
                    tuple(np.mean(l1, axis=0).tolist()),
                    tuple(np.mean(emd, axis=0).tolist()),
                    float(np.mean(violations)),
                    float(np.median(seconds)),
                    repeats,
                )
            )
    report(Event("compare", done, done))
    return rows


def warm_up() -> None:
    """Compile every kernel on a toy instance, so that times are those of cached kernels."""
    from pgsr.hierarchy import tree_of

    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    truth = tree.sums(np.array([[1, 2, 3], [2, 0, 1]], dtype=np.int64))
    compare(tree, truth, [Fraction(1)], repeats=1)
