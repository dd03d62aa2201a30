"""Four kinds of noise for real queries, as the examples of private learning draw them.

Everything here is seeded and in floats: it is for experiments on made-up data, never for a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from topdown.optimal_noise import (
    Promise,
    RealQuestion,
    analytic_gaussian_sigma,
    classic_gaussian_sigma,
    sandwich,
    truncated_laplace,
)

EPSILON, DELTA = Fraction(1), Fraction(1, 10)
KINDS = ("GN", "aGN", "TLN", "OPT")
"""Classic Gaussian, analytic Gaussian, truncated Laplace, optimised: from the most noise to the least."""
CELLS = 16


@lru_cache(maxsize=1)
def _optimised() -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return cells, their probabilities and E|x| of the optimised law, spread over its cells, at sensitivity 1."""
    found = sandwich(RealQuestion(Promise(EPSILON, DELTA), Fraction(1), CELLS), "l1")
    cells, masses = zip(*found.law.items(), strict=True)
    return np.array(cells), np.array([float(m) for m in masses]), float(found.upper)


def mean_loss(kind: str) -> float:
    """Return E|x| of the noise at sensitivity 1."""
    epsilon, delta = float(EPSILON), float(DELTA)
    if kind == "OPT":
        return _optimised()[2]
    if kind == "TLN":
        return truncated_laplace(epsilon, delta, 1.0)[0]
    sigma = analytic_gaussian_sigma if kind == "aGN" else classic_gaussian_sigma
    return sigma(epsilon, delta, 1.0) * math.sqrt(2 / math.pi)


def draw(kind: str, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw noise for sensitivity 1.

    Args:
        kind: of KINDS.
        shape: of the array.
        generator: seeded.

    """
    epsilon, delta = float(EPSILON), float(DELTA)
    if kind == "OPT":
        cells, masses, _ = _optimised()
        places = generator.choice(len(cells), size=shape, p=masses / masses.sum())
        return (cells[places] + generator.uniform(-0.5, 0.5, shape)) / CELLS
    if kind == "TLN":
        end = math.log1p(math.expm1(epsilon) / (2 * delta))
        size = -np.log1p(generator.random(shape) * math.expm1(-end)) / epsilon
        return size * generator.choice((-1.0, 1.0), shape)
    sigma = analytic_gaussian_sigma if kind == "aGN" else classic_gaussian_sigma
    return generator.normal(0.0, sigma(epsilon, delta, 1.0), shape)


@dataclass(frozen=True)
class Spent:
    """What releases cost together.

    Args:
        n_releases: answers with noise.
        n_touched: of these, how many one record can change.
    """

    n_releases: int
    n_touched: int

    def lines(self) -> list[str]:
        """Say what each release keeps, and what all of them keep together."""
        epsilon, delta = self.n_touched * EPSILON, self.n_touched * DELTA
        together = f"added up, epsilon {epsilon} and delta {delta}"
        if delta >= 1:
            together += ", and a delta of 1 or more promises nothing"
        return [
            f"{self.n_releases} releases, each with epsilon {EPSILON} and delta {DELTA}",
            f"one record changes up to {self.n_touched} of them: {together}",
        ]


def loss_table() -> list[str]:
    """Return a line for each kind of noise: E|x| at sensitivity 1."""
    return [f"{kind:>4}  E|x| {mean_loss(kind):.4f} at sensitivity 1" for kind in KINDS]
