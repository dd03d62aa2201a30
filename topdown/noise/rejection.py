"""The slow, obvious sampler: exact rejection with fractions, as in the paper. Proof: PROOF.md, section 4.

It is the twin the fast sampler is tested against, and the route of laws too wide for a table.

Source: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1-3.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from topdown.noise.bits import BitSource
from topdown.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from topdown.noise.weighted import BITS, WeightedInteger


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


def discrete_laplace(scale: Fraction, bits: BitSource) -> int:
    """Draw X with P(X = x) proportional to exp(-|x| / scale), scale = t / s > 0 (algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = uniform_below(t, bits)
        if not bernoulli_exp(Fraction(u, t), bits):
            continue
        v = 0
        while bernoulli_exp(Fraction(1), bits):
            v += 1
        magnitude = (u + t * v) // s
        negative = bernoulli(Fraction(1, 2), bits)
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, bits: BitSource) -> int:
    """Draw X with P(X = x) proportional to exp(-x^2 / (2 variance)), variance > 0 (algorithm 3)."""
    t = isqrt(variance.numerator // variance.denominator) + 1
    while True:
        y = discrete_laplace(Fraction(t), bits)
        if bernoulli_exp(acceptance_exponent(variance, t, y), bits):
            return y


def acceptance_exponent(variance: Fraction, t: int, y: int) -> Fraction:
    """Return the gamma for which a discrete Laplace(t) proposal y is kept with probability exp(-gamma)."""
    excess = abs(y) - Fraction(variance, t)
    return Fraction(excess * excess, 2 * variance)


def by_inversion(law: WeightedInteger, bits: BitSource) -> int:
    """Draw the least k with u < 2^128 P(X <= k), u of 128 bits; one value after the other."""
    u = int.from_bytes(bits.read(BITS // 8), "big")
    k = 1 - len(law.weights)
    while u >= law.mass(k):
        u -= law.mass(k)
        k += 1
    return k


def draw_one(law: Law, bits: BitSource) -> int:
    """Draw one outcome of the law. Cost: about 50 microseconds, whatever the law's width."""
    match law:
        case WeightedInteger():
            return by_inversion(law, bits)
        case DiscreteGaussian(variance):
            return discrete_gaussian(variance, bits)
        case TwoSidedGeometric(scale):
            return discrete_laplace(scale, bits)
