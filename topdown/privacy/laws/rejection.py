"""Exact random choices by rejection with fractions: the slow, obvious way. Proof: PROOF.md, section 4.

Source: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithm 1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topdown.privacy.bits import BitSource


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
