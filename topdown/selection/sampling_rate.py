"""From epsilon to a sampling rate and the base of the scores' weights, all rational. Proof: PROOF.md, section 1.

Source: Ghazi, Kamath, Kumar, Manurangsi, Sealfon, "Individualized Privacy Accounting via Subsampling with Applications
in Combinatorial Optimization", lemma 3.1; the larger base is PROOF.md, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from topdown.errors import ConfigError
from topdown.formats.common import Neighbours
from topdown.optimal_noise import factor_below
from topdown.privacy.accountant import ComposedEvent, PureDP, ReleaseEvent
from topdown.privacy.exact_values import Exact, rational
from topdown.privacy.fixed_point import exp_neg
from topdown.privacy.relation import Relation

SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**6), Fraction(10)
_BITS = 64
_STEPS = 64


@dataclass(frozen=True)
class Subsampling:
    """A sampling rate p, and the base E0 = e^epsilon0 that a one-sided mechanism on the sample may use up.

    Args:
        rate: rational, 0 .. 1, below 1; each record is kept with this probability, independently.
        base: rational above 1.
        neighbours: name of the relation.

    Raises: ConfigError (C190, A013), TypeError for floats.
    """

    rate: Fraction
    base: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not 0 <= rational(self.rate, "rate") < 1 or rational(self.base, "base") <= 1:
            raise ConfigError(
                f"the rate is {self.rate} and the base {self.base}",
                code="C190",
                fix="give a rate in 0 .. 1, below 1, and a base above 1",
            )
        ReleaseEvent(self.neighbours, ComposedEvent(()))

    @property
    def exp_epsilon(self) -> Fraction:
        """Return e^epsilon of any mechanism run on such a sample that is one-sided with this base. Exact."""
        return lift(self.rate, self.base, Fraction(0), self.neighbours)[0]

    @property
    def event(self) -> ReleaseEvent:
        """Return what one run on one fresh sample costs; a rate of 0 costs nothing."""
        pure = self.exp_epsilon
        return ReleaseEvent(self.neighbours, PureDP(pure) if pure > 1 else ComposedEvent(()))


def lift(
    rate: Fraction, base: Fraction, delta: Fraction, neighbours: Neighbours
) -> tuple[Fraction, Fraction]:
    """Return (e^epsilon, delta) of a one-sided (ln base, delta) mechanism on a Poisson sample, for both directions.

    Where neighbours move two counts only delta 0 is stated.
    """
    relation = Relation.named(neighbours)
    if delta and relation.n_counts > 1:
        raise ConfigError(
            "a delta with replaced records",
            code="C190",
            fix="use neighbours that add or remove a record, or delta 0",
        )
    return relation.sampled_odds(rate, base), rate * delta


def subsampling(epsilon: Exact, neighbours: Neighbours) -> Subsampling:
    """Return the rate and the base with which one run keeps e^epsilon, as large as 64 bits say.

    Args:
        epsilon: exact, 10^-6 .. 10.
        neighbours: name of the relation. Where one count moves, the rate is just below 1 - e^-epsilon, the base
            1 + 1/(1 - rate); else the rate on a grid of 63 whose effective budget, rate x ln(base), is largest.

    Raises: ConfigError (C191, A001, A013), TypeError for floats.
    """
    asked = rational(epsilon, "epsilon")
    if not SMALLEST_EPSILON <= asked <= LARGEST_EPSILON:
        raise ConfigError(
            f"epsilon is {epsilon}, outside {SMALLEST_EPSILON} .. {LARGEST_EPSILON}",
            code="C191",
            fix="give one such as 1/2",
        )
    most = 1 - Fraction(exp_neg(asked, _BITS)[1], 1 << _BITS)
    if Relation.named(neighbours).n_counts == 1:
        return Subsampling(most, 1 + 1 / (1 - most), neighbours)
    factor = factor_below(asked)
    tried = [most * step / _STEPS for step in range(1, _STEPS)]
    plans = [(rate, 1 + ((1 - rate) * factor - 1) / rate) for rate in tried]
    with localcontext() as context:
        context.prec = 30
        # the ranking of public candidates decides which plan is used, never what the plan costs
        rate, base = max((p for p in plans if p[1] > 1), key=lambda p: _decimal(p[0]) * _decimal(p[1]).ln())
    return Subsampling(rate, base, neighbours)


def root_below(base: Fraction, parts: int) -> Fraction:
    """Return a rational r > 1 of at most 64 bits after the point with r^parts <= base; base > 1, parts >= 1.

    Weights r^q with whole scores q up to `parts` for one record, or `parts` steps of r each, stay within the base.
    """
    if parts == 1:
        return base
    unit, bits = 1 << _BITS, _BITS * parts
    ceiling = (base.numerator << bits) // base.denominator
    low, high = unit, int(base * unit) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**parts <= ceiling else (low, middle)
    if low == unit:
        raise ConfigError(
            f"the base leaves nothing for one of {parts} parts",
            code="C190",
            fix="use a coarser grid or a larger epsilon",
        )
    return Fraction(low, unit)


def least_exponent(base: Fraction, ratio: Fraction) -> int:
    """Return the least whole s >= 0 with base^s >= ratio; base > 1."""
    high = 1
    while base**high < ratio:
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if base**middle < ratio else (low, middle)
    return high


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
