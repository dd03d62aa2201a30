"""Everything of a ledger together: Gaussian, geometric and optimal noise, and mechanisms known by a pure epsilon.

They are composed as one loss. Randomised response dominates what keeps a pure epsilon. Proof: PROOF.md, section 12.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

from topdown.privacy.accountant.composition import Composition
from topdown.privacy.accountant.events import (
    BALL_BITS,
    TINY,
    UNIT_BITS,
    WHOLE,
    DiscreteGaussianEvent,
    FiniteLoss,
    Geometric,
    LatticeMasses,
    Mixture,
    PureDP,
    Simple,
    composed_on_lattice,
    exp_ends,
    negligible_from,
    rounded_up,
)
from topdown.privacy.accountant.finite_losses import (
    NATS,
    NoisyCounts,
    PairLoss,
    PureLoss,
    compose_noise,
    outcomes_of_count,
)
from topdown.privacy.accountant.gaussian_loss import LossDistribution, ball_of, ends, precision
from topdown.privacy.exact_values import Enclosure, Threshold, epsilon_of, threshold
from topdown.privacy.laws import LAWS

MIXED_METHOD = "composed exactly"
BOUND_METHOD = "bound from above, composed"
_MOST_LISTED = 300  # values of a composed loss beside Gaussian noise that are listed, not put on a lattice
_CHORD = Fraction(1, 32)  # nats between points of Gaussian noise that are summed
_ROOM = Fraction(1, 10**10)  # of delta, where none is asked for
_MOST_COUNTS = 1 << 12  # with a pure epsilon, that are put on the lattice one by one
_LATTICE_STEPS = 1 << 11  # up to the epsilon that sums would give


@dataclass(frozen=True)
class WholeLoss:
    """Everything that was charged to one data set: noise of any laws, and mechanisms known by a pure epsilon.

    Gaussian noise is summed by its own engine, the losses of all else are listed, or put on a lattice where they have
    many values. A mechanism that is known by its epsilon is taken for randomised response of it, which dominates it.
    What is stated is exact where every law is known and the losses are listed, else a bound: no upper end is ever too
    small, and the lower end is that of the Gaussian noise alone. Proof: PROOF.md, section 12.

    Args:
        noise: counts that a change moves, with their noise.
        pure: (epsilon, e**epsilon) of each other mechanism; epsilon is at least the logarithm of the second.
    """

    noise: tuple[NoisyCounts, ...]
    pure: tuple[tuple[Fraction, Fraction], ...] = ()

    @property
    def coordinates(self) -> int:
        """How many counts behind noise move."""
        return sum(m.count for m in self.noise)

    @cached_property
    def of_one_kind(self) -> Composition | PureLoss | None:
        """The same loss by its own engine, where all of it is Gaussian noise, or pure noise; else None."""
        kinds = {LAWS[m.law].loss_name for m in self.noise}
        if self.pure or len(kinds) != 1 or "epsilon_delta" in kinds:
            return None
        found = compose_noise(self.noise, min(kinds))
        return None if isinstance(found, PairLoss) else found

    @cached_property
    def gaussian(self) -> Composition | None:
        """The Gaussian noise alone; None if there is none."""
        rows = [(m.parameter, m.shift, m.count) for m in self._composed_as("gaussian")]
        return Composition.of(rows) if rows else None

    @property
    def pure_epsilon(self) -> Fraction:
        """Sum of the epsilons of everything that has one for every delta."""
        counts = (m.count * m.loss for m in self.noise if LAWS[m.law].loss_name == "epsilon")
        return sum(counts, Fraction(0)) + sum((epsilon for epsilon, _ in self.pure), Fraction(0))

    @property
    def is_pure(self) -> bool:
        """Whether all of it has an epsilon for every delta."""
        return self.gaussian is None and not self._composed_as("weights")

    @property
    def own_epsilon(self) -> Fraction:
        """Sum of the epsilons of everything that has a delta of its own."""
        return sum((m.count * m.parameter for m in self._composed_as("weights")), Fraction(0))

    @property
    def own_delta(self) -> Fraction:
        """Sum of those deltas, at most 1."""
        return min(sum((m.count * m.delta for m in self._composed_as("weights")), Fraction(0)), Fraction(1))

    @property
    def rho(self) -> Fraction | None:
        """An exact upper bound of the zCDP of everything; None where some noise has none.

        Gaussian noise: half of shift**2 / variance of every count. A count that keeps a pure epsilon, and a mechanism
        of e**epsilon = r: epsilon tanh(epsilon / 2), which is at most min(epsilon, epsilon**2 / 2), and is
        epsilon (r - 1) / (r + 1) (PROOF.md, lemma 6). rhos add up.
        """
        if self._composed_as("weights"):
            return None
        total = self.gaussian.rho if self.gaussian else Fraction(0)
        for m in self.noise:
            if LAWS[m.law].loss_name == "epsilon":
                total += m.count * min(m.loss, m.loss * m.loss / 2)
        return total + sum((epsilon * (odds - 1) / (odds + 1) for epsilon, odds in self.pure), Fraction(0))

    @property
    def is_exact(self) -> bool:
        """Whether both ends of what is stated enclose the loss of the laws themselves."""
        known = all(m.is_known for m in self._composed_as("weights"))
        return known and self._listed is not None and not self.pure and not self._composed_as("bound")

    def epsilon_at(self, delta: Threshold) -> Enclosure | None:
        """Return ends of epsilon at a delta; None where this composition finds none: the delta is too small.

        Args:
            delta: exact, 0 .. 1; at 0 only what has a pure epsilon has one.
        """
        target = threshold(delta, "delta")
        if isinstance(self.of_one_kind, Composition) and target:
            return self.of_one_kind.epsilon(target, engine=self._engine)
        room = target - self.own_delta
        if room < 0 or (room == 0 and self.gaussian is not None):
            return None
        if self.is_pure and not target:
            low = self.pure_epsilon if self.is_exact else Fraction(0)
            return Enclosure(low, self.pure_epsilon, self._method)
        if self._listed is not None and not self._listed.has_epsilon(target):
            return None
        noise = self.gaussian.epsilon(target, engine=self._engine).lower if self.gaussian else Fraction(0)
        if self._listed is not None:
            found = self._listed.epsilon(target)
            low = found.lower if self.is_exact else noise
            return Enclosure(min(low, found.upper), found.upper, self._method)
        return Enclosure(noise, max(noise, self._on_lattice(room).epsilon_at(target)), BOUND_METHOD)

    def delta_at(self, epsilon: Threshold) -> Enclosure:
        """Return ends of delta at an epsilon of 0 or more, the larger of the two directions of the pair."""
        asked = epsilon_of(epsilon)
        if self._listed is not None:
            found = self._listed.delta(asked)
        else:
            lattice = self._on_lattice(_ROOM)
            found = Enclosure(Fraction(0), lattice.delta_at(min(int(asked / lattice.step), lattice.top)))
        alone = self.gaussian.delta(asked, engine=self._engine).lower if self.gaussian else Fraction(0)
        return Enclosure(found.lower if self.is_exact else min(alone, found.upper), found.upper, self._method)

    def best_guess(self) -> Enclosure:
        """Return ends of the chance that the best attacker is right of two equally likely neighbours."""
        at_zero = self.delta_at(0)
        return Enclosure((1 + at_zero.lower) / 2, (1 + at_zero.upper) / 2, at_zero.method)

    @property
    def _method(self) -> str:
        return MIXED_METHOD if self.is_exact else BOUND_METHOD

    @property
    def _engine(self) -> str:
        return self.gaussian.certifying() if self.gaussian else "auto"

    def _composed_as(self, engine: str) -> list[NoisyCounts]:
        return [m for m in self.noise if LAWS[m.law].composed_as == engine]

    @cached_property
    def _listed(self) -> Mixture | None:
        """The composition of all losses, where those beside Gaussian noise have few values together."""
        events, size = _events_of(self.noise) + Counter(PureDP(odds) for _, odds in self.pure), 1
        for event, n in events.items():
            if not isinstance(event, DiscreteGaussianEvent):
                size *= _n_losses(event, n)
                if size > _MOST_LISTED:
                    return None
        return Mixture(events.items())

    def _on_lattice(self, room: Fraction) -> _LatticeLoss:
        """Return the losses on a lattice that reaches past the epsilon that sums give at `room` + `own_delta`."""
        gaussian = _gaussian_epsilon(self.gaussian.law, room) if self.gaussian else Fraction(0)
        total = self.pure_epsilon + self.own_epsilon + gaussian
        spare = min(NATS[1], NATS[0] + 2 * self.own_epsilon) if self.own_delta else Fraction(0)
        return _lattice_loss(self, total / _LATTICE_STEPS, total, spare)


def _events_of(noise: Iterable[NoisyCounts]) -> Counter[Simple]:
    """Return what each count is to the accountant, and how often."""
    events: Counter[Simple] = Counter()
    for m in noise:
        law = LAWS[m.law]
        if law.composed_as == "gaussian":
            events[DiscreteGaussianEvent(m.parameter, m.shift)] += m.count
        elif law.composed_as == "weights":
            events[outcomes_of_count(m)] += m.count
        else:
            exact = law.composed_as == "geometric"
            events[Geometric(m.loss / m.shift, m.shift) if exact else Geometric(m.loss)] += m.count
    return events


def _n_losses(event: Simple, count: int) -> int:
    """Return how many values the sum of the losses of `count` equal events has at most."""
    if isinstance(event, FiniteLoss):
        return math.comb(len({p / q for p, q in event.outcomes if p and q}) + count - 1, count)
    return count * (event.sensitivity if isinstance(event, Geometric) else 1) + 1


@dataclass(frozen=True)
class _LatticeLoss:
    """Losses rounded up to a lattice: whole numbers over 2^192, none below the true one.

    Args:
        step: of the lattice, in nats.
        masses: of the losses (first + k) steps of all that is not Gaussian.
        infinite: of the infinite loss.
        beyond: delta of the Gaussian noise alone at (least + k) steps; without any, that of a loss of 0.
        top: last place at which delta is asked for.
    """

    step: Fraction
    first: int
    masses: tuple[int, ...]
    infinite: int
    least: int
    beyond: tuple[int, ...]
    top: int

    def delta_at(self, place: int) -> Fraction:
        """Return a bound of delta at a point of the lattice: E[delta of the Gaussian noise at epsilon - loss]."""
        start = place - self.first - self.least
        total = sum(mass * self.beyond[start - k] for k, mass in enumerate(self.masses))
        return min(Fraction(-(-total >> UNIT_BITS) + self.infinite, WHOLE), Fraction(1))

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """Return the first point of the lattice, from 0 on, whose delta is at most this one; the last at most.

        The last is the sum of the epsilons, which hold at the sum of the deltas.
        """
        low, high = 0, self.top
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.delta_at(middle) <= delta else (middle + 1, high)
        return low * self.step


def _deltas_of_gaussian(gaussian: Composition | None, first: int, n: int, step: Fraction) -> list[Fraction]:
    """Return upper ends of the delta of Gaussian noise at `n` points of a lattice, or of a loss of 0 where it is None.

    delta is the largest P(S) - e**epsilon Q(S), so convex in e**epsilon: between points that are summed it lies below
    their chord.

    Args:
        first: place of the first point, of either sign. step: of the lattice, nats.
    """
    if gaussian is None:
        return [
            max(Fraction(0), 1 - exp_ends(k * step)[0]) if k < 0 else Fraction(0)
            for k in range(first, first + n)
        ]
    apart = max(1, int(_CHORD / step))
    knots = [(first + k) * step for k in range(0, n + apart, apart)]
    far = negligible_from(gaussian)
    asked = sorted({abs(x) for x in knots if abs(x) < far})
    known = dict(zip(asked, gaussian.delta_arrays(asked)[1].tolist(), strict=True)) if asked else {}
    ends_of = []
    for x in knots:
        high = min(Fraction(known.get(abs(x), TINY)), Fraction(1))
        ends_of.append(high if x >= 0 else 1 - exp_ends(x)[0] * (1 - high))
    with precision(BALL_BITS) as flint:
        last = ball_of(flint, -apart * step).exp()
        risen = [(ball_of(flint, (k - apart) * step).exp() - last) / (1 - last) for k in range(apart)]
        parts = [max(ends(ball)[0], Fraction(0)) for ball in risen]
    falls = [max(one - other, Fraction(0)) for one, other in pairwise(ends_of)]
    return [ends_of[k // apart] - falls[k // apart] * parts[k % apart] for k in range(n)]


@lru_cache(maxsize=64)
def _gaussian_epsilon(law: LossDistribution, room: Fraction) -> Fraction:
    return Composition(law).epsilon(room).upper


def _beside_gaussian(whole: WholeLoss) -> list[tuple[Geometric | FiniteLoss, int]]:
    """Return all that is not Gaussian, and how often; more than 4,096 pure counts as one response of their sum."""
    events: Counter[Geometric | FiniteLoss] = Counter(Geometric(epsilon) for epsilon, _ in whole.pure)
    for event, n in _events_of(whole.noise).items():
        if isinstance(event, Geometric | FiniteLoss):
            events[event] += n
    pure = [event for event in events if isinstance(event, Geometric)]
    if sum(events[event] for event in pure) > _MOST_COUNTS:
        events = Counter({event: n for event, n in events.items() if event not in pure})
        events[Geometric(whole.pure_epsilon)] = 1
    return list(events.items())


@lru_cache(maxsize=8)
def _lattice_loss(whole: WholeLoss, step: Fraction, total: Fraction, spare: Fraction) -> _LatticeLoss:
    """Put all that is not Gaussian on a lattice.

    Args:
        whole: what was charged.
        step: of the lattice.
        total: last epsilon that is asked for.
        spare: nats beyond the sum of the epsilons that losses without an epsilon of their own are told apart in.
    """
    top, events = math.ceil(total / step), _beside_gaussian(whole)
    # each loss may go up by a step: what has a pure epsilon is never moved out of the window
    reach = math.ceil((whole.pure_epsilon + whole.own_epsilon + spare) / step) + sum(n for _, n in events)
    with precision(BALL_BITS) as flint:
        made = composed_on_lattice(flint, events, step, reach) or LatticeMasses(
            0, flint.fmpz_poly([WHOLE]), 0
        )
        masses = tuple(int(c) for c in made.finite.coeffs())
        least, most = -(made.first + len(masses) - 1), top - made.first
        beyond = _deltas_of_gaussian(whole.gaussian, least, most - least + 1, step)
    upper = tuple(rounded_up(min(high, Fraction(1))) for high in beyond)
    return _LatticeLoss(step, made.first, masses, made.infinite, least, upper, top)
