"""One number a run that says which of two data sets it was drawn from: large for the second.

`likelihood_ratio` is the best score if the noise has the claimed laws and is independent. `learned` needs no claim: it
is the linear score that separates a few runs best (Fisher 1936), and sees noise that is shared or shifted elsewhere.
Any score is allowed: what is shown of it holds whatever it is, so float64 will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.audit_runs.stage import Answers
from topdown.plan.plan import Law

Floats = NDArray[np.float64]
_RIDGE = 1e-9  # of the mean variance: noise that is a function of other noise has none of its own


@dataclass(frozen=True, eq=False)
class LikelihoodRatio:
    """The log-likelihood ratio under the claimed laws, over some of a run's numbers.

    Args:
        answers: what the numbers are.
        law: of all noise.
        chosen: bool, which numbers count.
    """

    answers: Answers
    law: Law
    chosen: NDArray[np.bool_]

    def of(self, runs: NDArray[np.int32]) -> Floats:
        """Return the score of each run, summed over its files."""
        width = len(self.chosen)
        first, second = self.answers.truth[:, self.chosen].astype(np.float64)
        parameter = self.answers.parameter[self.chosen]
        out = np.zeros(len(runs))
        for start in range(0, runs.shape[1], width):
            noisy = runs[:, start : start + width][:, self.chosen]
            if self.law == "discrete_gaussian":
                out += (noisy - (first + second) / 2) @ ((second - first) / parameter)
            else:
                out += (np.abs(noisy - first) - np.abs(noisy - second)) @ (1 / parameter)
        return out


@dataclass(frozen=True, eq=False)
class Linear:
    """A weighted sum of a run's numbers."""

    weights: Floats

    def of(self, runs: NDArray[np.int32]) -> Floats:
        """Return the score of each run."""
        return np.asarray(runs @ self.weights)


Score = LikelihoodRatio | Linear


def learned(runs: tuple[Iterable[NDArray[np.int32]], Iterable[NDArray[np.int32]]]) -> Linear:
    """Return the linear score that separates runs on two data sets best."""
    first, second = (np.concatenate(list(side)).astype(np.float64) for side in runs)
    within = np.cov(first, rowvar=False, ddof=0) + np.cov(second, rowvar=False, ddof=0)
    within = np.atleast_2d(within)
    mean = float(np.trace(within)) / len(within)
    within += (_RIDGE * mean + 1e-12) * np.eye(len(within))
    return Linear(np.linalg.solve(within, second.mean(axis=0) - first.mean(axis=0)))
