"""The accountant against reference values: certified numbers, sums of exact powers, few questions to a search."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.compositions import weighted
from topdown.privacy import Enclosure
from topdown.privacy.accountant import Composition, bun_steinke, discrete_gaussian_variance, solve_epsilon

CASES = json.loads((Path(__file__).parents[2] / "golden" / "accountant_cases.json").read_text())["cases"]
PRINTED = Fraction(1, 10**27)  # the references are midpoints printed to 28 digits or more
TRUNCATED = Fraction(2, 10**26)
QUICK_BALL = [name for name in CASES if name not in ("mix5", "het3")]


def composition(name: str) -> Composition:
    return weighted([(rho, count) for rho, count in CASES[name]["rhos"]])


def holds(box, value: str) -> bool:
    exact = Fraction(value)
    return box.lower * (1 - PRINTED) <= exact <= box.upper * (1 + PRINTED)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("of", "curve"), [("delta", "curve"), ("trade_off", "trade_off_curve")])
def test_curves_enclose_the_reference(name, of, curve):
    """A wrong node, tilt or tie rule would put delta outside its enclosure, and a trade-off one atom (1e-4) off."""
    rows = CASES[name][of]
    boxes = getattr(composition(name), curve)([at for at, _ in rows])
    assert all(holds(box, value) for box, (_, value) in zip(boxes, rows, strict=True))
    assert max(box.relative_width for box in boxes) <= 1e-12


@pytest.mark.parametrize("name", CASES)
def test_epsilon_encloses_the_reference(name):
    """An inversion that stops early, or on the wrong side, would miss epsilon."""
    for delta, epsilon in CASES[name]["epsilon"]:
        box = composition(name).epsilon(delta)
        assert box.lower - TRUNCATED <= Fraction(epsilon) <= box.upper
        assert box.relative_width < 1e-11


@pytest.mark.parametrize("name", QUICK_BALL)
def test_balls_enclose_the_reference_tightly(name):
    """A ball engine that forgot an error term would exclude the 32-digit reference."""
    case = composition(name)
    rows = CASES[name]["delta"]
    boxes = case.curve([e for e, _ in rows], engine="ball", digits=24)
    assert all(holds(box, delta) for box, (_, delta) in zip(boxes, rows, strict=True))
    assert max(box.relative_width for box in boxes) < 1e-20
    boxes = case.trade_off_curve([a for a, _ in CASES[name]["trade_off"]], engine="ball", digits=24)
    assert all(holds(box, f) for box, (_, f) in zip(boxes, CASES[name]["trade_off"], strict=True))


def test_epsilon_of_the_census_at_1e_10():
    """The headline number: 24.456493954394... for the un-bypassed path with itself."""
    box = composition("M0M0").epsilon("1e-10", engine="ball", digits=22)
    assert Fraction("24.456493954393926811") <= box.lower <= box.upper <= Fraction("24.456493954393926812")


def test_deep_tail_of_the_published_curve():
    """At the zCDP epsilon of delta 1e-21 the published delta is 3.14 times too large (absolute tolerance)."""
    epsilon = bun_steinke("24811/5000", "1e-21").lower
    box = composition("M0M0").delta(epsilon)
    assert abs(float(box) / 9.61458478483005e-24 - 1) < 1e-11
    assert box.relative_width < 1e-12


@pytest.mark.parametrize("parameter", ["1/20", "1/3", "1", "5", "15", "16", "300"])
def test_encloses_the_sum(parameter: str) -> None:
    """Noise of a small parameter varies far less than that: it would be shown worse than it is."""
    v = float(Fraction(parameter))
    weights = {x: math.exp(-x * x / (2 * v)) for x in range(-400, 401)}
    direct = math.fsum(x * x * w for x, w in weights.items()) / math.fsum(weights.values())
    box = discrete_gaussian_variance(parameter)
    assert direct == pytest.approx(float(box), rel=1e-13)
    assert box.relative_width < 1e-50
    assert box.upper <= Fraction(parameter)


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
