"""The exact privacy loss of the published chain's FINAL output on the smallest hierarchy (pgsr.md 1.1).

Root with two leaves, N = 2 sizes, G groups. Three unknowns are left after the tie and the public total:
c1 = n_1(first leaf), the tied pair c2 = n_1(root), and c3 = c2 + n_2(first leaf). Their released values depend
on y1, y2 + y2' and y3 only, so the output law is a finite sum over these, up to a stated tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp

import numpy as np
from numpy.typing import NDArray

from pgsr.twins import compositions

Floats = NDArray[np.float64]


Data = tuple[int, ...]
REFERENCE_PAIR: tuple[Data, Data] = ((1, 3, 0, 2), (0, 4, 0, 2))
"""Six groups (n_1, n_2 of the first leaf, n_1, n_2 of the second); one group grows: 0.643 / 1.363 / 2.843 at least."""
ROUNDING = 1e-9
"""More than float64 can add to a log-ratio of sums of a few million positive terms."""


@dataclass(frozen=True)
class OutputLeak:
    """The largest log-ratio of output probabilities between neighbours.

    Args:
        claimed: epsilon the mechanism was calibrated for.
        epsilon: at most the largest |log P(out | D) / P(out | D')| over outputs with probability above `floor`
            under either data set: what the truncation and float64 could add is taken off.
        bound: |R| claimed / L, what the noise really guarantees.
        output: the worst output (c1, c2, c3).
        first, second: the worst pair of data sets (n_1, n_2 of the first leaf; n_1, n_2 of the second).
        floor: probability below which outputs are left out.
        tail: probability mass left out of the sums.
    """

    claimed: Fraction
    epsilon: float
    bound: Fraction
    output: tuple[int, int, int]
    first: tuple[int, ...]
    second: tuple[int, ...]
    floor: float
    tail: float


class ChainOutputLaw:
    """Output law of the published chain for root, two leaves, N = 2.

    Args:
        claimed: claimed epsilon; noise scale is L / claimed.
        total: number of groups G.
    """

    def __init__(self, claimed: Fraction, total: int = 6) -> None:
        self.claimed, self.total = claimed, total
        self.alpha = exp(-float(claimed) / 2)
        self.reach = ceil(30.0 * 2 / float(claimed))
        self.tail = 3 * (self.reach + 2) * self.alpha**self.reach
        self._run_length_code()

    def _run_length_code(self) -> None:
        """Store, for every (y1, y2 + y2'), the runs of y3 that give one output."""
        reach, total = self.reach, self.total
        y1 = np.arange(-reach, total + reach + 1)
        pair = np.arange(-2 * reach, 2 * total + 2 * reach + 1)
        y3 = np.arange(-4 * reach, total + 4 * reach + 1)
        rows, pairs, stops, codes = [], [], [], []
        for i, first in enumerate(y1):
            code = self._outputs(int(first), pair[:, None], y3[None, :])
            ends = np.ones(code.shape, dtype=np.bool_)
            ends[:, :-1] = code[:, 1:] != code[:, :-1]
            j, k = np.nonzero(ends)
            rows.append(np.full(len(j), i))
            pairs.append(j)
            stops.append(k)
            codes.append(code[j, k])
        self.y1, self.pair, self.y3 = y1, pair, y3
        self.row, self.at, self.stop, self.code = map(np.concatenate, (rows, pairs, stops, codes))

    def _outputs(self, y1: int, pair: NDArray[np.int64], y3: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the released (c1, c2, c3) as one number, by the max-min formula with halves rounded up."""
        top = self.total

        def rounded(total: NDArray[np.int64], weight: int) -> NDArray[np.int64]:
            return np.floor_divide(2 * total + weight, 2 * weight)

        one, two, three = np.asarray(y1), rounded(pair, 2), y3
        first_two, last_two, all_three = (
            rounded(y1 + pair, 3),
            rounded(pair + y3, 3),
            rounded(y1 + pair + y3, 4),
        )
        c1 = np.minimum(np.minimum(one, first_two), all_three)
        c2 = np.maximum(np.minimum(first_two, all_three), np.minimum(two, last_two))
        c3 = np.maximum(np.maximum(all_three, last_two), three)
        low, middle, high = (np.clip(c, 0, top) for c in (c1, c2, c3))
        code: NDArray[np.int64] = (low * (top + 1) + middle) * (top + 1) + high
        return code

    def _noise(self, size: int) -> Floats:
        law = self.alpha ** np.abs(np.arange(-size, size + 1)).astype(np.float64)
        return law * (1 - self.alpha) / (1 + self.alpha)

    def law(self, c1: int, c2: int, c3: int) -> Floats:
        """Return the probability of each output when the true chain entries are c1, c2 (tied) and c3."""
        alpha = self.alpha
        one = (1 - alpha) / (1 + alpha) * alpha ** np.abs(self.y1 - c1).astype(np.float64)
        wide = np.convolve(self._noise(4 * self.reach), self._noise(4 * self.reach))
        two = wide[self.pair - 2 * c2 + 8 * self.reach]
        gap = (self.y3 - c3).astype(np.float64)
        below = np.where(
            gap < 0, alpha ** np.abs(gap) / (1 + alpha), 1 - alpha ** (np.abs(gap) + 1) / (1 + alpha)
        )
        below[-1] = 1.0
        mass = below[self.stop]
        starts = np.append(True, (self.row[1:] != self.row[:-1]) | (self.at[1:] != self.at[:-1]))
        mass = mass - np.where(starts, 0.0, np.append(0.0, mass[:-1]))
        weights = one[self.row] * two[self.at] * mass
        found: Floats = np.bincount(self.code, weights=weights, minlength=(self.total + 1) ** 3).astype(
            np.float64
        )
        return found


def published_chain_epsilon(
    claimed: Fraction,
    pair: tuple[Data, Data] | None = REFERENCE_PAIR,
    total: int = 6,
    floor: float = 1e-7,
) -> OutputLeak:
    """Return the exact output-level epsilon of the chain calibrated as published, root + 2 leaves, N = 2.

    Args:
        claimed: claimed epsilon.
        pair: two neighbours to compare; None tries every data set of `total` groups and every move.
        total: number of groups G when every data set is tried.
        floor: smallest output probability, under either data set, that counts.

    Cost: about 1.5 s at claimed 1/2, less at larger ones.
    """
    engine = ChainOutputLaw(claimed, sum(pair[0]) if pair else total)
    laws: dict[tuple[int, int, int], Floats] = {}

    def law(data: Data) -> Floats:
        entries = (data[0], data[0] + data[2], data[0] + data[2] + data[1])
        if entries not in laws:
            laws[entries] = engine.law(*entries)
        return laws[entries]

    ratio, code = -1.0, 0
    first: Data = ()
    second: Data = ()
    for data, moved in [pair] if pair else _all_moves(total):
        p, q = law(data), law(moved)
        keep = np.flatnonzero((p > floor) | (q > floor))
        ratios = np.abs(np.log(p[keep]) - np.log(q[keep]))
        ratios -= 3 * engine.tail / np.minimum(p[keep], q[keep]) + ROUNDING
        i = int(ratios.argmax())
        if ratios[i] > ratio:
            ratio, code, first, second = float(ratios[i]), int(keep[i]), data, moved
    base = engine.total + 1
    output = (code // base**2, code // base % base, code % base)
    return OutputLeak(claimed, ratio, Fraction(3, 2) * claimed, output, first, second, floor, engine.tail)


def _all_moves(total: int) -> Iterator[tuple[Data, Data]]:
    for data in compositions(total, 4):
        for leaf in (0, 2):
            if data[leaf] > 0:
                yield data, tuple(v + (i == leaf + 1) - (i == leaf) for i, v in enumerate(data))


def probability(claimed: Fraction, data: tuple[int, int, int, int], output: tuple[int, int, int]) -> float:
    """Return the probability of one output (c1, c2, c3) of the published chain.

    Args:
        claimed: claimed epsilon.
        data: n_1, n_2 of the first leaf, then of the second.
        output: released c1, c2, c3.
    """
    total = sum(data)
    engine = ChainOutputLaw(claimed, total)
    law = engine.law(data[0], data[0] + data[2], data[0] + data[2] + data[1])
    base = total + 1
    return float(law[(output[0] * base + output[1]) * base + output[2]])
