"""The quadratures in balls (python-flint): every rounding is inside the ball.

Two small things are computed outside ball arithmetic, as upper bounds with a stated margin: the
mass that the sieve drops and the truncation + aliasing bounds (PROOF.md, section 6).

`PaperSieve` is the published algorithm step by step, a slow twin (Su, Su, Wang, arXiv 2606.29835, section 4).
Absolute tolerance, one group at a time, two tails subtracted after a multiplication by exp(epsilon):
(1) scale to the integer lattice and truncate at U = L sqrt(-2 (sum a**2 v) ln(tol / 8));
(2) the tail sum as an inverse Fourier transform; (3) trapezoidal rule with N >= 2 (U + 1) + d L ln(2 d L) nodes,
d = sqrt(-sum a**2 v / (2 ln(tol / 8)));
(4) drop the nodes where some |characteristic function| is below tol / (8 U), from the largest noise on.
Each tail is right to `tolerance`; delta therefore only to tolerance * (1 + exp(epsilon)), which is the enclosure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from topdown.privacy.accountant.gaussian_loss import (
    OUTWARD,
    Ball,
    CoordinateGroup,
    LossDistribution,
    ball_of,
    ends,
    precision,
    quotient,
)
from topdown.privacy.accountant.quadrature_nodes import (
    Window,
    beyond_last,
    lattice_window,
    open_error,
    open_window,
    window_error,
)
from topdown.privacy.exact_values import Enclosure


class BallQuadrature:
    """Ball engine of one law.

    Args:
        law: the composition.
        digits: decimal digits wanted in the result (relative); the working precision adds guard bits.
        lattice: as for the float64 engine; without lattice the remainder beyond the last node limits the digits.
    """

    def __init__(self, law: LossDistribution, digits: int = 17, *, lattice: bool = True) -> None:
        self.law, self.digits, self.lattice = law, digits, lattice
        self.nats = digits * math.log(10) + 7
        slope = max(0.0, -math.log2(float(law.spacing))) if lattice else 0.0
        # a power of `count` factors loses as many digits as the count has
        self.bits = math.ceil(digits * math.log2(10) + 30 + slope + math.log2(law.coordinates))

    @cached_property
    def window(self) -> Window:
        """Nodes of the rule."""
        return lattice_window(self.law, self.nats) if self.lattice else open_window(self.law, self.nats)

    @property
    def steps(self) -> int:
        """Roughly how many ball operations set-up and a dozen thresholds take; EngineLimitError if nodes abound."""
        level = (self.bits + 16) * math.log(2)
        rates = [2 * math.pi**2 * float(g.variance) for g in self.law.groups]
        orders = sum(2 * math.ceil(math.sqrt(level / rate)) for rate in rates if rate < level)
        return len(self.window.index) * (24 + len(rates) + 13 * orders)

    @cached_property
    def _nodes(self) -> list[tuple[int, Ball, Ball, list[tuple[int, list[tuple[int, Ball]], Ball, int]]]]:
        """For each node: n, modulus, drift in turns, branches [(shift, [(order, coefficient)], error, count)]."""
        with precision(self.bits) as flint:
            groups = [_group_in_balls(flint, group, self.bits) for group in self.law.groups]
            norm = flint.arb(1)
            for group in groups:
                norm *= _theta_zero(flint, group) ** group.count
            turns = [ratio.as_integer_ratio() for ratio in self.window.ratios]
            each = list(zip(groups, turns, strict=True))
            return [self._node(flint, int(n), each, norm) for n in self.window.index]

    def _node(
        self, flint: Any, n: int, groups: list[tuple[_GroupInBalls, tuple[int, int]]], norm: Ball
    ) -> tuple[int, Ball, Ball, list[Any]]:
        energy, drift = flint.fmpq(0), flint.fmpq(0)
        unseen = flint.arb(0)
        branches = []
        for group, (top, bottom) in groups:
            whole = top * n % bottom
            whole -= bottom if 2 * whole > bottom else 0
            turns = flint.fmpq(whole, bottom)
            energy += group.count * group.variance * turns * turns
            drift += group.count * group.shift * turns
            found = _ball_branches(flint, group, turns, whole / bottom)
            if found:
                branches.append((group.shift, found, group.error, group.count))
            else:
                unseen += group.count * group.error
        pi = flint.arb.pi()
        modulus = (-2 * pi * pi * flint.arb(energy)).exp() / norm
        # groups whose branches are all too small to write down: |prod (1 + z)**m - 1| <= exp(sum m |z|) - 1, z complex
        branches.append((0, [], unseen.expm1(), 1))
        return n, modulus, drift, branches

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        return self._enclosed(self._delta_ball, epsilons)

    def tails(self, indices: Sequence[int]) -> list[Enclosure]:
        """Return the enclosure of P[S >= index * spacing] at each index >= 0."""
        return self._enclosed(self._lattice_ball, indices)

    def _enclosed(self, made: Callable[[Any, Any], Ball], points: Sequence[object]) -> list[Enclosure]:
        """Return the probability that is made at each point, at the working precision."""
        found = []
        with precision(self.bits) as flint:
            for point in points:
                low, high = ends(made(flint, point))
                found.append(Enclosure(max(low, Fraction(0)), min(high, Fraction(1)), self.method))
        return found

    @property
    def method(self) -> str:
        """Name of the engine and its precision."""
        return f"{'ball' if self.lattice else 'ball-free'}/{self.bits} bit"

    def _delta_ball(self, flint: Any, epsilon: Fraction) -> Ball:
        law = self.law
        point = epsilon - law.half
        if not self.lattice:
            return self._open_ball(flint, point)
        index, gap = law.first_above(point)
        return self._lattice_ball(flint, index, gap)

    def _lattice_ball(self, flint: Any, index: int, gap: Fraction | None = None) -> Ball:
        law, window = self.law, self.window
        x0 = index * law.spacing
        theta = Fraction(max(0.0, float(x0 / law.total)))
        exact, tilt = quotient(flint, theta), ball_of(flint, theta)
        n_points, terms = window.n_points, window.terms
        spacing = ball_of(flint, law.spacing)
        step = (-tilt * spacing).exp()
        far = (-tilt * spacing * terms).exp()
        if gap is not None:
            step2, far2 = step * (-spacing).exp(), far * (-spacing * terms).exp()
            edge = (-ball_of(flint, gap)).exp()
        total = flint.acb(0)
        at_zero = flint.arb(1)
        for n, root, root_far in self._roots:
            flat = n == 0 and theta == 0
            kernel = flint.acb(terms) if flat else (1 - far * root_far) / (1 - step * root)
            at_zero = kernel.real if n == 0 else at_zero
            if gap is not None:
                kernel -= edge * (1 - far2 * root_far) / (1 - step2 * root)
            total += (
                self._term(flint, n, exact, flint.fmpq(n * index % n_points, n_points))
                * kernel
                * (2 if n else 1)
            )
        value = total.real / n_points
        left_out = flint.arb(window_error(window, float(theta), float(x0)))
        left_out += 2 * flint.arb(window.peaks.dropped) / n_points * at_zero
        value += flint.arb(0, 1) * left_out
        return value * (tilt * (tilt * ball_of(flint, law.half) - ball_of(flint, x0))).exp()

    def _open_ball(self, flint: Any, point: Fraction) -> Ball:
        law, window = self.law, self.window
        least = 1 / (math.sqrt(float(law.total)) + max(-float(point), 0.0))
        theta = Fraction(max(float(point / law.total), least))
        exact, tilt = quotient(flint, theta), ball_of(flint, theta)
        angle = 2 * flint.arb.pi() / ball_of(flint, window.period)
        total, shift = flint.acb(0), quotient(flint, point / window.period)
        for n, *_ in self._nodes:
            first = flint.acb(tilt, angle * n)
            total += self._term(flint, n, exact, shift * n) / (first * (first + 1)) * (2 if n else 1)
        value = total.real / ball_of(flint, window.period)
        left_out = open_error(window, float(theta), float(point)) + beyond_last(window)
        left_out += 2 * window.peaks.dropped / float(window.period) / float(theta * (theta + 1))
        value += flint.arb(0, 1) * flint.arb(left_out * (1 + OUTWARD))
        return value * (tilt * (tilt * ball_of(flint, law.half) - ball_of(flint, point))).exp()

    @cached_property
    def _by_node(self) -> dict[int, tuple[Ball, Ball, list[Any]]]:
        return {n: (modulus, drift, branches) for n, modulus, drift, branches in self._nodes}

    @cached_property
    def _roots(self) -> list[tuple[int, Ball, Ball]]:
        """For each node: n, exp(-2 pi i n / N), exp(-2 pi i n J / N)."""
        n_points, terms = self.window.n_points, self.window.terms
        with precision(self.bits) as flint:
            return [
                (
                    n,
                    _root_of_unity(flint, flint.fmpq(-n, n_points)),
                    _root_of_unity(flint, flint.fmpq(-n * terms, n_points)),
                )
                for n, *_ in self._nodes
            ]

    def _term(self, flint: Any, n: int, theta: Ball, turns: Ball) -> Ball:
        """Return the characteristic function at node n, turned back; `theta` and `turns` are exact (fmpq)."""
        modulus, drift, branches = self._by_node[n]
        value = modulus * _root_of_unity(flint, theta * drift - turns)
        for shift, coefficients, error, count in branches:
            factor = flint.acb(1 + flint.arb(0, 1) * error, flint.arb(0, 1) * error)
            if coefficients:
                unit = _root_of_unity(flint, -shift * theta)
                for order, coefficient in coefficients:
                    factor += coefficient * unit**order
            value *= factor**count
        return value


def _root_of_unity(flint: Any, turns: Ball) -> Ball:
    """Return exp(2 pi i turns) of an exact number of turns, whole ones taken off first."""
    return flint.acb(2 * (turns - turns.floor())).exp_pi_i()


@dataclass(frozen=True, eq=False)
class _GroupInBalls:
    """What every node asks of a group.

    Args:
        shift, count: of the group. variance: exact (fmpq).
        rate: 2 pi**2 v, rounded. level: nats beyond which branches are left out. most: largest order looked at.
        error: bound of the sum of the branches left out. base: 2 pi**2.
    """

    shift: int
    count: int
    variance: Ball
    rate: float
    level: float
    most: int
    error: Ball
    base: Ball


def _theta_zero(flint: Any, group: _GroupInBalls) -> Ball:
    """Return Th(0) = sum_j exp(-2 pi**2 v j**2)."""
    coefficients = _ball_branches(flint, group, flint.fmpq(0), 0.0)
    return sum((c for _, c in coefficients), flint.arb(1)) + flint.arb(0, 1) * group.error


def _group_in_balls(flint: Any, group: CoordinateGroup, bits: int) -> _GroupInBalls:
    """Return what the nodes ask of a group, at the working precision of the block; branches above 2**-(bits + 16)."""
    level = (bits + 16) * math.log(2)
    rate = 2 * math.pi**2 * float(group.variance)
    most = 1
    while rate * most * (most + 1) < level:
        most += 1
    # beyond |j| = most the exponents grow by at least 2 level / (most + 1) each; inside, at most 2 most are left out
    count = 2 * most + 2 / -math.expm1(-level / (most + 1))
    error = flint.arb(count) * (flint.arb(-level) * flint.arb(1 - OUTWARD)).exp()
    base, variance = 2 * flint.arb.pi() ** 2, quotient(flint, group.variance)
    return _GroupInBalls(group.shift, group.count, variance, rate, level, most, error, base)


def _ball_branches(flint: Any, group: _GroupInBalls, turns: Ball, tau: float) -> list[tuple[int, Ball]]:
    """Return [(j, exp(-2 pi**2 v (j**2 - 2 j turns)))] at `turns` (fmpq, rounded: `tau`), but for those left out."""
    level = group.level * (1 + OUTWARD)
    orders = [
        j for j in range(-group.most, group.most + 1) if j and group.rate * (j * j - 2 * j * tau) < level
    ]
    return [(j, (-group.base * flint.arb(group.variance * (j * j - 2 * j * turns))).exp()) for j in orders]


TOLERANCE = Fraction(1, 10**35)
_BITS = 220
_CHUNK = 1 << 20


class PaperSieve:
    """The published algorithm for one law."""

    method = "paper's sieve, absolute tolerance 1e-35"

    def __init__(self, law: LossDistribution, tolerance: Fraction = TOLERANCE) -> None:
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
            first = _unit_turn(flint, Fraction(n * index % n_points, n_points))
            last = _unit_turn(flint, Fraction(n * (self.reach + 1) % n_points, n_points))
            total += 2 * (value * (first - last) / (1 - _unit_turn(flint, Fraction(n, n_points)))).real
        return total / n_points


def _unit_turn(flint: Any, turns: Fraction) -> Any:
    return flint.acb(-2 * ball_of(flint, turns)).exp_pi_i()


def _modulus(flint: Any, variance: Fraction, turns: Fraction) -> Any:
    """Return sum_j exp(-2 pi**2 v (turns - j)**2), all terms above the working precision."""
    most = 2 + math.ceil(math.sqrt(_BITS * math.log(2) / (2 * math.pi**2 * float(variance))))
    base = -2 * flint.arb.pi() ** 2
    return sum(
        ((base * ball_of(flint, variance * (turns - j) ** 2)).exp() for j in range(-most, most + 1)),
        flint.arb(0),
    )
