"""Records counted by area: the same choices as with a pair for each record and item, and no number too large."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.privacy import RELATIONS, SimulationBits
from topdown.selection import (
    AREAS,
    BASE,
    RATE,
    Districts,
    Effort,
    FoundRatio,
    Incidence,
    RealChance,
    Residents,
    Subsampling,
    check_selection,
    choice_law,
    cover_order,
    cover_order_by_choices,
    incidence,
    incidence_of_pairs,
    max_cover,
    mechanism,
    multi_cover,
    partial_cover,
    sites_by_district,
)

PLAN = Subsampling(Fraction(1, 2), Fraction(3), "add_remove")
CHOICES = {
    "cover": lambda d, c: max_cover(d, 2, PLAN, c).items,
    "twice": lambda d, c: multi_cover(d, 2, 2, PLAN, c).items,
    "order": lambda d, c: cover_order(d, 40, PLAN, c).items,
    "by choices": lambda d, c: cover_order_by_choices(d, PLAN, c).items,
    "partial": lambda d, c: partial_cover(d, Fraction(1, 2), 40, PLAN, c).items,
    "districts": lambda d, c: sites_by_district(d, Districts((0, 0, 1), 2), PLAN, c, Effort(2, 2, 9)).items,
}


def one_by_one(data: Residents) -> Incidence:
    """Return the same with a pair for each record and item: the slow twin."""
    covering = np.repeat(np.arange(data.items), np.diff(data.areas.starts))
    people = np.split(np.arange(data.n_records), np.cumsum(data.counts)[:-1])
    pairs = [
        (record, item)
        for item, area in zip(covering, data.areas.records, strict=True)
        for record in people[area]
    ]
    records, items = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return incidence_of_pairs(records, items, data.n_records, data.items)


coverage = st.lists(st.lists(st.integers(0, 2), max_size=3), min_size=1, max_size=6)


@pytest.mark.parametrize("name", CHOICES)
@settings(max_examples=25, deadline=None)
@given(covered=coverage, counts=st.lists(st.integers(0, 9), min_size=6, max_size=6), seed=st.integers(0, 99))
def test_areas_choose_like_records_one_by_one(name, covered, counts, seed):
    """A record that is counted in another area, or twice, would be kept by another's flag."""
    data = Residents(incidence(covered, 3), np.array(counts[: len(covered)]))
    found = [CHOICES[name](d, RealChance(SimulationBits(seed))) for d in (data, one_by_one(data))]
    assert found[0] == found[1]


@pytest.mark.parametrize("lived", list(product((0, 1), repeat=3)))
def test_areas_have_the_law_of_records(lived):
    """Equal draws for one seed say nothing of how likely each is."""
    data = Residents(incidence([(0,), (1, 2), ()], 3), np.array(lived))
    laws = [choice_law(lambda c, d=d: CHOICES["cover"](d, c)) for d in (data, one_by_one(data))]
    assert laws[0] == laws[1]


def test_too_many_pairs_to_number_are_refused():
    """A pair's number that wraps around becomes another pair, without a word."""
    records, items = np.array([0, 2**40 - 1]), np.array([0, 2**23 - 1])
    with fails_with("C192", ConfigError, match="64 bits"):
        incidence_of_pairs(records, items, 2**40, 2**23)


def test_the_self_check_holds_and_can_fail():
    """A check of all shipped choices that passes whatever they do, or leaves one out, is worth nothing."""
    found = check_selection()
    assert len(found) == 5 * len(RELATIONS)
    assert all(row.holds and row.worst > 1 for row in found)
    promised = {row.neighbours: row.promised for row in found}
    assert promised == {"add_remove": 2, "bounded": 4}
    assert not FoundRatio("sites", "add_remove", Fraction(3), Fraction(2)).holds
    assert not FoundRatio("sites", "add_remove", None, Fraction(2)).holds
    wasteful = Subsampling(
        RATE, Fraction(4), "add_remove"
    )  # promises 5/2, not the 2 of the base that it should have
    run = mechanism("order by thresholds", wasteful)
    laws = [choice_law(lambda c, d=d: run(d, c)) for d in ((), (AREAS[-1],))]
    assert max(laws[1][o] / laws[0][o] for o in laws[0]) > 1 + RATE * (BASE - 1)


def test_the_order_that_is_checked_is_the_one_of_a_command_without_a_bound():
    """An order by choices, the usual one, was not checked, and the screen spoke of the shipped code."""
    people = (AREAS[1], AREAS[3])
    lived = Residents(incidence(((), (0,), (1, 2), (0, 1, 2)), 3), np.bincount(people, minlength=4))
    laws = [
        choice_law(lambda c: cover_order_by_choices(lived, PLAN, c).items),
        choice_law(lambda c: cover_order(lived, 4, PLAN, c).items),
    ]
    forms = [
        choice_law(lambda c, n=n: mechanism(n, PLAN)(people, c)) for n in ("order", "order by thresholds")
    ]
    assert laws == forms
    assert laws[0] != laws[1]
