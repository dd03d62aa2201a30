"""The variance of discrete Gaussian noise: its parameter, but for small ones, where most draws are 0."""

from __future__ import annotations

from fractions import Fraction

from topdown.accountant.certified import ball_of, ends, precision
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Exact, positive

_WIDE = 16  # from here on the two differ by less than a part in 10^130
_BITS = 256


def discrete_gaussian_variance(parameter: Exact) -> Enclosure:
    """Enclose the variance of N_Z(0, parameter).

    It is at most the parameter (Canonne, Kamath, Steinke 2020, corollary 9). Below 16 the sum over |x| <= 100 is
    written out; past it a term of x^2 e^(-x^2 / 2v) is below half of the one before.

    Args:
        parameter: exact, > 0.
    """
    v = positive(parameter, "variance")
    if v >= _WIDE:
        return Enclosure(v * (1 - Fraction(1, 10**130)), v, "parameter")
    with precision(_BITS) as flint:
        terms = [(ball_of(flint, Fraction(-x * x) / (2 * v))).exp() for x in range(102)]
        total = 1 + 2 * sum(terms[1:101], flint.arb(0))
        square = 2 * sum((x * x * terms[x] for x in range(1, 101)), flint.arb(0))
        beyond = 4 * 101 * 101 * ends(terms[101])[1]
        low, high = ends(square)
        least, most = ends(total)
        return Enclosure(low / (most + beyond), min((high + beyond) / least, v), "sum")
