"""What every noise distribution is: facts about its family as data, and one distribution of it to draw from.

A family (`NoiseLaw`) is known by its name in plans, ledgers and measurement files. One distribution of it
(`NoiseDistribution`) has exact parameters and certified probabilities. A new law is a file of this folder with both,
and its place in `LAWS`; the sampler, the measurement and the ledger know no law by name.

The slow way to draw is exact rejection with fractions (PROOF.md, section 4; Canonne, Kamath, Steinke, "The Discrete
Gaussian for Differential Privacy", 2020, algorithm 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from topdown.privacy.fixed_point import TailSums, exp_neg, tail_sums

if TYPE_CHECKING:
    from topdown.privacy.bits import BitSource

Engine = Literal["gaussian", "geometric", "weights", "bound"]
"""What the accountant may take the losses of counts in noise of one law for; see `NoiseLaw.composed_as`."""
ParameterName = Literal["variance", "scale", "epsilon"]
Weights = tuple[int, ...]
"""Of the values 0, 1, 2, .. of a symmetric law, whole numbers over 2^128; none for a law with a formula."""
WEIGHT_BITS = 128
UNIT = 1 << WEIGHT_BITS
LN2_ABOVE = Fraction(7, 10)


class NoiseDistribution(ABC):
    """One symmetric distribution on the integers."""

    @property
    @abstractmethod
    def is_too_wide(self) -> bool:
        """Whether draws could leave 32 bits, or take too much: it is not drawn from."""

    @abstractmethod
    def half_width(self, n_bits: int) -> int:
        """Return a k past which the tail is below about 2^-n_bits (for sizes and routes, not for proofs)."""

    @abstractmethod
    def exact_thresholds(self, n_bits: int) -> tuple[int, ...] | None:
        """Return floor(2^n_bits P(X <= k)) for every k but the largest if that needs no enclosures, else None."""

    @abstractmethod
    def decides(self, n_bits: int) -> bool:
        """Tell whether thresholds of so many bits are the distribution function itself."""

    @abstractmethod
    def tails(self, floor_bits: int) -> TailSums:
        """Return enclosures of the unnormalised tail sums; for what has no exact thresholds."""

    @abstractmethod
    def draw_slowly(self, bits: BitSource) -> int:
        """Draw one outcome without a table."""

    @abstractmethod
    def pmf(self, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
        """Enclose P(X = k) between two rationals at most about 2^-n_bits apart, n_bits >= 1."""

    @abstractmethod
    def cdf(self, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
        """Enclose P(X <= k) between two rationals at most about 2^-n_bits apart, n_bits >= 1."""


class FormulaDistribution(NoiseDistribution):
    """A distribution whose probabilities are exp(-energy) over a sum without a closed form."""

    @abstractmethod
    def energy(self, k: int) -> Fraction:
        """Return -log of pmf(k) / pmf(0), exactly."""

    def exact_thresholds(self, n_bits: int) -> None:
        """Return None: they are certified by enclosures of the tail sums."""

    def decides(self, n_bits: int) -> bool:
        """Return False: no threshold is a dyadic number."""
        return False

    def tails(self, floor_bits: int) -> TailSums:
        """Return enclosures of the tail sums, kept for the distribution drawn last."""
        return law_tails(self, floor_bits)

    def pmf(self, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
        """Enclose P(X = k)."""
        tails = law_tails(self, n_bits + 2)
        lo, hi = exp_neg(self.energy(k), tails.precision)
        total_lo, total_hi = tails.total
        return Fraction(lo, total_hi), Fraction(hi, total_lo)

    def cdf(self, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
        """Enclose P(X <= k)."""
        tails = law_tails(self, n_bits + 2)
        total_lo, total_hi = tails.total
        lo, hi = tails.at(k + 1 if k >= 0 else -k)
        below, above = Fraction(lo, total_hi), min(Fraction(hi, total_lo), Fraction(1, 2))
        return (1 - above, 1 - below) if k >= 0 else (below, above)


@dataclass(frozen=True)
class NoiseLaw:
    """One law.

    Args:
        name: in plans and ledgers.
        mechanism: in run files and settings.
        loss_name: rho (zCDP), epsilon (pure differential privacy), or epsilon_delta: epsilon, and a delta that is
            added up beside it.
        parameter_name: variance, in records squared; scale, in records; or epsilon of one count.
        loss_of_one: loss of one count moved by `shift` records, from (parameter, shift).
        composed_as: whose losses one count has, for the accountant: `gaussian`, discrete Gaussian noise of variance
            `parameter`; `geometric`, two-sided geometric noise of scale `parameter`; `weights`, the finite law of the
            weights; `bound`, unknown but for its epsilon, so that what is said of a composition is a bound.
        variance: of the noise in records squared, from (parameter, weights), as the solver weighs it.
        own_variance: of the law itself to 30 digits, from (parameter, weights), as screens show it.
        calibrated: parameter that makes a query cost a loss, from (loss, L1 sensitivity, squared L2 sensitivity).
        most: largest parameter; for a variance or a scale, whose noise leaves 32 bits less than once in 2^128 draws.
        usual: how others would state its loss as an epsilon.
        distribution: what is drawn, from (parameter, weights).
        adds_over_records: whether the loss of several records is the sum of theirs, whichever counts they move, so that
            units of several records may be protected by it (accountant/PROOF.md, section 14).
        weights: of a law whose losses have a delta, from (epsilon, delta) of one count; None: those of least |x|, which
            `topdown.optimal_noise` makes.
    """

    name: str
    mechanism: str
    loss_name: Literal["rho", "epsilon", "epsilon_delta"]
    parameter_name: ParameterName
    loss_of_one: Callable[[Fraction, int], Fraction]
    composed_as: Engine
    variance: Callable[[Fraction, Weights], Fraction]
    own_variance: Callable[[Fraction, Weights], Fraction]
    calibrated: Callable[[Fraction, int, int], Fraction]
    most: int
    usual: str
    distribution: Callable[[Fraction, Weights], NoiseDistribution]
    adds_over_records: bool = False
    weights: Callable[[Fraction, Fraction], Weights] | None = None

    def loss(self, parameter: Fraction, shift: int, coordinates: int) -> Fraction:
        """Return the loss of counts that each move by `shift`; exact."""
        return coordinates * self.loss_of_one(parameter, shift)

    @property
    def has_delta(self) -> bool:
        """Whether its losses are pairs, an epsilon and a delta: such a law is planned and drawn by its weights."""
        return self.loss_name == "epsilon_delta"


@lru_cache(maxsize=2)
def law_tails(law: FormulaDistribution, floor_bits: int) -> TailSums:
    """Return enclosures of the law's unnormalised tail sums. Cost: proportional to the standard deviation."""
    slope = law.energy(1)
    return tail_sums(slope, law.energy(2) - 2 * slope, floor_bits)


def refuse_inexact(value: object, owner: str, name: str) -> None:
    """Refuse whatever is not an exact positive rational."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise TypeError(
            f"{owner} needs an exact {name}, not {type(value).__name__} {value!r}. "
            f"Fix: {owner}(Fraction(numerator, denominator)), e.g. Fraction('2.5') or Fraction(5, 2)."
        )
    if value <= 0:
        raise ValueError(f"{owner} needs a {name} > 0, not {value}. Fix: zero noise is not a mechanism.")


def uniform_below(bound: int, bits: BitSource) -> int:
    """Draw uniformly from 0 .. bound - 1; bound >= 1."""
    n_bits = (bound - 1).bit_length()
    n_bytes = (n_bits + 7) // 8
    while True:
        drawn = int.from_bytes(bits.read(n_bytes), "big") >> (8 * n_bytes - n_bits)
        if drawn < bound:
            return drawn


def bernoulli(probability: Fraction, bits: BitSource) -> bool:
    """Draw True with the given probability in [0, 1]."""
    return uniform_below(probability.denominator, bits) < probability.numerator


def bernoulli_exp(gamma: Fraction, bits: BitSource) -> bool:
    """Draw True with probability exp(-gamma), gamma >= 0 (algorithm 1)."""
    while gamma > 1:
        if not bernoulli_exp(Fraction(1), bits):
            return False
        gamma -= 1
    k = 1
    while bernoulli(Fraction(gamma, k), bits):
        k += 1
    return k % 2 == 1
