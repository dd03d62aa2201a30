"""How often a guess is right: the loss of many noisy counts, spread over a grid, and a test that only compares it.

Nothing of the product is used. Losses are rounded to a grid; "the first, if the rounded loss is above x" is a test
that anybody could carry out, so what it reaches is reached, and the best attacker can only be better.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

Noise = tuple[str, Fraction]  # law and parameter: variance (discrete Gaussian) or scale (geometric)
FINE = 400  # grid points a unit of loss where exact losses need more
MOST_POINTS = 1 << 18


@dataclass(frozen=True)
class Moved:
    """Counts that two data sets have one record apart, each by one: how many of them under which noise."""

    counts: tuple[tuple[Noise, int], ...]

    @staticmethod
    def of(counts: Iterable[tuple[Noise, int]]) -> Moved:
        """Add up counts under equal noise."""
        found: Counter[Noise] = Counter()
        for noise, n in counts:
            found[noise] += n
        return Moved(tuple(sorted((noise, n) for noise, n in found.items() if n)))

    def within(self, other: Moved) -> bool:
        """Tell whether the other has all these counts and perhaps more: then it tells at least as much."""
        have = dict(other.counts)
        return all(have.get(noise, 0) >= n for noise, n in self.counts)

    @property
    def n(self) -> int:
        """How many counts differ."""
        return sum(n for _, n in self.counts)

    @property
    def rho(self) -> Fraction:
        """Half the squared distance in standard deviations, exact."""
        return sum((n / (2 * v) for (_, v), n in self.counts), Fraction(0))

    @property
    def largest_loss(self) -> Fraction:
        """Largest log odds of geometric noise: one scale for each count, exact."""
        return sum((n / t for (_, t), n in self.counts), Fraction(0))

    @property
    def geometric(self) -> bool:
        """Whether the noise is geometric."""
        return any(law != "discrete_gaussian" for (law, _), _ in self.counts)

    def right(self) -> float:
        """Return how often a guess between two equally likely data sets is right."""
        if not self.counts:
            return 0.5
        first, second = self._spread(0.0, 0.0)
        return float(0.5 + 0.5 * (first[self._index > 0].sum() - second[self._index > 0].sum()))

    def delta(self, epsilon: float) -> float:
        """Return P(S) - e**epsilon Q(S) for the outputs S whose rounded loss is above epsilon (Gaussian noise)."""
        tilt = max((epsilon - float(self.rho)) / (2 * float(self.rho)), 0.0)
        first, second = self._spread(tilt, tilt + 1)
        inside = self._index * self._step > epsilon
        return float((first[inside] - np.exp(epsilon) * second[inside]).sum())

    @cached_property
    def _step(self) -> float:
        twice = [2 * p if law == "discrete_gaussian" else p for (law, p), _ in self.counts]
        lattice = math.lcm(*((1 / p).denominator for p in twice))
        return 1 / (lattice if lattice * self._reach * 2 < MOST_POINTS else FINE)

    @cached_property
    def _reach(self) -> float:
        if self.geometric:
            return float(self.largest_loss) + 1
        rho = float(self.rho)
        return 14 * math.sqrt(2 * rho) + 3 * rho + 5

    @cached_property
    def _index(self) -> np.ndarray:
        n_points = 1 << math.ceil(math.log2(2 * self._reach / self._step + 2))
        return np.arange(n_points) - n_points // 2

    def _spread(self, tilt: float, other: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the chance of every rounded loss under both data sets.

        Both are multiplied by e**(tilt x loss) while they are convolved, so that what is rare is not lost.
        """
        found = []
        for which, t in ((0, tilt), (1, other)):
            spectrum, log_mass = np.ones(len(self._index) // 2 + 1, dtype=complex), 0.0
            for (law, parameter), n in self.counts:
                chances, index = _one_count(law, parameter, self._step)
                weights = chances[which] * np.exp(t * self._step * index)
                log_mass += n * math.log(weights.sum())
                row = np.zeros(len(self._index))
                np.add.at(row, index % len(row), weights / weights.sum())
                spectrum *= np.fft.rfft(row) ** n
            row = np.fft.fftshift(np.fft.irfft(spectrum, len(self._index)))
            found.append(np.maximum(row, 0) * np.exp(log_mass - t * self._step * self._index))
        return found[0], found[1]


def _one_count(
    law: str, parameter: Fraction, step: float
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the chances of what one count shows if it is 0 and if it is 1, and the rounded loss of each."""
    if law == "two_sided_geometric":
        low = 1 / (1 + math.exp(1 / parameter))
        index = np.rint(np.array([1, -1]) / (float(parameter) * step)).astype(np.int64)
        return (np.array([1 - low, low]), np.array([low, 1 - low])), index
    assert law == "discrete_gaussian", law
    v = float(parameter)
    far = int(15 * math.sqrt(v)) + 3
    shown = np.arange(-far, far + 2, dtype=float)
    chances = [np.exp(-((shown - mean) ** 2) / (2 * v)) for mean in (0, 1)]
    index = np.rint((1 - 2 * shown) / (2 * v * step)).astype(np.int64)
    return (chances[0] / chances[0].sum(), chances[1] / chances[1].sum()), index
