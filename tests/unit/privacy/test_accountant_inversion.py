"""Solving for epsilon takes few enclosures of delta, also where the first guess cannot be told from the answer."""

import math
from fractions import Fraction

import pytest

from topdown.privacy import Enclosure
from topdown.privacy.accountant import solve_epsilon


@pytest.mark.parametrize("width", [Fraction(1, 10**12), Fraction(1, 10**6)])
def test_few_enclosures_are_asked_for(width: Fraction) -> None:
    """An end that is looked for from the finest resolution on took 136 enclosures, half a minute for a census."""
    asked = []
    exact = -2 + 2 * math.sqrt(1 - math.log(1e-10))

    def deltas(points):
        asked.extend(points)
        values = [Fraction(math.exp(-(float(x) ** 2) / 4 - float(x))) for x in points]
        return [Enclosure(v * (1 - width), v * (1 + width), "test") for v in values]

    target = Fraction(1, 10**10)
    found = solve_epsilon(deltas, target, exact, Fraction(40), 90)
    assert found.lower - Fraction(1, 10**13) <= Fraction(exact) <= found.upper + Fraction(1, 10**13)
    assert found.width <= 8 * width
    assert len(asked) < 40
