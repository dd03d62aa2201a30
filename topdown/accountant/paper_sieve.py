"""The published algorithm, step by step: the slow, readable twin (Su, Su, Wang, arXiv 2606.29835, section 4).

Absolute tolerance, one group at a time, two tails subtracted after a multiplication by exp(epsilon):
(1) scale to the integer lattice and truncate at U = L sqrt(-2 (sum a**2 v) ln(tol / 8));
(2) the tail sum as an inverse Fourier transform; (3) trapezoidal rule with N >= 2 (U + 1) + d L ln(2 d L) nodes,
d = sqrt(-sum a**2 v / (2 ln(tol / 8)));
(4) drop the nodes where some |characteristic function| is below tol / (8 U), from the largest noise on.
Each tail is right to `tolerance`; delta therefore only to tolerance * (1 + exp(epsilon)), which is the enclosure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from topdown.accountant.certified import ball_of, ends, precision
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.law import Law

TOLERANCE = Fraction(1, 10**35)
_BITS = 220
_CHUNK = 1 << 20


class PaperSieve:
    """The published algorithm for one law."""

    method = "paper's sieve, absolute tolerance 1e-35"

    def __init__(self, law: Law, tolerance: Fraction = TOLERANCE) -> None:
        self.law, self.tolerance = law, tolerance
        log_tol = math.log(float(tolerance)) - math.log(8)
        scale = 1 / float(law.spacing)
        self.reach = math.ceil(scale * math.sqrt(-2 * float(law.total) * log_tol))
        d = math.sqrt(-float(law.total) / (2 * log_tol))
        extra = d * scale * math.log(max(2 * d * scale, 1.0))
        self.n_points = math.ceil(2 * (self.reach + 1) + max(extra, 0.0)) | 1
        self.nodes = self._sieve(-math.log(float(tolerance) / (8 * self.reach)))

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return delta = P[S > eps - R] - exp(eps) P[S > eps + R], with the stated tolerance of each tail."""
        return [self._delta(e) for e in epsilons]

    def tail(self, index: int) -> Enclosure:
        """Return P[S >= index * spacing] to the absolute tolerance."""
        with precision(_BITS) as flint:
            low, high = ends(self._tail(flint, index))
        return Enclosure(low - self.tolerance, high + self.tolerance, self.method)

    def _sieve(self, level: float) -> list[int]:
        """Return the nodes 0..(N - 1) / 2 where every |phi| may exceed exp(-level), tested group by group."""
        law, n_points = self.law, self.n_points
        order = sorted(range(len(law.groups)), key=lambda i: -law.groups[i].variance)
        kept: list[int] = []
        for start in range(0, n_points // 2 + 1, _CHUNK):
            nodes = np.arange(start, min(start + _CHUNK, n_points // 2 + 1), dtype=np.int64)
            for i in order:
                group, weight = law.groups[i], law.integers[i]
                rest = (nodes * (weight % n_points)) % n_points
                angle = 2 * math.pi * np.minimum(rest, n_points - rest) / n_points
                variance = float(group.variance)
                decay = variance * angle**2 / 2 - np.log1p(
                    2.02 * np.exp(-2 * math.pi * variance * (math.pi - angle))
                )
                nodes = nodes[group.count * decay <= level]
            kept += nodes.tolist()
        return kept

    def _delta(self, epsilon: Fraction) -> Enclosure:
        law = self.law
        index = law.first_above(epsilon - law.half)[0]
        mirror = int(law.total / law.spacing)
        with precision(_BITS) as flint:
            grow = ball_of(flint, epsilon).exp()
            low, high = ends(self._tail(flint, index) - grow * self._tail(flint, index + mirror))
            slack = self.tolerance * (1 + ends(grow)[1])
        return Enclosure(max(low - slack, Fraction(0)), min(high + slack, Fraction(1)), self.method)

    def _tail(self, flint: Any, index: int) -> Any:
        """Return P[index <= S / spacing <= U] as (1/N) sum phi(s_n) * (geometric sum of exp(-i s_n x))."""
        law, n_points = self.law, self.n_points
        if index > self.reach:
            return flint.arb(0)
        norms = [_modulus(flint, g.variance, Fraction(0)) for g in law.groups]
        total = flint.arb(0)
        for n in self.nodes:
            value = flint.arb(1)
            for group, weight, norm in zip(law.groups, law.integers, norms, strict=True):
                value *= (
                    _modulus(flint, group.variance, Fraction(n * weight % n_points, n_points)) / norm
                ) ** group.count
            if n == 0:
                total += value * (self.reach - index + 1)
                continue
            first = _turn(flint, Fraction(n * index % n_points, n_points))
            last = _turn(flint, Fraction(n * (self.reach + 1) % n_points, n_points))
            total += 2 * (value * (first - last) / (1 - _turn(flint, Fraction(n, n_points)))).real
        return total / n_points


def _turn(flint: Any, turns: Fraction) -> Any:
    return flint.acb(-2 * ball_of(flint, turns)).exp_pi_i()


def _modulus(flint: Any, variance: Fraction, turns: Fraction) -> Any:
    """Return sum_j exp(-2 pi**2 v (turns - j)**2), all terms above the working precision."""
    most = 2 + math.ceil(math.sqrt(_BITS * math.log(2) / (2 * math.pi**2 * float(variance))))
    base = -2 * flint.arb.pi() ** 2
    return sum(
        ((base * ball_of(flint, variance * (turns - j) ** 2)).exp() for j in range(-most, most + 1)),
        flint.arb(0),
    )
