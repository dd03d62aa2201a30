"""Frequent symbols: exact ratios, the cap, thresholds in closed form, and what is found."""

from collections.abc import Hashable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from topdown.errors import ConfigError, DataError
from topdown.privacy import SimulationBits
from topdown.selection import (
    Chance,
    DataSet,
    Monitor,
    Ratios,
    RealChance,
    Subsampling,
    choice_law,
    frequent,
    mechanism_laws,
    poisson_sampler,
    subsampling,
    surely_heavy,
    threshold_for,
    watched,
    whole_sample,
    worst_ratios,
)

F = Fraction
STREAMS = list(product(range(2), repeat=2))


def columns(people: DataSet, n_steps: int = 2) -> list[np.ndarray]:
    """Return the symbols of all people, step by step."""
    return [np.array([stream[s] for stream in people], dtype=np.int64) for s in range(n_steps)]


def watching(cap: int, base: Fraction):
    """Return the monitor of a sample as the auditor wants it."""

    def mechanism(people: DataSet, chance: Chance) -> Hashable:
        left = np.full(len(people), cap, dtype=np.int64)
        return tuple(watched(columns(people), left, Monitor(2, cap, 2), base, chance))

    return mechanism


@pytest.mark.parametrize(
    ("base", "sampled"), [(2, Ratios(F(3, 2), F(286, 155))), (3, Ratios(F(2), F(550, 293)))]
)
def test_streams_have_their_known_ratios(base: int, sampled: Ratios) -> None:
    """Any other weights, or a person counted after the cap, gives other fractions."""
    law = mechanism_laws(watching(1, F(base)), poisson_sampler(F(1, 2)))
    assert sampled == worst_ratios(law, STREAMS, 3)
    assert worst_ratios(mechanism_laws(watching(1, F(base)), whole_sample), STREAMS, 1) == Ratios(
        F(base), None
    )


def test_a_cap_of_two_costs_two_parts() -> None:
    """Two reports of one person at the price of one would double the loss."""
    found = worst_ratios(mechanism_laws(watching(2, F(17, 10)), whole_sample), STREAMS, 2)
    assert F(289, 100) == found.added
    assert found.removed is None


def test_the_whole_stream_keeps_its_event() -> None:
    """Flags drawn anew at each step would charge a person at each step."""
    plan = Subsampling(F(1, 2), F(3), "add_remove")

    def mechanism(people: DataSet, chance: Chance) -> Hashable:
        return tuple(frequent(columns(people), len(people), Monitor(2, 2, 2), plan, chance))

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), STREAMS, 1)
    assert found.within(plan.exp_epsilon)
    assert found.added > 1


@pytest.mark.parametrize("weight", [0, 1, 3])
def test_a_report_has_its_closed_form(weight: int) -> None:
    """Thresholds are derived from this probability; a wrong one promises too few false reports."""
    plan, monitor = Subsampling(F(1, 3), F(3), "add_remove"), Monitor(1, 1, 3)
    steps = [np.zeros(weight, dtype=np.int64)]
    law = choice_law(lambda chance: tuple(frequent(steps, weight, monitor, plan, chance)))
    assert law[((0,),)] == F(1, 27) * (1 - F(1, 3) + F(1, 3) * 3) ** weight


@pytest.mark.parametrize(
    ("light", "threshold", "heavy"), [(0, 14, 64), (20, 28, 96), (100, 84, 209), (420, 309, 619)]
)
def test_thresholds_of_the_table(light: int, threshold: int, heavy: int) -> None:
    """A threshold too low reports what nobody has more often than it is said to."""
    plan, reports = subsampling(1, "add_remove"), 6 * 50 / F(1, 20)
    found = threshold_for(light, reports, 2, plan)
    assert threshold == found
    assert abs(heavy - surely_heavy(found, reports, plan)) <= 2


def test_heavy_symbols_are_found_and_others_are_not() -> None:
    """What is watched for must be reported, and no person may be in more reports than the cap."""
    generator = np.random.default_rng(2)
    steps = []
    for s in range(4):
        values = generator.integers(-1, 400, 6000)
        values[1000 * s : 1000 * s + 1000] = 7 + s
        steps.append(values)
    plan = subsampling(1, "add_remove")
    reports = 4 * 400 * F(10**6)
    threshold = threshold_for(50, reports, 2, plan)
    assert surely_heavy(threshold, reports, plan) < 1000
    chance = RealChance(SimulationBits(3))
    found = list(frequent(steps, 6000, Monitor(400, 2, threshold), plan, chance))
    assert found == [(7,), (8,), (9,), (10,)]
    again = [steps[0]] * 4
    assert list(frequent(again, 6000, Monitor(400, 2, threshold), plan, chance)) == [(7,), (7,), (), ()]


def test_empty_symbols_are_reported_at_their_rate() -> None:
    """Symbols of nobody that never appear tell that a reported one is somebody's."""
    plan = Subsampling(F(1, 2), F(3), "add_remove")
    steps = [np.full(5, 3, dtype=np.int64)] * 300
    found = list(frequent(steps, 5, Monitor(100, 1, 3), plan, RealChance(SimulationBits(8))))
    counts = np.bincount([symbol for step in found for symbol in step], minlength=100)
    assert counts.min() >= 1
    assert abs(counts.sum() - 300 * 100 / 27) < 200
    assert all(list(step) == sorted(set(step)) for step in found)


def test_nobody_takes_the_same_path() -> None:
    """No people is a data set like any other."""
    plan = subsampling(1, "add_remove")
    none = [np.array([], dtype=np.int64)] * 3
    assert len(list(frequent(none, 0, Monitor(50, 2, 3), plan, RealChance(SimulationBits(8))))) == 3


def test_invalid_streams_are_refused() -> None:
    """A symbol outside the public alphabet would be reported as one that exists."""
    plan, chance = subsampling(1, "add_remove"), RealChance(SimulationBits(1))
    for values in ([2], [-2], [0, 0]):
        with pytest.raises(DataError, match="step"):
            list(frequent([np.array(values)], 1, Monitor(2, 1, 1), plan, chance))
    for numbers in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1.5)):
        with pytest.raises(ConfigError):
            Monitor(*numbers)
