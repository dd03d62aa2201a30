"""A symmetric law given by whole weights over 2^128: its tables are sums of its weights, with nothing to certify."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

BITS = 128


@dataclass(frozen=True)
class WeightedInteger:
    """The law on -n .. n with P(X = k) = weights[|k|] / 2^128.

    Args:
        weights: of 0, 1, .. n; whole numbers above 0; the first, and twice each of the others, add to 2^128.

    Raises:
        TypeError: a weight that is no whole number.
        ValueError: weights that do not add up, or a law of one value only.

    Source: `noise/optimal/PROOF.md`, sections on whole weights and drawing.

    """

    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(isinstance(w, bool) or not isinstance(w, int) for w in self.weights):
            raise TypeError("Weights are whole numbers. Fix: those of a law that was made and checked.")
        if len(self.weights) < 2 or min(self.weights) < 1:
            raise ValueError(
                "A law needs two weights or more, each above 0. Fix: zero noise is no mechanism."
            )
        if 2 * sum(self.weights) - self.weights[0] != 1 << BITS:
            raise ValueError("The weights of a law add to 2^128. Fix: take them from a plan.")

    def half_width(self, n_bits: int) -> int:
        """Return the largest value, whatever the number of bits."""
        return len(self.weights) - 1

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """2^128 P(X <= k) for k = -n .. n - 1, exact."""
        return tuple(accumulate((*self.weights[:0:-1], *self.weights[:-1])))

    def thresholds(self, n_bits: int) -> tuple[int, ...]:
        """Return floor(2^n_bits P(X <= k)) for k = -n .. n - 1, exact."""
        if n_bits >= BITS:
            return tuple(one << (n_bits - BITS) for one in self.sums)
        return tuple(one >> (BITS - n_bits) for one in self.sums)

    def mass(self, k: int) -> int:
        """Return 2^128 P(X = k), exact."""
        return self.weights[abs(k)] if abs(k) < len(self.weights) else 0
