"""Kernels in integers: a law of the answer for every true count, checked exactly and drawn from exactly."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import final

from topdown.errors import InternalError
from topdown.noise.bits import BitSource
from topdown.noise.optimal.verify import exp_bounds

BITS = 96
_FIRST_SHARE, _STEP, _LARGEST_SHARE = Fraction(1, 1 << 60), 8, Fraction(1, 1 << 12)


@final
@dataclass(frozen=True)
class Kernel:
    """P(answer = y | count = n) = weights[n][y] / 2^bits, for n and y in 0 .. M.

    Raises:
        ValueError: rows of other lengths, a weight below 0, or a row that does not add up to 2^bits.

    """

    weights: tuple[tuple[int, ...], ...]
    bits: int = BITS

    def __post_init__(self) -> None:
        n = len(self.weights)
        if n == 0 or any(len(row) != n for row in self.weights):
            raise ValueError("a kernel needs as many answers as counts.")
        if any(min(row) < 0 or sum(row) != 1 << self.bits for row in self.weights):
            raise ValueError(f"a row of a kernel is not made of weights >= 0 that add up to 2^{self.bits}.")
        if self.bits < 1 or self.bits % 8:
            raise ValueError("the bits of a kernel are a multiple of 8.")

    @property
    def largest(self) -> int:
        """M, the largest count and answer."""
        return len(self.weights) - 1

    @cached_property
    def _cumulated(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(accumulate(row)) for row in self.weights)

    def draw(self, count: int, bits: BitSource) -> int:
        """Draw one answer, with bits / 8 bytes of the source.

        Args:
            count: the true count, 0 .. M.
            bits: the source of the random bits.

        Raises:
            ValueError: a count outside 0 .. M. It is never moved to an end: that would be another mechanism.

        """
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= self.largest:
            raise ValueError(f"a count is outside 0 .. {self.largest}. Fix: a kernel for larger counts.")
        drawn = int.from_bytes(bits.read(self.bits // 8), "big")
        return bisect_right(self._cumulated[count], drawn)


def largest_excess(kernel: Kernel, epsilon: Fraction, sensitivity: int) -> Fraction:
    """Return an upper bound of the delta that the kernel needs, with e^epsilon bounded from below.

    Compares every ordered pair of counts at most `sensitivity` apart, answer by answer, in integers.

    Args:
        kernel: in integer weights.
        epsilon: of the guarantee, >= 0.
        sensitivity: by how much the count of neighbours differs at most, >= 1.

    """
    growth = exp_bounds(epsilon)[0]
    top, bottom = growth.numerator, growth.denominator
    worst = 0
    for n, own in enumerate(kernel.weights):
        for m in range(max(0, n - sensitivity), min(kernel.largest, n + sensitivity) + 1):
            if m != n:
                other = kernel.weights[m]
                terms = (bottom * a - top * b for a, b in zip(own, other, strict=True))
                worst = max(worst, sum(t for t in terms if t > 0))
    return Fraction(worst, bottom << kernel.bits)


def private_kernel(
    laws: Sequence[Sequence[float]], epsilon: Fraction, delta: Fraction, sensitivity: int
) -> Kernel:
    """Round float laws to integer weights that keep (epsilon, delta) exactly, with as little change as it takes.

    Laws that break the guarantee by a solver's tolerance are mixed with the even law, more and more, until the
    exact check passes.

    Args:
        laws: one a count, of 0 .. M each; roughly adding up to one.
        epsilon, delta: of the guarantee.
        sensitivity: by how much the count of neighbours differs at most.

    Raises:
        InternalError: X055, if a share of 2^-12 of the even law is not enough.

    """
    exact = [[Fraction(max(0.0, float(p))) for p in row] for row in laws]
    exact = [[p / sum(row) for p in row] for row in exact]
    share = Fraction(0)
    while share <= _LARGEST_SHARE:
        kernel = Kernel(tuple(_weights(row, share) for row in exact))
        if largest_excess(kernel, epsilon, sensitivity) <= delta:
            return kernel
        share = max(_FIRST_SHARE, share * _STEP)
    raise InternalError(
        f"the solver's kernel does not keep delta = {delta}, not even with a 4096th of even answers mixed in",
        code="X055",
        fix="a larger delta or epsilon, or fewer counts, makes the program easier",
    )


def _weights(row: Sequence[Fraction], share: Fraction) -> tuple[int, ...]:
    """Mix a law with the even one and round its distribution function down, which keeps the total."""
    even = share / len(row)
    sums = [Fraction(0), *accumulate((1 - share) * p + even for p in row)]
    ends = [int(s * (1 << BITS)) for s in sums]
    return tuple(b - a for a, b in pairwise(ends))
