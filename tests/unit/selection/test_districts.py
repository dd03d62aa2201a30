"""Sites by district: limits kept, rounding fair, growth one-sided."""

from collections.abc import Hashable
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest

from topdown.errors import ConfigError
from topdown.privacy import SimulationBits
from topdown.selection import (
    Chance,
    DataSet,
    Districts,
    Effort,
    FractionalCoverScore,
    RealChance,
    Subsampling,
    choice_law,
    chosen_by_district,
    grown,
    incidence,
    mechanism_laws,
    sites_by_district,
    subsampling,
    swap_round,
    whole_sample,
    worst_ratios,
)

F = Fraction
TYPES = [(0,), (0, 2), (0, 1, 2, 3)]
TWO = Districts((0, 0, 1, 1), 2)


def test_limits_of_districts() -> None:
    """A second site of a district, or a site too many, is not what was asked for."""
    assert TWO.allowed((1,)) == [2, 3]
    assert TWO.allowed((1, 2)) == []
    assert TWO.independent((0, 3))
    assert not TWO.independent((2, 3))
    assert not Districts((0, 1, 2), 2).independent((0, 1, 2))
    assert [TWO.rank, Districts((0, 0, 0), 3, 2).rank, Districts((0, 0, 1), 1).rank] == [2, 2, 1]


def test_growth_is_one_sided() -> None:
    """Gains of fractions that add up to more than a record would cost more than the base."""
    base = F(2)

    def mechanism(sample: DataSet, chance: Chance) -> Hashable:
        return tuple(grown(incidence(sample, 4), TWO, Effort(2, 1, 8), base, chance))

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), TYPES, 1)
    assert 1 < found.added <= base
    assert found.removed > base


def test_the_whole_choice_keeps_its_event() -> None:
    """Growth and last choice share one sample, so each may use only its part."""
    plan = Subsampling(F(1, 2), F(3), "add_remove")

    def mechanism(records: DataSet, chance: Chance) -> Hashable:
        data = incidence(records, 4)
        return sites_by_district(data, TWO, plan, chance, Effort(1, 2, 4)).items

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), TYPES, 1)
    assert found.within(plan.exp_epsilon)
    assert found.added > 1


class Logged:
    """Decisions of another chance, and the bases that choices were weighted with."""

    def __init__(self, inner: Chance) -> None:
        self.inner, self.bases = inner, []

    def __getattr__(self, name: str) -> object:
        """Return a decision of the other."""
        return getattr(self.inner, name)

    def choose(self, scores: list[int], base: Fraction) -> int:
        """Choose like the other."""
        self.bases.append(base)
        return self.inner.choose(scores, base)


def test_growth_and_choice_share_the_base() -> None:
    """Each part may use its half; a sum above the base is not seen in the sites that come out."""
    chance = Logged(RealChance(SimulationBits(6)))
    chosen_by_district(incidence(TYPES, 4), TWO, F(3), chance, Effort(2, 3, 10))
    growing, last = set(chance.bases[:-1]), chance.bases[-1]
    assert len(chance.bases) == 2 * 2 + 1
    assert F(3) * (1 - F(1, 10**9)) < growing.pop() ** 10 * last <= 3
    assert not growing


def test_fractions_follow_the_closed_form() -> None:
    """A gain other than the coverage's would grow the wrong items."""
    rows = [(0, 1), (1,), (0, 2, 3), ()]
    score, steps = FractionalCoverScore(incidence(rows, 4), 2, 64), [0, 0]
    taken = [0, 1, 1, 2, 0]
    open_before = 64 * 4
    for n_taken, item in enumerate(taken):
        gain = score.gains()[item]
        score.take(item)
        y = [F(taken[: n_taken + 1].count(i), len(steps)) for i in range(4)]
        open_after = sum(64 * prod((1 - y[i] for i in row), start=F(1)) for row in rows)
        assert gain == open_before - open_after
        open_before = open_after


def test_rounding_keeps_the_limits_and_the_cover() -> None:
    """A rounding that favours some items loses coverage that the fractions had."""
    rows = [(0, 2), (1, 3), (0, 3), (1,), (2,), (1, 2)]
    bases = [(0, 2), (1, 3), (1, 2)]
    law = choice_law(lambda chance: swap_round(bases, TWO, chance))
    y = [F(sum(i in b for b in bases), 3) for i in range(4)]
    assert all(TWO.independent(items) and len(items) == 2 for items in law)
    assert y == [sum(p for items, p in law.items() if i in items) for i in range(4)]
    rounded = sum(p * sum(bool(set(row) & set(items)) for row in rows) for items, p in law.items())
    assert rounded >= sum(1 - prod(1 - y[i] for i in row) for row in rows)


def test_good_sites_are_chosen() -> None:
    """A choice that no record decides would be as private, and of no use."""
    generator = np.random.default_rng(4)
    rows = [tuple(np.flatnonzero(generator.random(12) < 0.12)) for _ in range(4000)]
    districts = Districts(tuple(i // 3 for i in range(12)), 4)
    data = incidence(rows, 12)
    items = sites_by_district(
        data, districts, subsampling(1, "add_remove"), RealChance(SimulationBits(6))
    ).items

    def covered(chosen: tuple[int, ...]) -> int:
        return sum(bool(set(row) & set(chosen)) for row in rows)

    allowed = [c for c in combinations(range(12), 4) if districts.independent(c)]
    assert items in allowed
    assert covered(items) >= 0.97 * max(map(covered, allowed))


def test_empty_data_and_wrong_districts() -> None:
    """Nobody is a data set like any other; an item without a district has no limit."""
    chance = RealChance(SimulationBits(6))
    assert len(sites_by_district(incidence([], 4), TWO, subsampling(1, "add_remove"), chance).items) == 2
    with pytest.raises(ConfigError):
        sites_by_district(incidence([], 5), TWO, subsampling(1, "add_remove"), chance)
    for numbers in (((), 1), ((0,), 2), ((0,), 0), ((0, 1), 1, 0)):
        with pytest.raises(ConfigError):
            Districts(*numbers)
    for effort in ((0, 1), (1, 0), (101, 1), (1, 1, 0)):
        with pytest.raises(ConfigError):
            Effort(*effort)
