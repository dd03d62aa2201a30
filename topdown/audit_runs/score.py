"""Numbers of a run that say which of two data sets it was drawn from: large for the second.

A likelihood ratio is the best score if the noise has the claimed laws and is independent. The learned one needs no
claim: it is the linear score that separates a few runs best (Fisher 1936), and sees noise that is shared or shifted
elsewhere. Any score is allowed: what is shown of it holds whatever it is, so float64 will do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.audit_runs.pairs import Target
from topdown.audit_runs.stage import PairAnswers
from topdown.laws import UNIT, LawName, Weights

Floats = NDArray[np.float64]
Runs = NDArray[np.int32]
_NEVER = -1000.0  # nats; far from every sum of ratios of values that a law gives
_RIDGE = 1e-9  # of the mean variance: noise that is a function of other noise has none of its own


@dataclass(frozen=True, eq=False)
class LikelihoodRatios:
    """Log-likelihood ratios under the claimed laws, each over some of a run's numbers.

    Args:
        answers: what the numbers are.
        law: of all noise.
        targets: what each ratio looks at; None: everything.
    """

    answers: PairAnswers
    law: LawName
    targets: Sequence[Target | None]

    def of(self, runs: Runs) -> Floats:
        """Return the scores of each run, summed over its files: (n_targets, n_runs). Numbers that stay add nothing."""
        first, second = self.answers.truth.astype(np.float64)
        moved = np.flatnonzero(first != second)
        first, second, parameter = first[moved], second[moved], self.answers.parameter[moved]
        counts = np.array(
            [[target in (None, self.answers.target[i]) for i in moved] for target in self.targets],
            dtype=float,
        ).reshape(len(self.targets), len(moved))
        out = np.zeros((len(self.targets), len(runs)))
        for start in range(0, runs.shape[1], len(self.answers.target)):
            noisy = runs[:, start + moved].T.astype(np.float64)
            match self.law:
                case "discrete_gaussian":
                    noisy -= ((first + second) / 2)[:, None]
                    out += (counts * ((second - first) / parameter)) @ noisy
                case "two_sided_geometric":
                    noisy = np.abs(noisy - first[:, None]) - np.abs(noisy - second[:, None])
                    out += (counts / parameter) @ noisy
                case "optimal_integer":
                    own = [self.answers.weights[i] for i in moved]
                    odds = [
                        _log(w, x - b) - _log(w, x - a)
                        for w, x, a, b in zip(own, noisy, first, second, strict=True)
                    ]
                    out += counts @ np.array(odds).reshape(noisy.shape)
        return out


def _log(weights: Weights, noise: Floats) -> Floats:
    """Return the logarithm of each noise's probability; for what the law never gives that of e^-1000."""
    known = np.array([math.log(weight) for weight in weights]) - math.log(UNIT)
    place = np.abs(noise).astype(np.int64)
    return np.where(place < len(known), known[np.minimum(place, len(known) - 1)], _NEVER)


@dataclass(frozen=True, eq=False)
class Linear:
    """A weighted sum of a run's numbers."""

    weights: Floats

    def of(self, runs: Runs) -> Floats:
        """Return the score of each run, (1, n_runs)."""
        return np.asarray(runs @ self.weights)[None, :]


Score = LikelihoodRatios | Linear


def learned(runs: tuple[Iterable[Runs], Iterable[Runs]]) -> Linear:
    """Return the linear score that separates runs on two data sets best."""
    means: list[Floats] = []
    within = np.zeros(())
    for side in runs:
        noisy = np.concatenate(list(side)).astype(np.float64)
        means.append(noisy.mean(axis=0))
        noisy -= means[-1]
        within = within + noisy.T @ noisy / len(noisy)
    mean = float(np.trace(within)) / len(within)
    within += (_RIDGE * mean + 1e-12) * np.eye(len(within))
    return Linear(np.asarray(np.linalg.solve(within, means[1] - means[0]), dtype=np.float64))
