"""The best noise for single counts, many under one (epsilon, delta): proposed in floats, certified exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from topdown.errors import ConfigError, InternalError

if TYPE_CHECKING:
    from topdown.accountant.event import FiniteLoss
    from topdown.noise.optimal.law import OptimalLaw

_GRID = 1 << 40
_NUDGES = (Fraction(1, 10**6), Fraction(1, 10**4), Fraction(1, 10**3), Fraction(1, 100))
Method = Literal["composed losses", "sums"]
Counts = Mapping[Fraction, int]


@dataclass(frozen=True)
class CertifiedSplit:
    """Laws that keep a promise together.

    Args:
        laws: by wanted variance.
        delta: what all counts need together, at most.
        method: how that is known.
    """

    laws: Mapping[Fraction, OptimalLaw]
    delta: Fraction
    method: Method


@dataclass(frozen=True)
class _Proposal:
    """Epsilon by wanted variance, and the delta of every count; in floats before `_certified` looks at it."""

    epsilons: Mapping[Fraction, Fraction]
    each: Fraction
    method: Method

    def size(self, counts: Counts) -> float:
        """Return the sum of logarithms of the variances: what proposals are compared by."""
        from topdown.noise.optimal.split import law_variance, tails_law

        return math.fsum(
            n * math.log(law_variance(tails_law(float(self.epsilons[v]), float(self.each))))
            for v, n in counts.items()
        )


def certified_split(counts: Counts, epsilon: Fraction, delta: Fraction) -> CertifiedSplit:
    """Return laws whose standard deviations are about in proportion to the wanted ones, and what they keep together.

    The best of the splits tried, not of all there are.

    Args:
        counts: wanted variance, up to a common factor -> how many counts one record moves that have it, by 1 each.
        epsilon, delta: of all of them together; delta at most 1/1000.

    Raises: ConfigError C152 for a delta too small to be shared, C155 for noise too wide.
    """
    proposals = sorted(_proposals(counts, epsilon, delta), key=lambda one: one.size(counts))
    for one in proposals:
        found = _certified(one, counts, epsilon, delta)
        if found is not None:
            return found
    raise ConfigError(
        f"delta {delta} and epsilon {epsilon} are too small to be shared by {sum(counts.values())} counts",
        code="C152",
        fix="give a larger delta or epsilon",
    )


def _proposals(counts: Counts, epsilon: Fraction, delta: Fraction) -> Iterator[_Proposal]:
    from topdown.noise.optimal.ask import LARGEST_EPSILON, SMALLEST_DELTA
    from topdown.noise.optimal.split import MOST_TAILS, SHARES, largest_scale

    n = sum(counts.values())
    parts = {variance: 1 / math.sqrt(float(variance)) for variance in counts}
    by_part: dict[float, int] = {}
    for variance, number in counts.items():
        by_part[parts[variance]] = by_part.get(parts[variance], 0) + number
    whole = sum((number * Fraction(parts[variance]) for variance, number in counts.items()), Fraction(0))
    sums = {v: min(_down(epsilon * Fraction(part) / whole), LARGEST_EPSILON) for v, part in parts.items()}
    if len(sums) == 1:
        sums = {variance: min(epsilon / n, LARGEST_EPSILON) for variance in sums}
    if delta / n >= SMALLEST_DELTA and -math.log(delta / n) < MOST_TAILS * min(sums.values()):
        yield _Proposal(sums, delta / n, "sums")
    for share in SHARES:
        each = share * delta / n
        if each < SMALLEST_DELTA:
            continue
        scale = largest_scale(float(epsilon), float(delta), float(each), by_part)
        found = {variance: _down(Fraction(scale * part)) for variance, part in parts.items()}
        if min(found.values()) > 0:
            yield _Proposal(found, each, "composed losses")


def _down(epsilon: Fraction) -> Fraction:
    return Fraction(math.floor(epsilon * _GRID), _GRID)


def _certified(one: _Proposal, counts: Counts, epsilon: Fraction, delta: Fraction) -> CertifiedSplit | None:
    """Return the laws of a proposal, a little wider where floats proposed too much; None if that is not enough."""
    from topdown.accountant.dots import delta_above
    from topdown.noise.optimal.split import n_steps, spare_nats

    if one.method == "sums":  # basic composition; each law was checked when it was made
        laws = {variance: _law(own, one.each) for variance, own in one.epsilons.items()}
        return CertifiedSplit(laws, sum((n * one.each for n in counts.values()), Fraction(0)), "sums")
    for nudge in _NUDGES:
        laws = {variance: _law(_down(own * (1 - nudge)), one.each) for variance, own in one.epsilons.items()}
        least = min(float(own) for own in one.epsilons.values())
        spare = Fraction(spare_nats(float(epsilon)))
        step = epsilon / n_steps(float(epsilon), least, sum(counts.values()))
        needed = delta_above([(_pairs(laws[v]), n) for v, n in counts.items()], epsilon, step, spare)
        if needed <= delta:
            return CertifiedSplit(laws, needed, "composed losses")
    return None


def _law(epsilon: Fraction, delta: Fraction) -> OptimalLaw:
    from topdown.noise.optimal.ask import Ask, Promise
    from topdown.noise.optimal.design import optimal_law
    from topdown.noise.optimal.losses import Square

    return optimal_law(Ask((Promise(epsilon, delta),), 1, Square()))


def _pairs(law: OptimalLaw) -> FiniteLoss:
    """Return the probabilities of every value for two neighbours whose answers are 1 apart.

    The law is symmetric, so the pair is the same in both directions and whichever way the answer moves.
    """
    from topdown.accountant.event import FiniteLoss

    if law.weights != law.weights[::-1] or law.first != -law.last:
        raise InternalError("a law of one count is not symmetric", code="X052", fix="please report this plan")
    unit = 1 << law.bits
    return FiniteLoss(
        tuple(
            (Fraction(p, unit), Fraction(q, unit))
            for p, q in zip((*law.weights, 0), (0, *law.weights), strict=True)
        )
    )
