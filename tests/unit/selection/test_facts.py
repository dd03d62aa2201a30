"""Known facts of the loop of choices: what it costs without a sample, its two limits, and its utility exactly."""

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

from tests.helpers.choices import n_covered
from topdown.privacy import SimulationBits
from topdown.selection import (
    CoverScore,
    Monitor,
    RealChance,
    Subsampling,
    choice_law,
    cover_order,
    frequent,
    greedy,
    incidence,
    max_cover,
    subsampling,
)

F = Fraction


def greedy_law(data, k: int, base: Fraction) -> dict:
    """Return the law of k choices on all records."""
    return choice_law(lambda chance: greedy(CoverScore(data), data.items, k, base, chance))


def lone(items: int, base: float, rounds: int) -> float:
    """Return the ratio of all useless items between nobody and one record that all others cover, in closed form."""
    found = 1.0
    for i in range(1, rounds + 1):
        found *= (base * (items - rounds) + rounds - i + 1) / (items - i + 1)
    return found


@pytest.mark.parametrize("items", [4, 6, 10])
def test_the_closed_form_of_lone_records_is_that_of_the_code(items):
    """The form says how far the loop is from two-sided; it grows with the items towards base^rounds."""
    useless = tuple(range(items - 3, items))
    ratio = greedy_law(incidence([], items), 3, F(2))[useless]
    ratio /= greedy_law(incidence([tuple(range(items - 3))], items), 3, F(2))[useless]
    assert float(ratio) == pytest.approx(lone(items, 2, 3))
    assert lone(items, 2, 3) < lone(items + 1, 2, 3) < 8


def test_the_printed_example_exceeds_its_epsilon():
    """Fourteen items at epsilon 1/2 a round must tell more than e^1.2, or sampling would not be needed."""
    assert np.exp(1.2) < lone(14, np.exp(0.5), 3)
    assert lone(14, np.exp(0.5), 3) == pytest.approx(3.73, abs=0.005)


def test_the_limits_of_the_base_are_greedy_and_chance():
    """Weights that did not become equal, or did not prefer the best, would not be powers of gains."""
    data = incidence([(0,)] * 4 + [(1,)] * 2 + [(0, 2)], 3)
    best = greedy_law(data, 2, F(10**9))
    assert best[(0, 1)] > 1 - F(1, 10**8)
    even = greedy_law(data, 2, 1 + F(1, 10**12))
    assert set(even) == set(permutations(range(3), 2))
    assert all(abs(p - F(1, 6)) < F(1, 10**10) for p in even.values())


def test_the_expected_cover_keeps_the_bound_of_three_rounds():
    """The guarantee is proved for every data set: one below it means other weights."""
    generator = np.random.default_rng(5)
    for _ in range(6):
        rows = [tuple(np.flatnonzero(generator.random(5) < 0.3)) for _ in range(10)]
        data = incidence(rows, 5)
        law = greedy_law(data, 3, F(3))
        expected = float(sum(p * n_covered(data, chosen) for chosen, p in law.items()))
        optimum = max(n_covered(data, chosen) for chosen in combinations(range(5), 3))
        assert expected >= (1 - (2 / 3) ** 3) * optimum - 3 * np.log(5) / np.log(3)


def test_orders_use_no_more_items_than_there_are_or_records_need():
    """An order has all items once, so each record that can be covered is, by at most one item a record."""
    data = incidence([(3,), (1, 3), (), (5,)], 6)
    plan = subsampling("1", "add_remove")
    for seed in range(10):
        order = cover_order(data, 10, plan, RealChance(SimulationBits(seed))).items
        score, used = CoverScore(data), 0
        for item in order:
            used += int(score.gains()[item] > 0)
            score.take(item)
        assert used <= 3
        assert score.covered == 3
    everything = max_cover(data, 6, plan, RealChance(SimulationBits(1))).items
    assert n_covered(data, everything) == 3


def test_nobody_is_in_more_reports_than_the_cap():
    """A person counted once more than was paid for costs more than the base."""
    plan, alone = Subsampling(1 - F(1, 10**9), F(3), "add_remove"), [np.array([2])] * 5
    found = list(frequent(alone, 1, Monitor(3, 2, 1), plan, RealChance(SimulationBits(2))))
    paid = [step for step in found if 2 in step]
    assert paid[:2] == found[:2]
    law = choice_law(lambda c: tuple(frequent([np.array([0])] * 3, 1, Monitor(1, 1, 1), plan, c)))
    for reports, probability in law.items():
        if reports[0] == (0,) and reports[1:] == ((0,), (0,)):
            assert probability <= F(1, 9) + F(1, 10**8)  # afterwards it is noise that reports it
