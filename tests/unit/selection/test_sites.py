"""Sites and orders: exact ratios of the shipped code, and that the choice is the one that was asked for."""

from collections.abc import Hashable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from tests.helpers.choices import n_covered
from topdown.errors import ConfigError, DataError
from topdown.privacy import SimulationBits
from topdown.privacy.accountant import DiscreteGaussianEvent, Mixture, PureDP, ReleaseEvent
from topdown.selection import (
    Chance,
    CoverScore,
    DataSet,
    NearestScore,
    Ratios,
    RealChance,
    Similarity,
    Subsampling,
    Wanted,
    cover_order,
    cover_order_by_choices,
    first_part,
    incidence,
    incidence_of_pairs,
    mechanism_laws,
    partial_cover,
    poisson_sampler,
    repeated_threshold,
    subsampling,
    whole_sample,
    worst_ratios,
    worst_replacement,
)
from topdown.selection import private_greedy as sites

HALF = Fraction(1, 2)
TYPES = [tuple(i for i in range(3) if bits[i]) for bits in product((0, 1), repeat=3)]
F = Fraction


def chance(*stream: int | str) -> RealChance:
    """Return seeded decisions."""
    return RealChance(SimulationBits(1, stream))


def covering(base: Fraction, k: int = 2):
    """Return the greedy on a sample as the auditor wants it."""
    return lambda sample, chance: sites.greedy(CoverScore(incidence(sample, 3)), 3, k, base, chance)


@pytest.mark.parametrize(
    ("base", "raw", "sampled"),
    [
        (2, Ratios(F(9, 5), F(3)), Ratios(F(199, 152), F(132, 95))),
        (3, Ratios(F(19, 7), F(406, 55)), Ratios(F(1889, 1217), F(36946, 23123))),
    ],
)
def test_max_cover_has_its_known_ratios(base: int, raw: Ratios, sampled: Ratios) -> None:
    """Any other weights, order of rounds or sampling gives other fractions."""
    assert raw == worst_ratios(mechanism_laws(covering(F(base)), whole_sample), TYPES, 2)
    assert sampled == worst_ratios(mechanism_laws(covering(F(base)), poisson_sampler(HALF)), TYPES, 2)


def test_one_round_has_its_known_ratios() -> None:
    """A single choice with monotone scores is two-sided with one base."""
    assert Ratios(F(17, 9), F(33, 17)) == worst_ratios(
        mechanism_laws(covering(F(2), 1), whole_sample), TYPES, 3
    )


@pytest.mark.parametrize(("items", "ratio"), [(4, F(5, 2)), (6, F(21, 5)), (10, F(17, 3))])
def test_rounds_without_a_sample_cost_more_than_one(items: int, ratio: Fraction) -> None:
    """Three useless items are far less likely beside one record, so sampling is what pays for removals."""
    law = mechanism_laws(
        lambda rows, c: sites.greedy(CoverScore(incidence(rows, items)), items, 3, F(2), c), whole_sample
    )
    useless = tuple(range(items - 3, items))
    assert ratio == law(())[useless] / law((tuple(range(items - 3)),))[useless]


def sweep(base: Fraction):
    """Return the sweep of thresholds 3, 2, 1 on a sample."""

    def mechanism(sample: DataSet, chance: Chance) -> Hashable:
        return repeated_threshold(CoverScore(incidence(sample, 3)), [3, 2, 1], 3, base, chance)

    return mechanism


@pytest.mark.parametrize(("base", "added", "replaced"), [(2, F(3, 2), 3), (3, F(2), 4)])
def test_the_sweep_of_thresholds_has_its_known_ratios(base: int, added: Fraction, replaced: int) -> None:
    """By itself it is one-sided only; a sample makes it exactly as private as the theorem says."""
    raw, sampled = (
        mechanism_laws(sweep(F(base)), sampler) for sampler in (whole_sample, poisson_sampler(HALF))
    )
    assert Ratios(F(base), None) == worst_ratios(raw, TYPES, 1)
    assert Ratios(added, F(2)) == worst_ratios(sampled, TYPES, 1)
    assert replaced == worst_replacement(sampled, TYPES, 1)


def test_stops_are_one_sided() -> None:
    """A stop that looks at the true number of records cannot be charged for: it is not monotone."""

    def mechanism(sample: DataSet, chance: Chance) -> Hashable:
        wanted = Wanted(F(9, 10), 3, 0)
        return first_part(incidence(sample, 2), len(sample), wanted, F(2), chance)

    found = worst_ratios(mechanism_laws(mechanism, whole_sample), [(), (0,), (0, 1)], 1)
    assert 1 < found.added <= 8


def test_candidates_that_records_decide_fail() -> None:
    """A candidate that is offered only where somebody needs it tells that somebody does."""

    def mechanism(sample: DataSet, chance: Chance) -> Hashable:
        offered = [i for i in range(3) if any(i in r for r in sample)] or [0]
        return offered[chance.choose([sum(i in r for r in sample) for i in offered], F(2))]

    assert worst_ratios(mechanism_laws(mechanism, poisson_sampler(HALF)), TYPES, 1).added is None


def similarity(records: DataSet) -> Similarity:
    """Return how near three items are to records: 2 where they cover, 1 next to item 1 for all that it does not."""
    rows = [[2 if i in r else int(i == 1) for i in range(3)] for r in records]
    return Similarity(np.array(rows, dtype=np.int64).reshape(-1, 3), 2)


SIMPLE = {
    "max_cover": lambda d, p, c: sites.max_cover(incidence(d, 3), 2, p, c),
    "multi_cover": lambda d, p, c: sites.multi_cover(incidence(d, 3), 2, 2, p, c),
    "facility_location": lambda d, p, c: sites.facility_location(similarity(d), 2, p, c),
    "cover_order": lambda d, p, c: cover_order(incidence(d, 3), 4, p, c),
    "cover_order_by_choices": lambda d, p, c: cover_order_by_choices(incidence(d, 3), p, c),
    "partial_cover": lambda d, p, c: partial_cover(incidence(d, 3), HALF, 2, p, c),
}


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("neighbours", ["add_remove", "bounded"])
def test_every_selection_keeps_its_event(name: str, neighbours: str) -> None:
    """What is charged must cover what the shipped code does, its own sampling included."""
    plan = Subsampling(HALF, F(3), neighbours)
    types = [(), (0,), (1, 2)] if name == "partial_cover" else [(), (0,), (1, 2), (0, 1, 2)]
    paid = []

    def mechanism(records: DataSet, chance: Chance) -> Hashable:
        selection = SIMPLE[name](records, plan, chance)
        paid.append(selection.event)
        return selection.items

    law = mechanism_laws(mechanism, whole_sample)
    if neighbours == "bounded":
        assert 1 < worst_replacement(law, types, 0) <= plan.exp_epsilon
    else:
        found = worst_ratios(law, types, 1)
        assert found.within(plan.exp_epsilon)
        assert found.added > 1
    assert {ReleaseEvent(neighbours, PureDP(plan.exp_epsilon))} == set(paid)


@pytest.mark.parametrize("name", SIMPLE)
def test_empty_data_takes_the_same_path(name: str) -> None:
    """A message or a shorter answer for nobody would tell that there is nobody."""
    selection = SIMPLE[name]((), subsampling("1/2", "add_remove"), chance(name))
    assert {0, 1, 2} >= set(selection.items)
    assert len(selection.items) == len(set(selection.items)) > 0


def test_orders_are_permutations() -> None:
    """An item left out of an order leaves the records that only it covers without any."""
    data = incidence([(0,), (1, 2), (), (4,)] * 30, 5)
    for order in (
        cover_order(data, 200, subsampling("2", "add_remove"), chance("sweep")).items,
        cover_order_by_choices(data, subsampling("2", "add_remove"), chance("choices")).items,
        sites.max_cover(data, 5, subsampling("2", "add_remove"), chance("all")).items,
    ):
        assert sorted(order) == [0, 1, 2, 3, 4]


def best(data, k: int) -> int:
    """Return the most records that k items cover."""
    return max(n_covered(data, chosen) for chosen in combinations(range(data.items), k))


def test_the_expected_cover_is_near_the_best() -> None:
    """Weights that are no powers of the base would choose like chance, and stay as private."""
    generator = np.random.default_rng(3)
    for _ in range(4):
        data = incidence([tuple(np.flatnonzero(generator.random(4) < 0.3)) for _ in range(12)], 4)
        law = mechanism_laws(lambda _, c, d=data: sites.greedy(CoverScore(d), 4, 2, F(3), c), whole_sample)(
            ()
        )
        expected = sum(p * n_covered(data, chosen) for chosen, p in law.items())
        assert expected >= 0.75 * best(data, 2) - 2 * np.log(4) / np.log(3)
        greedy = max(sites.greedy(CoverScore(data), 4, 2, F(10**12), chance(i)) for i in range(1))
        assert n_covered(data, greedy) >= 0.75 * best(data, 2)


def test_gains_are_what_an_item_adds() -> None:
    """A gain counted for records that are covered already would choose the same place twice."""
    data = incidence([(0, 1), (1,), (1, 2), (2,), ()], 3)
    cover, twice = CoverScore(data), CoverScore(data, 2)
    nearest = NearestScore(np.array([[5, 3], [0, 4]]), np.array([2, 1]), 5)
    assert [s.gains().tolist() for s in (cover, twice, nearest)] == [[1, 3, 2], [1, 3, 2], [10, 10]]
    for score in (cover, twice, nearest):
        score.take(1)
    assert [s.gains().tolist() for s in (cover, twice, nearest)] == [[0, 0, 1], [1, 3, 2], [4, 0]]
    assert (cover.covered, twice.covered) == (3, 0)


def test_records_that_are_not_kept_cover_nothing() -> None:
    """A record outside the sample that still counts would be charged for nothing."""
    sample = incidence([(0, 1), (1,), (1, 2)], 3).sampled(np.array([False, True, False]))
    assert CoverScore(sample).gains().tolist() == [0, 1, 0]


def test_pairs_are_counted_once() -> None:
    """A record that names an item twice would weigh as two."""
    pairs = incidence_of_pairs(np.array([0, 0, 1]), np.array([1, 1, 0]), 2, 2)
    assert CoverScore(pairs).gains().tolist() == [1, 1]
    assert CoverScore(incidence([(1, 1), (0,)], 2)).gains().tolist() == [1, 1]


def test_invalid_input_is_refused() -> None:
    """What is accepted silently would give an answer that means something else."""
    data, plan = incidence([(0,)], 2), subsampling("1", "add_remove")
    for k in (0, 3, 1.0, True, None):
        with pytest.raises(ConfigError, match="k is"):
            sites.max_cover(data, k, plan, chance())
    for share in (0.5, Fraction(0), Fraction(1)):
        with pytest.raises(ConfigError, match="share"):
            partial_cover(data, share, 5, plan, chance())
    with pytest.raises(ConfigError, match="public bound"):
        cover_order(data, 0, plan, chance())
    with pytest.raises(DataError, match="item"):
        incidence([(2,)], 2)
    with pytest.raises(DataError, match="record"):
        incidence_of_pairs(np.array([1]), np.array([0]), 1, 2)
    with pytest.raises(ConfigError, match="no items"):
        incidence([], 0)
    for values in (np.array([[3]]), np.array([[-1]]), np.array([[0.5]])):
        with pytest.raises(DataError, match="whole number"):
            Similarity(values, 2)
    with pytest.raises(ConfigError, match="grid"):
        Similarity(np.array([[0]]), 0)


def test_partial_covers_stop_early() -> None:
    """A walk that never stops lists all items, and helps nobody."""
    data = incidence([(i % 3,) for i in range(3000)], 12)
    chosen = partial_cover(
        data, Fraction(3, 5), 10_000, subsampling("2", "add_remove"), chance("partial")
    ).items
    assert len(chosen) == 2
    assert set(chosen) < {0, 1, 2}


def test_events_compose_with_a_release() -> None:
    """A selection that an accountant cannot add to a release would be charged beside it, or not at all."""
    plan = subsampling("1/10", "bounded")
    data = incidence([(0,), (1,)], 2)
    bought = [sites.max_cover(data, 1, plan, chance(i)).event for i in range(2)]
    noise = DiscreteGaussianEvent(F(10_000))
    assert [PureDP(plan.exp_epsilon)] * 2 == [event.event for event in bought]
    assert Mixture((event, 1) for event in (bought[0].event, bought[1].event, noise)).delta(0).upper < 1
    assert {"bounded"} == {event.neighbours for event in bought}


def test_equal_seeds_choose_equally() -> None:
    """A simulation that cannot be repeated cannot be examined."""
    data = incidence([(i % 7, i % 5) for i in range(100)], 7)
    one, other = (
        sites.max_cover(data, 4, subsampling("1/10", "add_remove"), chance("s")).items for _ in range(2)
    )
    assert one == other
