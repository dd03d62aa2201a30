"""Privacy events as frozen values, and the exact loss of any mixture of them.

A mixture is conditioned on the finitely many losses of what is not Gaussian. With L = L1 + L2, L1 the discrete
Gaussian part and L2 finite, delta(eps) = E_P[delta1(eps - L2)], and delta1(-e) = 1 - exp(-e) + exp(-e) delta1(e) for
the symmetric L1. Each finite loss is kept exactly as r + ln q with rationals r, q, so equal losses merge whatever
their mixture of geometric and pure-DP events.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from topdown.errors import ConfigError
from topdown.formats.common import Neighbours
from topdown.privacy.accountant import conversions
from topdown.privacy.accountant.composition import Composition
from topdown.privacy.accountant.gaussian_loss import ball_of, ends, loss_distribution, precision
from topdown.privacy.exact_values import (
    Enclosure,
    Threshold,
    alpha_of,
    delta_of,
    epsilon_of,
    positive,
    rational,
)
from topdown.privacy.relation import Relation


@dataclass(frozen=True)
class DiscreteGaussianEvent:
    """Noise N_Z(0, variance), pmf ~ exp(-x**2 / (2 variance)), on one integer that moves by `sensitivity`.

    Canonne, Kamath, Steinke 2020, definition 1. Sensitivity is the absolute change of that integer.
    """

    variance: Fraction
    sensitivity: int = 1

    def __post_init__(self) -> None:
        positive(self.variance, "variance")
        _checked_sensitivity(self.sensitivity)


@dataclass(frozen=True)
class Geometric:
    """Two-sided geometric noise, pmf ~ exp(-rate |x|), on one integer that moves by `sensitivity`.

    Ghosh, Roughgarden, Sundararajan 2009. Its losses are rate (k - 2j), j = 0..k.
    """

    rate: Fraction
    sensitivity: int = 1

    def __post_init__(self) -> None:
        positive(self.rate, "rate")
        _checked_sensitivity(self.sensitivity)


@dataclass(frozen=True)
class PureDP:
    """Any epsilon-DP mechanism, known by the exact e**epsilon only; randomised response with these odds dominates it.

    Kairouz, Oh, Viswanath 2015, theorem 3.3.
    """

    exp_epsilon: Fraction

    def __post_init__(self) -> None:
        if rational(self.exp_epsilon, "e**epsilon") <= 1:
            raise ConfigError(
                f"e**epsilon is {self.exp_epsilon}", code="A011", fix="give e**epsilon above 1, e.g. 3"
            )


@dataclass(frozen=True)
class FiniteLoss:
    """A mechanism with finitely many outputs at its worst pair of neighbours: (probability, probability) of each.

    For optimal integer noise: noise pmf and the same pmf shifted. Exact; both columns add to 1.
    """

    outcomes: tuple[tuple[Fraction, Fraction], ...]

    def __post_init__(self) -> None:
        for side in (0, 1):
            column = [rational(o[side], "probability") for o in self.outcomes]
            if any(p < 0 for p in column) or sum(column) != 1:
                raise ConfigError(
                    "probabilities must be >= 0 and add to 1 exactly", code="A016", fix="use Fractions"
                )


Simple = DiscreteGaussianEvent | Geometric | PureDP | FiniteLoss


@dataclass(frozen=True)
class ReleaseEvent:
    """What was spent, with the neighbour relation under which it holds; None where nothing was."""

    neighbours: Neighbours
    event: PureDP | None

    def __post_init__(self) -> None:
        Relation.named(self.neighbours)


def _checked_sensitivity(sensitivity: object) -> None:
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int):
        raise TypeError(f"sensitivity is {sensitivity!r}: give a whole number")
    if sensitivity < 0:
        raise ConfigError(
            f"sensitivity is {sensitivity}, below 0", code="A017", fix="give its absolute value"
        )


_BITS = 256
MOST_ATOMS = 20_000
TINY, _NARROW = Fraction(1, 10**250), Fraction(1, 10**12)
FiniteLossValue = tuple[Fraction, Fraction]
Ball = Any  # flint.arb
Table = dict[FiniteLossValue, Ball]


@dataclass(frozen=True)
class _Side:
    """One direction of the pair: loss -> (lower, upper) of its probability, and the probability of an infinite loss."""

    atoms: tuple[tuple[FiniteLossValue, tuple[Fraction, Fraction]], ...]
    infinite: tuple[Fraction, Fraction]


class Mixture:
    """Exact privacy loss of any composition of events that have one.

    Args:
        events: each, and how often it is composed, independently; an unknown event is refused, never skipped.
    """

    def __init__(self, events: Iterable[tuple[Simple, int]]) -> None:
        spent = [(e, n) for e, n in events if n]
        gaussian = [(e.variance, e.sensitivity, n) for e, n in spent if isinstance(e, DiscreteGaussianEvent)]
        self.gaussian = (
            Composition(loss_distribution(gaussian)) if any(k * n for _, k, n in gaussian) else None
        )
        finite = [(e, n) for e, n in spent if not isinstance(e, DiscreteGaussianEvent)]
        if self.gaussian is None and not finite:
            raise ConfigError("no event spends anything", code="A007", fix="give at least one event")
        self._sides = tuple(_loss_side(finite, forward=f) for f in (True, False))

    def delta(self, epsilon: Threshold) -> Enclosure:
        """Return the exact delta at epsilon >= 0, the larger of the two directions of the pair."""
        return self._deltas([epsilon_of(epsilon)])[0]

    def has_epsilon(self, delta: Threshold) -> bool:
        """Tell whether there is an epsilon at delta: what only one neighbour can give is less likely."""
        return all(side.infinite[1] < delta_of(delta) for side in self._sides)

    def epsilon(self, delta: Threshold) -> Enclosure:
        """Return the exact epsilon at delta; ConfigError where there is none."""
        target = delta_of(delta)
        if not self.has_epsilon(target):
            raise ConfigError(
                "no epsilon has this delta: an output that only one neighbour can give is at least as likely",
                code="A018",
                fix="give a larger delta",
            )
        largest = max(_loss_ends(loss)[1] for side in self._sides for loss, _ in side.atoms)
        room = target - max(side.infinite[1] for side in self._sides)
        ceiling = max(largest, Fraction(0))
        ceiling += conversions.bun_steinke(self.gaussian.rho, room).upper if self.gaussian else 0
        found = conversions.solve_epsilon(self._deltas, target, float(ceiling) / 2, ceiling + 1, 60)
        return self._refined(found, target)

    def _refined(self, found: Enclosure, target: Fraction) -> Enclosure:
        """Halve an enclosure of epsilon while it is wide: delta has corners, where steps by its slope stop early."""
        low, high = found.lower, found.upper
        while high - low > high * _NARROW:
            middle = (low + high) / 2
            (box,) = self._deltas([middle])
            if box.upper <= target:
                high = middle
            elif box.lower >= target:
                low = middle
            else:
                break
        return Enclosure(low, high, found.method)

    def bayes_accuracy(self) -> Enclosure:
        """Return the probability that the best attacker names the right one of two equally likely neighbours."""
        at_zero = self.delta(0)
        return Enclosure((1 + at_zero.lower) / 2, (1 + at_zero.upper) / 2, at_zero.method)

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return at each alpha the smallest share of misses of any test; for events without a Gaussian part.

        It is the largest of the lines 1 - delta - e**loss alpha, and (1 - delta - alpha) / e**loss of the other
        direction, over the values of the loss (Dong, Roth, Su 2022, proposition 5).

        Raises:
            ConfigError: A020 there is a Gaussian part.
        """
        if self.gaussian is not None:
            raise ConfigError(
                "no curve is computed of Gaussian noise with finite losses", code="A020", fix="ask for delta"
            )
        points = [alpha_of(a) for a in alphas]
        with precision(_BITS) as flint:
            steep, flat = (_supporting_lines(flint, side) for side in self._sides)
            found = []
            for a in points:
                ball = ball_of(flint, a)
                lines = [ends(1 - d - s * ball) for s, d in steep]
                lines += [ends((1 - d - ball) / s) for s, d in flat]
                low, high = (max(end, Fraction(0)) for end in map(max, zip(*lines, strict=True)))
                found.append(Enclosure(min(low, 1 - a), min(high, 1 - a), self.method))
        return found

    @property
    def method(self) -> str:
        """Label of the results."""
        return "atoms of the finite losses in balls" + (
            ", Gaussian part by quadrature" if self.gaussian else ""
        )

    def _deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        columns = [[self._one(side, e) for e in epsilons] for side in self._sides]
        return [
            Enclosure(max(a.lower, b.lower), min(max(a.upper, b.upper), Fraction(1)), self.method)
            for a, b in zip(*columns, strict=True)
        ]

    def _one(self, side: _Side, epsilon: Fraction) -> Enclosure:
        places = [(_loss_ends((epsilon - r, 1 / q)), mass) for (r, q), mass in side.atoms]
        if self.gaussian:
            rows = _gaussian_rows(self.gaussian, [p for p, _ in places])
        else:  # (1 - exp(x))+ over an interval
            rows = [(1 - exp_ends(high)[1], 1 - exp_ends(low)[0]) for (low, high), _ in places]
            rows = [(max(Fraction(0), low), max(Fraction(0), high)) for low, high in rows]
        each = [(low * mass[0], high * mass[1]) for (low, high), (_, mass) in zip(rows, places, strict=True)]
        lower, upper = (sum((pair[i] for pair in each), side.infinite[i]) for i in (0, 1))
        return Enclosure(max(lower, Fraction(0)), upper)


def _gaussian_rows(
    gaussian: Composition, places: list[tuple[Fraction, Fraction]]
) -> list[tuple[Fraction, Fraction]]:
    """Return (lower, upper) of delta1 over each threshold interval; delta1 decreases."""
    far = negligible_from(gaussian)
    asked = sorted({abs(x) for pair in places for x in pair if abs(x) < far})
    known = dict(zip(asked, gaussian.curve(asked), strict=True)) if asked else {}

    def at(x: Fraction) -> tuple[Fraction, Fraction]:
        box = known.get(abs(x))
        low, high = (box.lower, box.upper) if box else (Fraction(0), TINY)
        if x >= 0:
            return low, high
        shrink = exp_ends(x)
        return 1 - shrink[1] * (1 - low), 1 - shrink[0] * (1 - high)

    return [(at(high)[0], at(low)[1]) for low, high in places]


def negligible_from(gaussian: Composition) -> Fraction:
    """Return a place beyond which delta is below 10^-250."""
    return gaussian.law.half + math.isqrt(math.ceil(2 * gaussian.law.total * 580)) + 1


def _loss_side(events: Sequence[tuple[Simple, int]], *, forward: bool) -> _Side:
    with precision(_BITS) as flint:
        total: Table = {(Fraction(0), Fraction(1)): flint.arb(1)}
        finite = flint.arb(1)
        for event, count in events:
            if count > MOST_ATOMS:
                raise _too_many()
            table, infinite = _loss_table(flint, event, forward=forward)
            finite *= (1 - infinite) ** count
            if len(table) == 2:
                total = _convolve(total, _binomial_table(table, count))
                continue
            for _ in range(count):
                total = _convolve(total, table)
        atoms = tuple((loss, ends(mass)) for loss, mass in total.items())
        return _Side(atoms, ends(1 - finite))


def _supporting_lines(flint: Any, side: _Side) -> list[tuple[Ball, Ball]]:
    """Return (e**loss, delta there) at every value of the loss that is at least 0, and at 0."""
    atoms = sorted(side.atoms, key=lambda atom: _loss_ends(atom[0])[0], reverse=True)
    above = under = flint.arb(0)  # of larger losses: probability, and that of the other neighbour
    infinite, out = _between(flint, side.infinite), []
    for (r, q), mass in atoms:
        odds = ball_of(flint, r).exp() * ball_of(flint, q)
        if _loss_ends((r, q))[0] < 0:
            break
        out.append((odds, infinite + above - odds * under))
        above, under = above + _between(flint, mass), under + _between(flint, mass) / odds
    return [*out, (flint.arb(1), infinite + above - under)]


def _between(flint: Any, ends_of: tuple[Fraction, Fraction]) -> Ball:
    return ball_of(flint, ends_of[0]).union(ball_of(flint, ends_of[1]))


def _loss_table(flint: Any, event: Simple, *, forward: bool) -> tuple[Table, Ball]:
    """Return the law of the loss of one event and the probability that it is infinite."""
    none = flint.arb(0)
    match event:
        case Geometric():
            return geometric_losses(flint, event), none
        case PureDP(odds):
            masses = {odds: odds / (odds + 1), 1 / odds: 1 / (odds + 1)}
            return {(Fraction(0), q): ball_of(flint, mass) for q, mass in masses.items()}, none
        case FiniteLoss(outcomes):
            return _finite_table(flint, outcomes if forward else tuple((q, p) for p, q in outcomes))
        case _:
            raise TypeError(f"unknown privacy event {event!r}")


def geometric_losses(flint: Any, event: Geometric) -> Table:
    """Return the law of the loss of a count in geometric noise: rate (k - 2 j), j = 0 .. k = sensitivity."""
    rate, k = event.rate, event.sensitivity
    if k == 0:
        return {(Fraction(0), Fraction(1)): flint.arb(1)}
    if k > MOST_ATOMS:
        raise _too_many()
    a = (-ball_of(flint, rate)).exp()
    table = {(rate * (k - 2 * j), Fraction(1)): (1 - a) / (1 + a) * a**j for j in range(1, k)}
    return table | {(rate * k, Fraction(1)): 1 / (1 + a), (-rate * k, Fraction(1)): a**k / (1 + a)}


def _binomial_table(table: Table, count: int) -> Table:
    """Return the law of the sum of `count` losses of two values each."""
    ((r1, q1), p1), ((r2, q2), p2) = table.items()
    out: Table = {}
    for j in range(count + 1):
        key = (j * r1 + (count - j) * r2, q1**j * q2 ** (count - j))
        mass = math.comb(count, j) * p1**j * p2 ** (count - j)
        out[key] = out[key] + mass if key in out else mass
    return out


def _finite_table(flint: Any, outcomes: tuple[tuple[Fraction, Fraction], ...]) -> tuple[Table, Ball]:
    merged: dict[FiniteLossValue, Fraction] = {}
    infinite = Fraction(0)
    for p, q in outcomes:
        if p and not q:
            infinite += p
        elif p:
            merged[Fraction(0), p / q] = merged.get((Fraction(0), p / q), Fraction(0)) + p
    return {loss: ball_of(flint, mass) for loss, mass in merged.items()}, ball_of(flint, infinite)


def _convolve(one: Table, two: Table) -> Table:
    out: Table = {}
    for (r1, q1), p1 in one.items():
        for (r2, q2), p2 in two.items():
            key = (r1 + r2, q1 * q2)
            out[key] = out[key] + p1 * p2 if key in out else p1 * p2
        if len(out) > MOST_ATOMS:
            raise _too_many()
    return out


def _too_many() -> ConfigError:
    return ConfigError(
        f"the finite events have over {MOST_ATOMS} distinct losses together",
        code="A020",
        fix="use one rate or one e**epsilon for more of them, so that losses coincide",
    )


def _loss_ends(loss: FiniteLossValue) -> tuple[Fraction, Fraction]:
    """Return exact bounds of r + ln q (equal when q is 1)."""
    r, q = loss
    if q == 1:
        return r, r
    with precision(_BITS) as flint:
        return ends(ball_of(flint, r) + ball_of(flint, q).log())


def exp_ends(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return exact bounds of e**x."""
    with precision(_BITS) as flint:
        return ends(ball_of(flint, x).exp())


UNIT_BITS = 192
WHOLE = 1 << UNIT_BITS
BALL_BITS = 320
SPARE = Fraction(8)  # what is moved to infinity beyond counts too much by e^-8 at most
Polynomial = Any  # flint.fmpz_poly


@dataclass(frozen=True)
class LatticeMasses:
    """Masses over 2^192 of the losses (first + k) steps, and of the infinite one; none below the true one."""

    first: int
    finite: Polynomial
    infinite: int


def delta_above(
    parts: Iterable[tuple[FiniteLoss, int]], epsilon: Threshold, step: Fraction, spare: Fraction = SPARE
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
    spare: Fraction = SPARE,
) -> list[Fraction]:
    """Return `delta_above` at each epsilon, one or more; the composition is shared, its window ends beyond the last.

    Args, Raises: as `delta_above`.
    """
    points, width = [epsilon_of(e) for e in epsilons], positive(step, "step")
    reach = math.ceil((max(points) + positive(spare, "spare")) / width)
    with precision(BALL_BITS) as flint:
        total = composed_on_lattice(flint, parts, width, reach)
        if total is None:
            raise ConfigError("no event spends anything", code="A007", fix="give at least one event")
        return [_delta(flint, total, at, width) for at in points]


def composed_on_lattice(
    flint: Any, parts: Iterable[tuple[Geometric | FiniteLoss, int]], step: Fraction, reach: int
) -> LatticeMasses | None:
    """Return the masses of events, each composed so often, in a window up to `reach` steps; None of no event."""
    total: LatticeMasses | None = None
    for event, count in parts:
        masses, infinite = Counter[int](), 0
        for place, mass in _split_losses(flint, event, step, reach):
            if place is None:
                infinite += mass
            else:
                masses[place] += mass
        first = min(masses, default=0)
        row = [masses[place] for place in range(first, max(masses, default=0) + 1)]
        one = LatticeMasses(first, flint.fmpz_poly(row), min(infinite, WHOLE))
        power = _power_of_masses(flint, one, count, reach)
        total = power if total is None else _product_of_masses(flint, total, power, reach)
    return total


SplitMass = tuple[int | None, int]  # a point of the lattice, None for an infinite loss, and a mass there


def _split_losses(
    flint: Any, event: Geometric | FiniteLoss, step: Fraction, reach: int
) -> Iterator[SplitMass]:
    """Yield the masses of one event, each loss split between neighbouring points of the lattice."""
    if isinstance(event, Geometric):
        for (loss, _), mass in geometric_losses(flint, event).items():
            # masses a at low and b at high, a + b = p and a e^-low + b e^-high = p e^-loss: both probabilities stay
            low = math.floor(loss / step)
            share = (1 - _power_of_e(flint, low * step - loss)) / (1 - _power_of_e(flint, -step))
            at_high = max(ends(mass * share)[1], Fraction(0)) if low * step != loss else Fraction(0)
            at_low = ends(mass * (1 - share))[1] if at_high else ends(mass)[1]
            for place, part in ((low, at_low), (low + 1, at_high)):
                if part > 0:
                    yield None if place > reach else max(place, -reach), rounded_up(part)
        return
    for p, q in event.outcomes:
        if p and not q:
            yield None, rounded_up(p)
        elif p:
            yield from _binary_split(flint, p, q, step, reach)


def _binary_split(flint: Any, p: Fraction, q: Fraction, step: Fraction, reach: int) -> list[SplitMass]:
    """Split an outcome between two points of the lattice so that both its probabilities are kept; (point, mass).

    Args:
        flint: the library of balls.
        p, q: probabilities of the outcome under the two neighbours, above 0; the loss is log(p / q).
        step: between points, nats. reach: last point; what is beyond it is an infinite loss, of point None.
    """
    if p == q:
        return [(0, rounded_up(p))]
    # the logarithm of a number > 0 of any size, roughly
    ratio = p / q
    shift = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    scaled = ratio / Fraction(2) ** shift
    near = math.floor((math.log(float(scaled)) + shift * math.log(2)) / float(step))
    if near >= reach:
        at_end = ends(ball_of(flint, q) * _power_of_e(flint, reach * step))
        if at_end[1] <= p:  # else it lies on the window's end up to rounding
            return [(reach, rounded_up(at_end[1])), (None, rounded_up(p - at_end[0]))]
        return [(None, rounded_up(p))]
    for low, high in ((near, near + 1), (near - 1, near), (near + 1, near + 2), (near - 2, near + 3)):
        # masses a at low and b at high: a + b = p and a e^-low + b e^-high = q
        grown = ball_of(flint, q) * _power_of_e(flint, low * step)
        share = 1 - _power_of_e(flint, (low - high) * step)
        b = ends((ball_of(flint, p) - grown) / share)
        if b[0] >= 0 and b[1] <= p:
            return [(max(low, -reach), rounded_up(p - b[0])), (max(high, -reach), rounded_up(b[1]))]
    return [(None, rounded_up(p))]  # no side could be decided: an infinite loss is never too small


def _power_of_e(flint: Any, exponent: Fraction) -> Ball:
    return ball_of(flint, exponent).exp()


def rounded_up(mass: Fraction) -> int:
    """Return a mass over 2^192, rounded up."""
    return -(-mass.numerator * WHOLE // mass.denominator)


def _power_of_masses(flint: Any, one: LatticeMasses, count: int, reach: int) -> LatticeMasses:
    """Compose equal ones, `count` of them."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError(f"count is {count!r}", code="A010", fix="give a whole number of repetitions")
    total: LatticeMasses | None = None
    while True:
        if count & 1:
            total = one if total is None else _product_of_masses(flint, total, one, reach)
        count >>= 1
        if not count:
            return total or one
        one = _product_of_masses(flint, one, one, reach)


def _product_of_masses(flint: Any, one: LatticeMasses, two: LatticeMasses, reach: int) -> LatticeMasses:
    """Compose two: sums of losses, moved up into the window or to infinity."""
    row = [-((-int(c)) >> UNIT_BITS) for c in (one.finite * two.finite).coeffs()]
    first = one.first + two.first
    infinite = one.infinite + two.infinite - (one.infinite * two.infinite >> UNIT_BITS)
    if first < -reach:
        below, row = row[: -reach - first], row[-reach - first :]
        row = [sum(below) + (row[0] if row else 0), *row[1:]]
        first = -reach
    if first + len(row) - 1 > reach:
        infinite += sum(row[reach - first + 1 :])
        row = row[: reach - first + 1]
    return LatticeMasses(first, flint.fmpz_poly(row), min(infinite, WHOLE))


def _delta(flint: Any, total: LatticeMasses, epsilon: Fraction, step: Fraction) -> Fraction:
    found = flint.arb(0)
    for k, mass in enumerate(total.finite.coeffs()):
        loss = (total.first + k) * step
        if loss > epsilon:
            found += int(mass) * (1 - _power_of_e(flint, epsilon - loss))
    return min(ends(found)[1] / WHOLE + Fraction(total.infinite, WHOLE), Fraction(1))
