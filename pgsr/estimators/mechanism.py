"""The mechanisms by name: what each measures, how it post-processes, what its output promises.

An estimator is a function of noisy answers and public numbers; a new one is a file beside this and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pgsr.estimators.count_intervals import CountPosterior
from pgsr.estimators.cumulative import Tell, cumulative_estimate
from pgsr.estimators.exact_optima import (
    TreeCertificate,
    chain_estimate,
    descend,
    relaxed_histograms,
    tree_optimum,
)
from pgsr.estimators.large_groups import RowsDesign, all_columns
from pgsr.estimators.shrinkage import (
    Answers,
    add_up_known,
    constrained_estimate,
    fitted_totals,
    posterior_estimate,
)
from pgsr.exact_arguments import refuse_inexact
from pgsr.hierarchy import Tree
from pgsr.level_noise import Calibration
from pgsr.vectors import ADAPTIVE, Kind
from topdown.arrays import Ints
from topdown.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Estimate:
    """Counts after post-processing.

    Args:
        counts: released counts [size][node].
        certificate: exchange certificate where Model 1 was solved exactly; None otherwise.
        claim: in one sentence, what is claimed about optimality.
        posterior: of every count; None where the noise alone says how far counts may be off.
    """

    counts: Ints
    certificate: TreeCertificate | None
    claim: str
    posterior: CountPosterior | None = None


Estimator = Callable[[Tree, Ints, int, list[Fraction] | None, Tell], tuple[Ints, TreeCertificate | None]]


@dataclass(frozen=True)
class Mechanism:
    """One mechanism of the paper, or ours.

    Args:
        name: as published.
        family: "histogram", "cumulative", "rows" or "chain": the measured vector up to its direction.
        consistent: whether the output is consistent, valid and faithful by construction.
        weighted: whether inverse-variance weights are used when levels have unequal budgets; they hurt
            estimators that work on histograms (pgsr.md 2.4).
        claim: what is claimed about optimality.
        keeps_totals: whether public numbers of groups come out exactly.
    """

    name: str
    family: str
    consistent: bool
    weighted: bool
    claim: str
    keeps_totals: bool = False


_NONE = "none: consistent by construction"
_MODEL1 = "exact integer optimum of Model 1"
MECHANISMS = {
    m.name: m
    for m in (
        Mechanism("M_H^r", "histogram", False, False, "Model 1 without integrality, rounded"),
        Mechanism("M_H^dp", "histogram", True, False, f"{_MODEL1}, certified by exchange"),
        Mechanism("M_c^r", "cumulative", False, True, "Model 2 by ADMM without integrality, rounded"),
        Mechanism("M_c^dp", "cumulative", True, False, "isotonic per region, then Model 1 exactly"),
        Mechanism("M_c^ch", "chain", True, True, "exact integer optimum of the chain (Model 3)"),
        Mechanism("TopDown", "histogram", True, False, "exact optimum of each step, not of the whole"),
        Mechanism("tracking", "cumulative", True, True, _NONE, keeps_totals=True),
        Mechanism("posterior", "rows", True, True, _NONE, keeps_totals=True),
    )
}
ADMM_ITERATIONS = 30
DEFAULT = "posterior"
DIRECTIONS = ("tail", "cumulative")


def mechanism_named(name: str) -> Mechanism:
    """Return the mechanism of that name.

    Raises:
        ConfigError: no such mechanism.
    """
    if name not in MECHANISMS:
        raise ConfigError(
            f"unknown mechanism {name!r}", code="C153", fix=f"use one of {', '.join(MECHANISMS)}"
        )
    return MECHANISMS[name]


def vector_kind(mechanism: Mechanism, direction: str = "tail", *, whole_groups: bool = False) -> Kind:
    """Return what the mechanism measures: histograms, or sums over sizes in the stated direction.

    Tail counts (size s or more) have the same noise as cumulative counts for moves and N times less when a new
    group may appear (pgsr.md 1.2), so they are the default. Rows go with tail counts, whatever the
    direction, and cover steps of one person alone: with `whole_groups` all answers are tail counts.
    """
    if direction not in DIRECTIONS:
        raise ConfigError(f"unknown direction {direction!r}", code="C154", fix="use tail or cumulative")
    kinds: dict[tuple[str, str], Kind] = {
        ("cumulative", "tail"): "tail",
        ("cumulative", "cumulative"): "cumulative",
        ("rows", "tail"): "tail_rows",
        ("rows", "cumulative"): "tail_rows",
        ("chain", "tail"): "tail_chain",
        ("chain", "cumulative"): "chain",
    }
    kind = kinds.get((mechanism.family, direction), "histogram")
    return "tail" if kind == ADAPTIVE and whole_groups else kind


def estimate(
    mechanism: Mechanism,
    tree: Tree,
    noisy: Ints,
    total: int,
    kind: Kind,
    calibration: Calibration | None = None,
    known: Ints | None = None,
    tell: Tell = lambda _: None,
) -> Estimate:
    """Return the counts a mechanism makes of its noisy answers. Reads nothing confidential.

    Args:
        mechanism: the post-processing.
        noisy: noisy answers [size][node].
        total: public number of groups G.
        kind: what the answers measure; sums from the largest size down are reversed first.
        calibration: noise per level, for mechanisms that weigh levels; None for equal weights.
        known: public number of groups of every node, -1 where there is none; kept by mechanisms that say so.
        tell: hears of steps of what takes long.
    """
    if mechanism.name == DEFAULT or (
        mechanism.keeps_totals and known is not None and known[1:].max(initial=-1) >= 0
    ):
        return _constrained(mechanism, tree, noisy, total, kind, calibration, known)
    weights = inverse_variance(calibration) if calibration is not None and mechanism.weighted else None
    reverse = kind in ("tail", "tail_chain")
    up = np.ascontiguousarray(noisy[::-1]) if reverse else noisy
    counts, certificate = _ESTIMATORS[mechanism.name](tree, up, total, weights, tell)
    if reverse:
        counts = np.ascontiguousarray(counts[::-1])
    return Estimate(counts, certificate, mechanism.claim)


def _constrained(
    mechanism: Mechanism,
    tree: Tree,
    noisy: Ints,
    total: int,
    kind: Kind,
    calibration: Calibration | None,
    known: Ints | None,
) -> Estimate:
    known = np.full(tree.n_nodes, -1, dtype=np.int64) if known is None else known.copy()
    known[0] = total
    by_level = (Fraction(2),) * tree.n_levels if calibration is None else calibration.relative_variance
    variances = np.array([float(v) for v in by_level])[tree.level_of]
    refuse_inexact(noisy, total)
    fitted = fitted_totals(tree, noisy, variances, known, tail=kind != "cumulative")
    laws = _equal_noise(tree.n_levels) if calibration is None else calibration
    found = None
    if fitted is not None and mechanism.name == DEFAULT:
        public = RowsDesign(tree, add_up_known(tree, known), tuple(map(float, by_level)))
        choice = public.choice(noisy) if kind == ADAPTIVE else all_columns(tree, len(noisy))
        answers = Answers(tree, np.ascontiguousarray(noisy.T), choice, fitted.totals, laws)
        found = posterior_estimate(answers, fitted.certain, fitted.variance)
    elif fitted is not None:
        found = constrained_estimate(tree, noisy, variances, fitted, tail=kind == "tail")
    if found is None:
        kind = "tail" if kind == ADAPTIVE else kind
        plain = estimate(MECHANISMS["tracking"], tree, noisy, total, kind, calibration)
        return Estimate(plain.counts, None, mechanism.claim)
    most = 2.0 * np.cumsum([float(v) for v in by_level])[tree.level_of]
    posterior = CountPosterior(found.mean, found.variance, found.ratio, 2.0 * variances, most, laws.noise)
    return Estimate(found.counts, None, mechanism.claim, posterior)


def _equal_noise(n_levels: int) -> Calibration:
    """Return geometric noise of scale 1 at every level, for answers whose noise is not stated."""
    whole, each = Fraction(n_levels), (Fraction(1),) * n_levels
    return Calibration("geometric", "correct", whole, whole, each, (1,) * n_levels, ("move",))


def inverse_variance(calibration: Calibration) -> list[Fraction] | None:
    """Return integer weights in proportion to 1 / variance, the least one being 1; None if all are equal."""
    precisions = [1 / Fraction(v) for v in calibration.relative_variance]
    least = min(precisions)
    weights = [Fraction(round(p / least)) for p in precisions]
    return None if all(w == 1 for w in weights) else weights


def _relaxed(
    tree: Tree, noisy: Ints, total: int, weights: list[Fraction] | None, _tell: Tell
) -> tuple[Ints, TreeCertificate | None]:
    return np.floor(relaxed_histograms(tree, noisy, total, weights) + 0.5).astype(np.int64), None


def _exact_tree(
    tree: Tree, noisy: Ints, total: int, weights: list[Fraction] | None, _tell: Tell
) -> tuple[Ints, TreeCertificate | None]:
    counts, _, certificate = tree_optimum(tree, noisy, total, weights)
    return counts, certificate


def _cumulative(method: str, admm: int = 0) -> Estimator:
    def run(
        tree: Tree, noisy: Ints, total: int, weights: list[Fraction] | None, tell: Tell
    ) -> tuple[Ints, TreeCertificate | None]:
        found = cumulative_estimate(tree, noisy, total, method=method, weights=weights, admm=admm, tell=tell)
        return found.counts, found.certificate

    return run


_ESTIMATORS: dict[str, Estimator] = {
    "M_H^r": _relaxed,
    "M_H^dp": _exact_tree,
    "M_c^r": _cumulative("M_c^r", ADMM_ITERATIONS),
    "M_c^dp": _cumulative("M_c^dp"),
    "M_c^ch": lambda tree, noisy, total, weights, _: (chain_estimate(tree, noisy, total, weights)[0], None),
    "TopDown": lambda tree, noisy, total, *_: (descend(tree, noisy, total), None),
    "tracking": _cumulative("tracking"),
}
