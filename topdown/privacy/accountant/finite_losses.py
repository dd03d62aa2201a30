"""Losses of noise that is not Gaussian: pure epsilon, sums of epsilon and delta, and everything of a ledger together.

Pure: epsilon adds up, holds for every delta, and bounds every test. For composed two-sided geometric measurements it
is the sum of counts moved over scale, exact (Ghosh, Roughgarden, Sundararajan 2009). Randomised response with these
odds dominates them (Kairouz, Oh, Viswanath 2015, theorem 3.3).

Pairs: each count of noise with finitely many values keeps (epsilon, delta) by its law; for independent counts, also
if each was chosen after the others were seen, the sums hold together (Dwork, Kenthapadi, McSherry, Mironov, Naor
2006). `delta_at` bounds the delta at a smaller epsilon from the exact probabilities of every law, in whole numbers on a
lattice of losses; at 0 it bounds the best guess. Other tests are bounded by what follows from the sums (Kairouz, Oh,
Viswanath 2015, theorem 2.1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

from topdown.privacy.accountant.composition import Composition
from topdown.privacy.accountant.events import (
    WHOLE,
    FiniteLoss,
    Geometric,
    Mixture,
    deltas_above,
)
from topdown.privacy.accountant.gaussian_loss import ball_of, ends, precision
from topdown.privacy.exact_values import Enclosure, Threshold, alpha_of
from topdown.privacy.laws import LAWS, UNIT, Weights


@dataclass(frozen=True)
class WorstShift:
    """What dominates an answer in noise of whole weights, however far one record moves it up to its sensitivity.

    Args:
        outcomes: (probability, probability) of each; the loss is that of the first to the second.
        exact: whether these are the probabilities of the largest move, which is then the worst at every epsilon.
    """

    outcomes: FiniteLoss
    exact: bool


@dataclass(frozen=True)
class NoisyCounts:
    """Counts that a change moves in noise of one law.

    Args:
        law: by name.
        parameter: of the law, exact.
        count: how many counts move.
        shift: by how much each moves.
        delta, weights: of one count, for a law that has them; weights may be unknown in a `WholeLoss`.
        worst: of one answer in noise of other whole weights, in place of `shift` and `weights`.
    """

    law: str
    parameter: Fraction
    count: int
    shift: int = 1
    delta: Fraction = Fraction(0)
    weights: Weights = ()
    worst: WorstShift | None = None

    @property
    def is_known(self) -> bool:
        """Whether the probabilities of one count are known, and not only what dominates them."""
        return bool(self.weights) if self.worst is None else self.worst.exact

    @property
    def loss(self) -> Fraction:
        """Loss of one of them, in what its law counts."""
        return LAWS[self.law].loss_of_one(self.parameter, self.shift)


PURE_METHOD = "pure epsilon"
_BITS = 160
MOST_EPSILON = Fraction(10_000)
MOST_LOSSES = 500
"""With more values of a composed loss than this, what is said of tests follows from its epsilon alone."""


@dataclass(frozen=True)
class PureLoss:
    """An exact epsilon at least 0, how many counts move, and the law of the release they are measured in.

    What is said of tests is exact where the counts and their noise are known and the composed loss has few values: a
    count moved by one in two-sided geometric noise has the loss 1 / scale or its negative, nothing between. Else it is
    what follows from epsilon, an upper bound wherever counts move.

    Args:
        epsilon: 0 is a change that nothing measures.
        coordinates: how many counts move.
        loss_name: what the release counts, epsilon or rho.
        moved: (scale, counts) that move by one in two-sided geometric noise, each scale once; empty: only epsilon is
            known.
    """

    epsilon: Fraction
    coordinates: int
    loss_name: str = "epsilon"
    moved: tuple[tuple[Fraction, int], ...] = ()

    @classmethod
    def of_geometric(cls, moved: Iterable[tuple[Fraction, int]]) -> PureLoss:
        """Return the loss of (scale, counts) that move by one in two-sided geometric noise."""
        counts: Counter[Fraction] = Counter()
        for scale, n in moved:
            counts[scale] += n
        epsilon = sum((n / scale for scale, n in counts.items()), Fraction(0))
        return cls(epsilon, counts.total(), moved=tuple(sorted((s, n) for s, n in counts.items() if n)))

    @cached_property
    def _exact(self) -> Mixture | None:
        """The composed loss, if it is known and has few values."""
        if not self.moved or self.epsilon > MOST_EPSILON or not _has_few_values(self.moved):
            return None
        return Mixture((Geometric(1 / scale), n) for scale, n in self.moved)

    @property
    def is_exact(self) -> bool:
        """Whether what is said of tests is exact, and not what follows from epsilon alone."""
        return self._exact is not None

    def best_guess(self) -> Enclosure:
        """Return the chance that the best attacker is right of two equally likely neighbours."""
        if self._exact is not None:
            found = self._exact.bayes_accuracy()
            return Enclosure(found.lower, found.upper, PURE_METHOD)
        bound = pair_bayes_accuracy(self.epsilon, Fraction(0), PURE_METHOD)
        return Enclosure(Fraction(1, 2), bound.upper, PURE_METHOD) if self.coordinates else bound

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return at each alpha the share of misses that no test goes below."""
        points = [alpha_of(a) for a in alphas]
        if self._exact is not None:
            found = self._exact.trade_off_curve(points)
            return [Enclosure(box.lower, box.upper, PURE_METHOD) for box in found]
        bounds = pair_trade_off_curve(self.epsilon, Fraction(0), points, PURE_METHOD)
        if not self.coordinates:
            return bounds
        return [Enclosure(box.lower, 1 - a, PURE_METHOD) for a, box in zip(points, bounds, strict=True)]


def _has_few_values(moved: Iterable[tuple[Fraction, int]]) -> bool:
    values = {Fraction(0)}
    for scale, n in moved:
        if n >= MOST_LOSSES:
            return False
        values = {value + (n - 2 * j) / scale for value in values for j in range(n + 1)}
        if len(values) > MOST_LOSSES:
            return False
    return True


def pair_bayes_accuracy(epsilon: Fraction, delta: Fraction, method: str) -> Enclosure:
    """Return 1 - (1 - delta) / (1 + e**epsilon) of whatever keeps a pair (Kairouz, Oh, Viswanath 2015, theorem 2.1).

    Args:
        epsilon: at least 0. delta: 0..1.
    """
    low, high = _odds(epsilon)
    least = 1 - (1 - delta) / (1 + low)
    return Enclosure(least, Fraction(1) if high is None else 1 - (1 - delta) / (1 + high), method)


def pair_trade_off_curve(
    epsilon: Fraction, delta: Fraction, alphas: Iterable[Threshold], method: str
) -> list[Enclosure]:
    """Return max(0, 1 - delta - e**epsilon alpha, e**-epsilon (1 - delta - alpha)) at each: no test misses less.

    Args:
        epsilon: at least 0. delta: 0..1. alphas: shares of false alarms, 0..1.
    """
    low, high = _odds(epsilon)

    def misses(a: Fraction, odds: Fraction) -> Fraction:
        return max(Fraction(0), 1 - delta - odds * a, (1 - delta - a) / odds)

    return [
        Enclosure(Fraction(0) if high is None else misses(a, high), misses(a, low), method)
        for a in map(alpha_of, alphas)
    ]


@lru_cache(maxsize=64)
def _odds(epsilon: Fraction) -> tuple[Fraction, Fraction | None]:
    """Return ends of e**epsilon; the upper one is None, without end, where epsilon is beyond any use."""
    if not epsilon:
        return Fraction(1), Fraction(1)
    with precision(_BITS) as flint:
        low, high = ends(ball_of(flint, min(epsilon, MOST_EPSILON)).exp())
    return low, high if epsilon <= MOST_EPSILON else None


PAIR_METHOD = "sums of epsilon and delta"
COMPOSED_METHOD = "sums of epsilon and delta, guesses by composed losses"
NATS = (Fraction(2), Fraction(8))  # of the window beyond epsilon: at least, and at most
_STEPS = (1 << 10, 1 << 12)  # of the lattice up to epsilon: at least, and at most for equal parts


@dataclass(frozen=True)
class PairLoss:
    """Counts that move in noise of whole weights; none is a change that nothing measures."""

    moved: tuple[NoisyCounts, ...]

    @property
    def coordinates(self) -> int:
        """How many counts move."""
        return sum(m.count for m in self.moved)

    @cached_property
    def epsilon(self) -> Fraction:
        """Sum of the epsilons of all counts."""
        return sum((m.count * m.loss for m in self.moved), Fraction(0))

    @cached_property
    def delta(self) -> Fraction:
        """Sum of the deltas of all counts, at most 1."""
        return min(sum((m.count * m.delta for m in self.moved), Fraction(0)), Fraction(1))

    def best_guess(self) -> Enclosure:
        """Return a bound of how often an attacker is right of two equally likely neighbours.

        It is (1 + delta(0)) / 2 of the composed losses where that is less than by the sums.
        """
        by_sums = self.guess_by_sums()
        if not self.moved:
            return by_sums
        composed = (1 + self.delta_at(Fraction(0))) / 2
        if composed >= by_sums.upper:
            return by_sums
        return Enclosure(Fraction(1, 2), composed, COMPOSED_METHOD)

    def guess_by_sums(self) -> Enclosure:
        """Return the most an attacker can be right of two equally likely neighbours, by the sums alone."""
        return pair_bayes_accuracy(self.epsilon, self.delta, PAIR_METHOD)

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return at each alpha a share of misses that no test goes below, by the sums."""
        return pair_trade_off_curve(self.epsilon, self.delta, alphas, PAIR_METHOD)

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """Return a delta that all counts together keep at an epsilon, from their composed losses; never too small.

        Args:
            epsilon: exact, at least 0.
        """
        return self.deltas_at((epsilon,))[0]

    def deltas_at(self, epsilons: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        """Return `delta_at` each epsilon; losses are composed once."""
        if not self.moved or not self.delta:
            return (Fraction(0),) * len(epsilons)
        return _deltas(self.moved, epsilons, self._step, min(NATS[1], NATS[0] + 2 * self.epsilon))

    @property
    def _step(self) -> Fraction:
        """Return a step of the lattice that divides the epsilon of every count where that needs few steps."""
        shares = [m.loss / self.epsilon for m in self.moved]
        equal = math.lcm(*(share.denominator for share in shares))
        n = equal * math.ceil(_STEPS[0] / equal) if equal <= _STEPS[1] else _STEPS[1]
        return self.epsilon / n


@lru_cache(maxsize=64)
def _deltas(
    moved: tuple[NoisyCounts, ...], epsilons: tuple[Fraction, ...], step: Fraction, spare: Fraction
) -> tuple[Fraction, ...]:
    counts: Counter[Weights] = Counter()
    for m in moved:
        counts[m.weights] += m.count
    parts = [(loss_of_one_step(weights), count) for weights, count in counts.items()]
    return tuple(deltas_above(parts, epsilons, step, spare))


@lru_cache(maxsize=64)  # rows of one statement share their laws
def loss_of_one_step(weights: Weights) -> FiniteLoss:
    """Return the probabilities of every value for two neighbours whose answers are 1 apart; the same both ways.

    Args:
        weights: of 0, 1, 2, .. in a symmetric law, whole parts of `UNIT`.
    """
    pairs = _pairs_of((*weights[:0:-1], *weights), 1)
    return FiniteLoss(tuple((Fraction(p, UNIT), Fraction(q, UNIT)) for p, q in pairs))


@lru_cache(maxsize=64)
def worst_shift(weights: tuple[int, ...], sensitivity: int) -> WorstShift:
    """Return what dominates an answer that any record moves by a whole number up to the sensitivity, up or down.

    The largest delta of all moves is convex in e**epsilon, so it lies below the chords between the values of
    e**epsilon at which that of the largest move bends; chords are the delta of a pair. Proof: PROOF.md, section 13.

    Args:
        weights: of neighbouring values, whole numbers >= 0, not all 0; the law is proportional to them.
        sensitivity: 1 or more.

    Source: Zhu, Dong, Wang 2022, "Optimal accounting of differential privacy via characteristic function".
    """
    ways = [weights] if weights == weights[::-1] else [weights, weights[::-1]]
    widest = [_pairs_of(way, sensitivity) for way in ways]
    bends = sorted({Fraction(p, q) for pairs in widest for p, q in pairs if p and q})
    heights = [Fraction(0)] * len(bends)
    for shift in range(1, sensitivity + 1):
        for way in ways:
            heights = list(map(max, heights, _largest_at(_pairs_of(way, shift), bends)))
    total = sum(weights)
    if len(ways) == 1 and heights == _largest_at(widest[0], bends):
        exact = tuple((Fraction(p, total), Fraction(q, total)) for p, q in widest[0])
        return WorstShift(FiniteLoss(exact), exact=True)
    return WorstShift(
        _pair_of_chords([Fraction(0), *bends], [Fraction(1), *(h / total for h in heights)]), exact=False
    )


def _pairs_of(weights: tuple[int, ...], shift: int) -> list[tuple[int, int]]:
    """Return the weights of every value for two neighbours whose answers are `shift` apart."""
    none = (0,) * shift
    return [(p, q) for p, q in zip((*weights, *none), (*none, *weights), strict=True) if p or q]


def _largest_at(pairs: Iterable[tuple[int, int]], bends: Sequence[Fraction]) -> list[Fraction]:
    """Return the sum of (p - e**epsilon q)+ over all pairs, at increasing values of e**epsilon above 0."""
    rising = sorted((Fraction(p, q), p, q) for p, q in pairs if q)
    above, under = sum(p for p, q in pairs if not q), 0
    found = []
    for bend in reversed(bends):
        while rising and rising[-1][0] > bend:
            _, p, q = rising.pop()
            above, under = above + p, under + q
        found.append(above - bend * under)
    return found[::-1]


def _pair_of_chords(odds: Sequence[Fraction], deltas: Sequence[Fraction]) -> FiniteLoss:
    """Return a pair whose delta is at least that of the chords: 1 at odds 0, convex, constant after the last point.

    Where the slope grows by q there is an outcome of probabilities odds q and q. Both are rounded down to 2^-192; what
    is cut off goes to the outcomes that only one neighbour has, which makes no delta smaller.
    """
    slopes = [(b - a) / (y - x) for (x, y), (a, b) in zip(pairwise(odds), pairwise(deltas), strict=True)]
    outcomes = []
    for at, before, after in zip(odds[1:], slopes, [*slopes, Fraction(0)][1:], strict=True):
        grown = after - before
        outcomes.append((_rounded_down(at * grown), _rounded_down(grown)))
    none = Fraction(0)
    only_first = 1 - sum((p for p, _ in outcomes), none)
    only_second = 1 - sum((q for _, q in outcomes), none)
    return FiniteLoss(((only_first, none), (none, only_second), *outcomes))


def _rounded_down(mass: Fraction) -> Fraction:
    return Fraction(mass.numerator * WHOLE // mass.denominator, WHOLE)


ComposedLoss = Composition | PureLoss | PairLoss


def outcomes_of_count(moved: NoisyCounts) -> FiniteLoss:
    """Return the probabilities of one count in noise of whole weights, or what dominates them if these are unknown."""
    if moved.worst is not None:
        return moved.worst.outcomes
    return loss_of_one_step(moved.weights) if moved.weights else _worst_outcomes(moved.parameter, moved.delta)


@lru_cache(maxsize=64)
def _worst_outcomes(epsilon: Fraction, delta: Fraction) -> FiniteLoss:
    """Return what dominates one count of which only (epsilon, delta) is known (Kairouz, Oh, Viswanath 2015, 3.3)."""
    odds = _odds(epsilon)[1]
    if odds is None:
        return FiniteLoss(((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))))
    right = (1 - delta) * odds / (1 + odds)
    wrong = 1 - delta - right
    return FiniteLoss(((delta, Fraction(0)), (right, wrong), (wrong, right), (Fraction(0), delta)))


def compose_noise(moved: Iterable[NoisyCounts], loss_name: str) -> ComposedLoss:
    """Return the loss of counts moved in independent noise: exact where the laws say which engine is, else a bound.

    Args:
        moved: the counts; none is a change that nothing measures.
        loss_name: what the plan or the ledger counts: rho, epsilon or epsilon_delta.

    Raises:
        ValueError: noise whose loss is of another name, or a law of rho that no engine composes.
    """
    rows = list(moved)
    laws = [LAWS[m.law] for m in rows]
    if strange := {law.loss_name for law in laws} - {loss_name}:
        raise ValueError(f"noise that costs {min(strange)} does not add up to {loss_name}")
    if loss_name == "epsilon_delta":
        return PairLoss(tuple(rows))
    if not rows:
        return PureLoss(Fraction(0), 0, loss_name)
    engines = {law.composed_as for law in laws}
    if engines == {"gaussian"}:
        return Composition.of((m.parameter, m.shift, m.count) for m in rows)
    if loss_name != "epsilon":
        raise ValueError(f"no engine composes the noise of {', '.join(sorted({m.law for m in rows}))}")
    if engines == {"geometric"} and all(m.shift == 1 for m in rows):
        return PureLoss.of_geometric((m.parameter, m.count) for m in rows)
    return PureLoss(sum((m.count * m.loss for m in rows), Fraction(0)), sum(m.count for m in rows))
