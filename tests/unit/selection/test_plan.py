"""The planner: no rate or base may promise less than the epsilon that was asked for."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest

from topdown.errors import ConfigError
from topdown.privacy import exp_neg
from topdown.privacy.accountant import PureDP, ReleaseEvent
from topdown.selection import Subsampling, least_exponent, lift, root_below, subsampling

GRID = [Fraction(text) for text in ("0.000001", "0.01", "0.05", "0.1", "0.5", "1", "2", "5", "10")]


def most(epsilon: Fraction) -> Fraction:
    """Return a rational just above e^epsilon."""
    return 1 / Fraction(exp_neg(epsilon, 200)[0], 1 << 200)


@pytest.mark.parametrize("epsilon", GRID)
@pytest.mark.parametrize("neighbours", ["add_remove", "bounded"])
def test_a_plan_keeps_its_epsilon(epsilon: Fraction, neighbours: str) -> None:
    """One rounding the wrong way and every selection would promise a little too much."""
    plan = subsampling(epsilon, neighbours)
    assert plan.exp_epsilon <= most(epsilon)
    assert plan.exp_epsilon >= 1 + (most(epsilon) - 1) * (1 - Fraction(1, 10**6))
    assert plan.base > 1
    assert plan.event == ReleaseEvent(neighbours, PureDP(plan.exp_epsilon))


def test_the_base_is_sharp_and_monotone() -> None:
    """A base of 2, as printed, would give away utility; one that falls with epsilon would be a slip."""
    plans = [subsampling(epsilon, "add_remove") for epsilon in GRID]
    assert all(plan.base >= 2 and plan.base == 1 + 1 / (1 - plan.rate) for plan in plans)
    assert all(a.base < b.base and a.rate < b.rate for a, b in pairwise(plans))
    assert plans[0].base - 2 < Fraction(1, 10**5)


@pytest.mark.parametrize(("epsilon", "rate"), [("0.1", 0.036), ("0.5", 0.164), ("1", 0.294), ("2", 0.482)])
def test_replaced_records_have_a_rate_of_their_own(epsilon: str, rate: float) -> None:
    """The rate of added records would waste most of a promise for replaced ones."""
    assert rate == pytest.approx(float(subsampling(epsilon, "bounded").rate), abs=0.006)


def test_lift() -> None:
    """The theorem's two terms, its delta, and the product for replaced records."""
    half, three = Fraction(1, 2), Fraction(3)
    assert lift(half, Fraction(2), Fraction(0), "add_remove") == (2, 0)
    assert lift(half, three, Fraction(1, 10), "add_remove") == (2, Fraction(1, 20))
    assert lift(Fraction(1, 11), Fraction(31, 10), Fraction(0), "add_remove") == (Fraction(131, 110), 0)
    assert lift(half, Fraction(2), Fraction(0), "bounded") == (3, 0)
    assert lift(half, three, Fraction(0), "bounded") == (4, 0)
    with pytest.raises(ConfigError, match="delta"):
        lift(half, three, Fraction(1, 10), "bounded")


def test_a_rate_of_zero_costs_nothing() -> None:
    """A data set that is never looked at must be accepted, and not charged."""
    plan = Subsampling(Fraction(0), Fraction(2), "add_remove")
    assert plan.exp_epsilon == 1
    assert plan.event == ReleaseEvent("add_remove", None)
    assert Subsampling(Fraction(0), Fraction(2), "bounded").exp_epsilon == 1


@pytest.mark.parametrize("epsilon", [0, -1, "1/10000000", 11, Decimal("nan"), Decimal("inf"), 0.5, "x"])
def test_epsilon_is_refused(epsilon: object) -> None:
    """A float or a number without meaning would reach the ledger."""
    with pytest.raises((ConfigError, TypeError)):
        subsampling(epsilon, "add_remove")


@pytest.mark.parametrize(("rate", "base"), [(1, 2), (-1, 2), (Fraction(1, 2), 1), (0.5, 2), (0, 2.0)])
def test_rate_and_base_are_refused(rate: object, base: object) -> None:
    """A rate of 1 keeps no removed record secret."""
    with pytest.raises((ConfigError, TypeError)):
        Subsampling(rate, base, "add_remove")
    with pytest.raises(ConfigError):
        Subsampling(Fraction(1, 2), Fraction(2), "households")


@pytest.mark.parametrize("base", [Fraction(2), Fraction(31, 10), Fraction(22028)])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 100, 1000])
def test_roots_are_below_and_close(base: Fraction, parts: int) -> None:
    """A root rounded up spends more than there is; one far below wastes it."""
    root = root_below(base, parts)
    assert root**parts <= base
    assert root == base or (root + Fraction(1, 1 << 64)) ** parts > base


def test_a_root_of_nothing_is_refused() -> None:
    """A base of exactly 1 would choose without looking at the records, and say that it looked."""
    with pytest.raises(ConfigError, match="nothing"):
        root_below(1 + Fraction(1, 1 << 64), 2)


def test_least_exponent() -> None:
    """A slack one too small says something false of the probability of failing."""
    assert [least_exponent(Fraction(2), Fraction(r)) for r in ("1/2", "1", "2", "8", "9")] == [0, 0, 1, 3, 4]
