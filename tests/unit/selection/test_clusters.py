"""Centres near records: exact ratios, the bound that must be public, and what is found."""

from collections.abc import Hashable
from fractions import Fraction
from math import ceil, log

import numpy as np
import pytest

from topdown.errors import ConfigError, DataError
from topdown.privacy import SimulationBits
from topdown.selection import (
    Chance,
    Clustering,
    DataSet,
    Metric,
    NearestScore,
    RealChance,
    Subsampling,
    centres,
    greedy,
    mechanism_laws,
    poisson_sampler,
    subsampling,
    weighted,
    whole_sample,
    worst_ratios,
)

F = Fraction
LINE = Metric(np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]), 2)


def counts(records: DataSet, points: int = 3) -> np.ndarray:
    """Return how many records are at each point."""
    return np.bincount(np.array(records, dtype=np.int64), minlength=points).astype(np.int64)


@pytest.mark.parametrize("most", [1, 2])
def test_centres_and_counts_are_one_sided(most: int) -> None:
    """Both parts are paid from one sample; a base used twice would be found here."""

    def mechanism(sample: DataSet, chance: Chance) -> Hashable:
        return weighted(counts(sample), LINE, Clustering(1, most), F(3), chance)

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), [0, 1, 2], 1)
    assert 1 < found.added <= 3
    assert worst_ratios(mechanism_laws(mechanism, poisson_sampler(F(1, 2))), [0, 1, 2], 1).within(F(2))


def test_the_whole_choice_keeps_its_event() -> None:
    """What is charged must cover what the shipped code does."""
    plan = Subsampling(F(1, 2), F(3), "add_remove")

    def mechanism(records: DataSet, chance: Chance) -> Hashable:
        return centres(np.array(records, dtype=np.int64), LINE, Clustering(1, 2), plan, chance).items

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), [0, 1, 2], 1)
    assert found.within(plan.exp_epsilon)
    assert found.added > 1


def test_a_private_number_of_rounds_fails() -> None:
    """A list whose length comes from the number of records tells that number."""

    def mechanism(records: DataSet, chance: Chance) -> Hashable:
        kept = tuple(r for r in records if chance.coin(F(1, 2)))
        rounds = min(3, max(0, ceil(2 * log(max(1, len(records))))))
        return greedy(NearestScore(2 - LINE.steps, counts(kept), 2), 3, rounds, F(3), chance)

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), [0, 1, 2], 1)
    assert (found.added, found.removed) == (None, None)


@pytest.mark.parametrize("power", [1, 2])
def test_centres_are_near_the_records(power: int) -> None:
    """Centres that no record decides would be as private, and of no use."""
    places = np.arange(60)
    metric = Metric(np.abs(places[:, None] - places[None, :]), 59)
    generator = np.random.default_rng(5)
    records = np.concatenate([generator.integers(c - 2, c + 3, 1500) for c in (8, 30, 50)])
    chance = RealChance(SimulationBits(2, (power,)))
    sought = Clustering(3, 10_000, power)
    items = centres(records, metric, sought, subsampling(1, "add_remove"), chance).items
    assert pytest.approx(items, abs=2) == [8, 30, 50]


def test_empty_data_takes_the_same_path() -> None:
    """Nobody is a data set like any other."""
    none = np.array([], dtype=np.int64)
    items = centres(
        none, LINE, Clustering(2, 5), subsampling(1, "add_remove"), RealChance(SimulationBits(2))
    ).items
    assert len(set(items)) == 2


def test_invalid_metrics_are_refused() -> None:
    """A distance above the grid makes one record weigh as several."""
    for steps in ([[0, 1], [2, 0]], [[1, 0], [0, 0]], [[0, -1], [-1, 0]], [[0, 3], [3, 0]], [[0, 1]]):
        with pytest.raises(ConfigError):
            Metric(np.array(steps), 2)
    with pytest.raises(ConfigError):
        Metric(np.array([[0.0]]), 2)
    with pytest.raises(ConfigError, match="grid"):
        Metric(np.array([[0, 200], [200, 0]]), 200).costs(2)
    for numbers in ((1, 0), (1, 5, 3)):
        with pytest.raises(ConfigError):
            Clustering(*numbers)
    chance = RealChance(SimulationBits(2))
    for k in (0, 4):
        with pytest.raises(ConfigError, match="k is"):
            centres(np.array([0]), LINE, Clustering(k, 5), subsampling(1, "add_remove"), chance)
    with pytest.raises(DataError, match="point"):
        centres(np.array([3]), LINE, Clustering(1, 5), subsampling(1, "add_remove"), chance)
