"""Where an algorithm meets randomness: one seam for every decision, so that the auditor can take all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import final

import numpy as np
import numpy.typing as npt

from topdown.noise.bits import BitSource
from topdown.noise.rejection import bernoulli
from topdown.selection import draw

Flags = npt.NDArray[np.bool_]


class Chance(ABC):
    """Random decisions of stated laws, independent of each other."""

    @abstractmethod
    def keep(self, n_records: int, rate: Fraction) -> Flags:
        """Keep each of n records with probability `rate`."""

    @abstractmethod
    def choose(self, scores: Sequence[int], base: Fraction) -> int:
        """Choose an index of at least one score with probability proportional to base^score."""

    @abstractmethod
    def accept(self, base: Fraction, exponent: int) -> bool:
        """Say True with probability base^-exponent, and always where the exponent is 0 or less."""

    @abstractmethod
    def coin(self, probability: Fraction) -> bool:
        """Say True with a probability that no record decides."""

    @abstractmethod
    def raised(self, count: int, base: Fraction, most: int) -> int:
        """Return min(count + G, most), with P(G = j) = (1 - 1/base) base^-j: never below min(count, most)."""

    @abstractmethod
    def first_accepted(self, n: int, base: Fraction, exponent: int) -> int:
        """Return which of n `accept` is the first True, or n."""


@final
class RealChance(Chance):
    """Draw from a source of bits, exactly.

    Args:
        bits: `AesBits()` for records; a seeded source only for made-up ones.

    """

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits

    def keep(self, n_records: int, rate: Fraction) -> Flags:
        """Keep each record by a number of 64 bits, and more where these leave it open."""
        return draw.keep(n_records, rate, self._bits)

    def choose(self, scores: Sequence[int], base: Fraction) -> int:
        """Choose by rejection."""
        return draw.choose(scores, base, self._bits)

    def accept(self, base: Fraction, exponent: int) -> bool:
        """Compare one lazy uniform number with the power."""
        return exponent <= 0 or draw.bernoulli_power(base, exponent, self._bits)

    def coin(self, probability: Fraction) -> bool:
        """Toss a rational coin."""
        return bernoulli(probability, self._bits)

    def raised(self, count: int, base: Fraction, most: int) -> int:
        """Add coins until one fails."""
        return min(count, most) + draw.geometric(base, self._bits, max(0, most - count))

    def first_accepted(self, n: int, base: Fraction, exponent: int) -> int:
        """Skip the failures by one lazy uniform number."""
        return draw.first_success(n, base, max(0, exponent), self._bits)
