"""Bad input: the message names the value and shows the fix; exact text is outward."""

from decimal import Decimal
from fractions import Fraction

import pytest

from tests.helpers.compositions import weighted
from topdown.errors import ConfigError
from topdown.privacy import Enclosure, rational, significant, threshold
from topdown.privacy.accountant import Composition


def test_float_budget_is_refused_with_the_fix():
    """A float rho is not the number its author wrote."""
    with pytest.raises(TypeError, match=r'Fraction\("0.1"\)'):
        Composition.from_rho({0.1: 2}, "bounded")
    with pytest.raises(TypeError, match=r'Fraction\("0.1"\)'):
        Composition.of([(0.1, 1, 2)])


@pytest.mark.parametrize("budgets", [{"-1/2": 1}, {"0": 3}, {}, {"x": 1}, {"1/0": 1}, {"1/2": -1}])
def test_impossible_budgets_are_refused(budgets):
    """Negative, zero-total, unreadable budgets must not give a number."""
    with pytest.raises(ValueError) as caught:
        Composition.from_rho(budgets, "bounded")
    assert isinstance(caught.value, ConfigError)
    assert caught.value.fix


@pytest.mark.parametrize("count", [1.0, True, "3"])
def test_counts_are_whole_numbers(count):
    """A count that is not an int hides a mistake in the order of arguments."""
    with pytest.raises(TypeError, match="whole number"):
        Composition.from_rho({"1/2": count}, "bounded")


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("delta", -1),
        ("delta", float("nan")),
        ("epsilon", 0),
        ("epsilon", 1),
        ("epsilon", 1.5),
        ("trade_off", -0.1),
        ("trade_off", 2),
    ],
)
def test_thresholds_outside_their_range_are_refused(call, value):
    """An epsilon below 0, a delta or alpha that is no probability must not be answered."""
    with pytest.raises(ValueError):
        getattr(weighted({"1/10": 10}), call)(value)


def test_zero_budgets_are_dropped():
    """Bypassed levels have rho 0 and must not become infinite noise or an error."""
    assert Composition.from_rho({"1/10": 10}, "bounded") == Composition.from_rho(
        {"1/10": 10, "0": 5}, "bounded"
    )


def test_rho_is_zcdp_of_the_stated_relation():
    """A replaced record moves two counts of a measurement, an added one moves one: noise differs, rho does not."""
    for relation, moved in (("bounded", 2), ("add_remove", 1)):
        case = Composition.from_rho({"1/10": 3, "1/4": 1}, relation)
        assert Fraction(11, 20) == case.rho
        assert 4 * moved == case.law.coordinates
        assert {Fraction(5) * moved, Fraction(2) * moved} == {g.variance for g in case.law.groups}
    with pytest.raises(ConfigError, match="neighbours"):
        Composition.from_rho({"1/10": 3}, "unbounded")


def test_a_float_threshold_is_the_decimal_it_prints():
    """delta=1e-10 must mean 10**-10, not the nearest binary number."""
    assert Fraction(1, 10**10) == threshold(1e-10, "delta")
    assert Fraction(1, 10) == rational(Decimal("0.1"), "rho")


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (Fraction(1, 3), "0.333", "0.334"),
        (Fraction(-1, 3), "-0.334", "-0.333"),
        (Fraction(2, 3) / 10**40, "6.66e-41", "6.67e-41"),
        (Fraction(9999, 1000), "9.99", "10"),
        (Fraction(123456), "1.23e5", "1.24e5"),
        (Fraction(1, 8), "0.125", "0.125"),
        (Fraction(0), "0", "0"),
        (Fraction(1000), "1e3", "1e3"),
    ],
)
def test_decimal_text_is_outward(value, low, high):
    """A bound printed to nearest would no longer be a bound."""
    assert (low, high) == (significant(value, 3, up=False), significant(value, 3, up=True))


def test_enclosure_refuses_crossed_bounds():
    """An empty interval is an engine's mistake, never an answer."""
    with pytest.raises(ValueError, match="empty enclosure"):
        Enclosure(Fraction(2), Fraction(1))
    box = Enclosure(Fraction(1), Fraction(2))
    assert Fraction(3, 2) in box
    assert 3 not in box


def test_gaussian_comparison_takes_one_argument():
    """Two thresholds at once would silently ignore one."""
    with pytest.raises(TypeError, match="exactly one"):
        weighted({1: 1}).gaussian(epsilon=1.0, delta=0.1)
