"""An upper bound of the delta of many composed finite losses, in whole numbers on a lattice of losses.

With y = e^-L, delta(eps) = E[(1 - e^eps y)+] over the first of two neighbours; an infinite loss is y = 0.
This is convex in every factor of a composed y = y_1 y_2 .. and does not rise with it. So it does not fall if
a factor is replaced by one of the same mean that is spread more, or by a smaller one. A loss between two
points of the lattice is split between them so that its mean of y stays ("connect the dots": Doroshenko,
Ghazi, Kamath, Kumar, Manurangsi 2022), one above the window between its end and infinity; one below the
window is moved up to its other end. Masses are whole numbers over 2^192, each rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from topdown.accountant.certified import ball_of, ends, precision
from topdown.accountant.event import FiniteLoss
from topdown.accountant.exact import Threshold, epsilon_of, positive
from topdown.errors import ConfigError

_UNIT_BITS = 192
_UNIT = 1 << _UNIT_BITS
_BALL_BITS = 320
_SPARE = Fraction(8)  # what is moved to infinity beyond counts too much by e^-8 at most
Ball = Any  # flint.arb
Polynomial = Any  # flint.fmpz_poly


@dataclass(frozen=True)
class _Masses:
    """Masses over 2^192 of the losses (first + k) steps, and of the infinite one; none below the true one."""

    first: int
    finite: Polynomial
    infinite: int


def delta_above(
    parts: Iterable[tuple[FiniteLoss, int]], epsilon: Threshold, step: Fraction, spare: Fraction = _SPARE
) -> Fraction:
    """Return a number that the delta of the composition at epsilon is not above, in the direction of the pairs.

    Close where `step` is well below the losses of most outcomes; never below the exact delta, whatever it is.

    Args:
        parts: events, and how often each is composed, independently; counts >= 1.
        epsilon: exact number >= 0.
        step: of the lattice, in nats, > 0. Work grows with (epsilon + spare) / step.
        spare: nats of the window beyond epsilon, > 0; a narrow one makes the bound larger, never too small.

    Returns: exact rational, at most 1.
    Raises: ConfigError (A007) if nothing is composed, for a negative epsilon, a step or spare not above 0.
    """
    return deltas_above(parts, [epsilon], step, spare)[0]


def deltas_above(
    parts: Iterable[tuple[FiniteLoss, int]],
    epsilons: Sequence[Threshold],
    step: Fraction,
    spare: Fraction = _SPARE,
) -> list[Fraction]:
    """Return `delta_above` at each epsilon, one or more; the composition is shared, its window ends beyond the last.

    Args, Raises: as `delta_above`.
    """
    points, width = [epsilon_of(e) for e in epsilons], positive(step, "step")
    reach = math.ceil((max(points) + positive(spare, "spare")) / width)
    total: _Masses | None = None
    with precision(_BALL_BITS) as flint:
        for event, count in parts:
            power = _power(flint, _on_lattice(flint, event, width, reach), count, reach)
            total = power if total is None else _both(flint, total, power, reach)
        if total is None:
            raise ConfigError("no event spends anything", code="A007", fix="give at least one event")
        return [_delta(flint, total, at, width) for at in points]


def _on_lattice(flint: Any, event: FiniteLoss, step: Fraction, reach: int) -> _Masses:
    """Return the masses of one event, split between neighbouring points of the lattice."""
    masses: dict[int, int] = {}
    infinite = 0
    for p, q in event.outcomes:
        if not p:
            continue
        if not q:
            infinite += _up(p)
            continue
        for place, mass in _split(flint, p, q, step, reach):
            if place is None:
                infinite += mass
            else:
                masses[place] = masses.get(place, 0) + mass
    first = min(masses, default=0)
    row = [0] * (max(masses, default=0) - first + 1)
    for place, mass in masses.items():
        row[place - first] = mass
    return _Masses(first, flint.fmpz_poly(row), min(infinite, _UNIT))


def _split(flint: Any, p: Fraction, q: Fraction, step: Fraction, reach: int) -> list[tuple[int | None, int]]:
    """Return (point, mass) of an outcome, both probabilities above 0; None is the infinite loss."""
    if p == q:
        return [(0, _up(p))]
    near = math.floor(_log(p / q) / float(step))
    if near >= reach:
        at_end = ends(ball_of(flint, q) * _power_of_e(flint, reach * step))
        if at_end[1] <= p:  # else it lies on the window's end up to rounding
            return [(reach, _up(at_end[1])), (None, _up(p - at_end[0]))]
        return [(None, _up(p))]
    for low, high in ((near, near + 1), (near - 1, near), (near + 1, near + 2), (near - 2, near + 3)):
        # masses a at low and b at high: a + b = p and a e^-low + b e^-high = q
        grown = ball_of(flint, q) * _power_of_e(flint, low * step)
        share = 1 - _power_of_e(flint, (low - high) * step)
        b = ends((ball_of(flint, p) - grown) / share)
        if b[0] >= 0 and b[1] <= p:
            return [(max(low, -reach), _up(p - b[0])), (max(high, -reach), _up(b[1]))]
    return [(None, _up(p))]  # no side could be decided: an infinite loss is never too small


def _log(ratio: Fraction) -> float:
    """Return the logarithm of a number > 0 of any size, roughly."""
    shift = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    scaled = ratio / Fraction(2) ** shift
    return math.log(float(scaled)) + shift * math.log(2)


def _power_of_e(flint: Any, exponent: Fraction) -> Ball:
    return ball_of(flint, exponent).exp()


def _up(mass: Fraction) -> int:
    return -(-mass.numerator * _UNIT // mass.denominator)


def _power(flint: Any, one: _Masses, count: int, reach: int) -> _Masses:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError(f"count is {count!r}", code="A010", fix="give a whole number of repetitions")
    total: _Masses | None = None
    while True:
        if count & 1:
            total = one if total is None else _both(flint, total, one, reach)
        count >>= 1
        if not count:
            return total or one
        one = _both(flint, one, one, reach)


def _both(flint: Any, one: _Masses, two: _Masses, reach: int) -> _Masses:
    """Compose two: sums of losses, moved up into the window or to infinity."""
    row = [-((-int(c)) >> _UNIT_BITS) for c in (one.finite * two.finite).coeffs()]
    first = one.first + two.first
    infinite = one.infinite + two.infinite - (one.infinite * two.infinite >> _UNIT_BITS)
    if first < -reach:
        below, row = row[: -reach - first], row[-reach - first :]
        row = [sum(below) + (row[0] if row else 0), *row[1:]]
        first = -reach
    if first + len(row) - 1 > reach:
        infinite += sum(row[reach - first + 1 :])
        row = row[: reach - first + 1]
    return _Masses(first, flint.fmpz_poly(row), min(infinite, _UNIT))


def _delta(flint: Any, total: _Masses, epsilon: Fraction, step: Fraction) -> Fraction:
    found = flint.arb(0)
    for k, mass in enumerate(total.finite.coeffs()):
        loss = (total.first + k) * step
        if loss > epsilon:
            found += int(mass) * (1 - _power_of_e(flint, epsilon - loss))
    return min(ends(found)[1] / _UNIT + Fraction(total.infinite, _UNIT), Fraction(1))
