"""The printed order, corrected: what it costs, and that its constants leave the order as it was."""

from collections.abc import Hashable
from fractions import Fraction
from math import prod

import pytest

from tests.oracles.cover_order_by_samples import cover_order_by_samples, rounds
from topdown.errors import ConfigError
from topdown.privacy import SimulationBits, exp_neg
from topdown.privacy.accountant import ComposedEvent, PureDP
from topdown.selection import (
    Chance,
    DataSet,
    RealChance,
    Subsampling,
    incidence,
    mechanism_laws,
    whole_sample,
    worst_ratios,
)

HALF = Fraction(1, 2)


def test_fresh_samples_cost_the_product():
    """Each round has its own sample, so its own charge; charged once, they would promise too much."""
    plans = [Subsampling(HALF, Fraction(3), "add_remove")] * 2

    def mechanism(records: DataSet, chance: Chance) -> Hashable:
        selection = cover_order_by_samples(incidence(records, 2), 4, plans, chance, 1)
        assert selection.event.event == ComposedEvent((PureDP(Fraction(2)),) * 2)
        return selection.items

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), [(), (0,), (1,), (0, 1)], 1)
    assert found.within(Fraction(4))
    assert found.added > 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2)])
def test_rounds_stay_within_epsilon(epsilon):
    """Epsilons that are split must not add up to more than there was."""
    plans = rounds(60, 40_000, epsilon)
    assert len(plans) == 5
    assert prod(plan.exp_epsilon for plan in plans) <= 1 / Fraction(exp_neg(epsilon, 200)[0], 1 << 200)
    assert [plan.rate for plan in plans] == sorted(plan.rate for plan in plans)
    assert rounds(60, 1000, epsilon) == []


def test_printed_constants_leave_the_order_as_it_was():
    """That the printed thresholds are out of reach is why the order is not shipped as the one to use."""
    data = incidence([(4,)] * 900 + [(2,)] * 100, 5)
    plans, chance = rounds(5, 40_000, Fraction(1)), RealChance(SimulationBits(1))
    assert cover_order_by_samples(data, 40_000, plans, chance).items == (0, 1, 2, 3, 4)
    assert cover_order_by_samples(data, 1000, plans, chance, 1).items[0] == 4
    with pytest.raises(ConfigError, match="constant"):
        cover_order_by_samples(data, 1000, plans, chance, 0)
