"""Repeatable random numbers for made-up data; never for noise.

NumPy promises stable raw words of PCG64, but not stable variates of `Generator` (NEP 19), so uniforms and
normals are made here. Each part of the generator has its own named stream, so that a change to one leaves
the others as they were.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

_STREAM_STEP = 2.0**-53
_BELOW_ONE = 1.0 - 2.0**-32  # keeps row + u inside its row after rounding


class RepeatableRandom:
    """A stream of random numbers that depends on the seed and the names only.

    Args:
        seed: nonnegative integer.
        names: which part of which generator draws.
    """

    def __init__(self, seed: int, *names: str) -> None:
        words = [seed, *(zlib.crc32(name.encode()) for name in names)]
        self._words = np.random.PCG64(np.random.SeedSequence(words))

    def uniform(self, *shape: int) -> NDArray[np.float64]:
        """Draw from [0, 1)."""
        n = int(np.prod(shape, dtype=np.int64))
        words = np.asarray(self._words.random_raw(n), dtype=np.uint64)
        out: NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * (_STREAM_STEP * _BELOW_ONE)
        return out.reshape(shape)

    def normal(self, *shape: int) -> NDArray[np.float64]:
        """Draw standard normals (Box and Muller 1958)."""
        both = self.uniform(*shape, 2)
        radius = np.sqrt(-2.0 * np.log1p(-both[..., 0]))
        out: NDArray[np.float64] = radius * np.cos(2.0 * np.pi * both[..., 1])
        return out

    def below(self, limit: int, n: int) -> NDArray[np.int64]:
        """Draw n whole numbers from 0..limit-1."""
        return (self.uniform(n) * limit).astype(np.int64)

    def choose(self, log_weights: NDArray[np.float64], row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw one value for each entry of `row` with the weights of that row.

        Args:
            log_weights: shape (n_rows, n_values); -inf where a value is impossible, not everywhere in a row.
            row: row of each draw, shape (n,).

        Returns:
            value index, shape (n,).

        Cost: one binary search a draw in all rows' cumulative shares laid end to end.
        """
        n_values = log_weights.shape[1]
        cumulative = np.cumsum(softmax(log_weights), axis=1)
        cumulative /= cumulative[:, -1:]
        ends = (cumulative + np.arange(len(cumulative))[:, None]).reshape(-1)
        found = np.searchsorted(ends, row + self.uniform(len(row)), side="right")
        value: NDArray[np.int64] = np.clip(found.astype(np.int64) - row * n_values, 0, n_values - 1)
        return value


def softmax(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn rows of log weights into shares."""
    shares = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    out: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
    return out


def apportion(total: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Split a whole number in proportion to weights by largest remainders; the parts sum to `total`."""
    if total == 0 or len(weights) == 0:
        return np.zeros(len(weights), dtype=np.int64)
    ideal = weights * (total / weights.sum())
    parts: NDArray[np.int64] = np.floor(ideal).astype(np.int64)
    left = total - int(parts.sum())
    order = np.argsort(parts - ideal, kind="stable")
    while left > 0:  # more than one round only after float error on huge totals
        step = min(left, len(order))
        parts[order[:step]] += 1
        left -= step
    while left < 0:
        last = order[::-1][parts[order[::-1]] > 0][:-left]
        parts[last] -= 1
        left += len(last)
    return parts
