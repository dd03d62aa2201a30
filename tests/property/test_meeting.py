"""Counts that bounds fix are those of every population that keeps them, and verify settles them alike."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as budget
from hypothesis import strategies as st

from tests.helpers.changes_brute import populations
from topdown.model import BOUNDLESS, tighten_bounds
from topdown.verify import CountLimits, propagate_limits

N = 4  # classes
Case = tuple[list[tuple[int, ...]], list[int], list[int | None], list[bool]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw sets of classes, least and most of each at one leaf, and open classes; sets may cross, ends contradict."""
    masks = draw(st.lists(st.integers(1, 2**N - 1), unique=True, min_size=1, max_size=4))
    sets = [tuple(c for c in range(N) if mask >> c & 1) for mask in masks]
    low = [draw(st.integers(0, 2)) for _ in sets]
    high = [draw(st.one_of(st.none(), st.integers(0, 4))) for _ in sets]
    return sets, low, high, draw(st.lists(st.booleans(), min_size=N, max_size=N))


def closed(case: Case) -> list[bool]:
    """Return the open classes less those of which nobody is the most."""
    sets, _, high, is_open = case
    none = {c for s, h in zip(sets, high, strict=True) if h == 0 for c in s}
    return [o and c not in none for c, o in enumerate(is_open)]


def arrays(case: Case):
    """Return what `meet` and `settle` are given for one leaf."""
    sets, low, high, _ = case
    marks = np.array([[c in s for c in range(N)] for s in sets])
    is_open = np.array([closed(case)])
    return marks, np.array([low]), np.array([[BOUNDLESS if h is None else h for h in high]]), is_open


def linked(sets: list[tuple[int, ...]], one: int) -> list[int]:
    """Return the sets that hang together with one by shared classes."""
    found = {one}
    while True:
        more = {i for i, s in enumerate(sets) if any(set(s) & set(sets[k]) for k in found)}
        if more == found:
            return sorted(found)
        found = more


def crosses(sets: list[tuple[int, ...]]) -> bool:
    """Tell whether two sets share a class and neither holds the other."""
    return any(set(a) & set(b) and set(a) - set(b) and set(b) - set(a) for a in sets for b in sets)


@given(case=cases())
@example(
    case=([(0, 1, 2), (0,), (1,)], [0, 1, 2], [3, None, None], [True] * 4)
)  # nothing is left for class 2
@example(case=([(0, 1), (0,), (1,)], [5, 0, 0], [None, 3, 2], [True] * 4))  # the parts limit the whole
@example(
    case=([(0, 1), (1, 2), (0, 2)], [1, 1, 1], [1, 1, 1], [True] * 4)
)  # half a record each: no population
@example(case=([(0, 1), (1, 2)], [1, 1], [3, 3], [True] * 4))  # crossing, with room
@budget(max_examples=400, deadline=None)
def test_fixed_counts_are_those_of_every_population(case: Case) -> None:
    """A count that only one number fits, called free, would let a row promise what arithmetic gives away."""
    sets, low, high, _ = case
    met = tighten_bounds(*arrays(case))
    is_open = closed(case)
    for i, s in enumerate(sets):
        part = linked(sets, i)
        if all(high[k] is None for k in part):
            assert (met.count[0, i], met.alone[0, i]) == (-1, False)
            continue
        kinds = sorted({c for k in part for c in sets[k] if is_open[c]})
        ends = tuple((tuple(c in sets[k] for c in kinds), low[k], high[k]) for k in part)
        found = populations(len(kinds), ends)
        counts = {sum(n for n, c in zip(p, kinds, strict=True) if c in s) for p in found}
        some = {c for p in found for n, c in zip(p, kinds, strict=True) if n}
        if crosses([sets[k] for k in part]):
            if not met.alone[0, i]:  # room: one record more of any open class, from one population
                assert any(_one_more(p, found) for p in found)
                assert (met.count[0, i], met.shut[0, list(s)].any()) == (-1, False)
            continue
        assert (not found) == met.alone[0, i]
        if found:
            assert (counts.pop() if len(counts) == 1 else 0) == max(met.count[0, i], 0)
            assert [c not in some for c in s if is_open[c]] == [bool(met.shut[0, c]) for c in s if is_open[c]]


def _one_more(population: tuple[int, ...], found: tuple[tuple[int, ...], ...]) -> bool:
    return all(
        tuple(n + (k == more) for k, n in enumerate(population)) in found for more in range(len(population))
    )


@given(leaves=st.lists(cases(), min_size=1, max_size=4))
@budget(max_examples=400, deadline=None)
def test_verify_settles_the_same(leaves: list[Case]) -> None:
    """If the two disagreed at a leaf, a good release would fail its own verification, or a bad one pass."""
    sets, _low, _high, _ = leaves[0]
    every = [arrays((sets, *_fitted(case, len(sets)))) for case in leaves]
    marks = every[0][0]
    least, most, is_open = (np.concatenate([e[i] for e in every]) for i in (1, 2, 3))
    capped = (most < BOUNDLESS).any(axis=0)  # as a rule does, a bound speaks of every leaf
    most = np.where(capped & (most == BOUNDLESS), 4, most)
    met = tighten_bounds(marks, least, most, is_open)
    own = propagate_limits(CountLimits(marks, least.T, np.where(most == BOUNDLESS, -1, most).T), is_open)
    assert (np.maximum(met.count, 0) == own.fixed_count.T).all()
    assert (met.alone == own.untouchable.T).all()
    assert (met.shut & is_open).tolist() == (own.emptied & is_open).tolist()


def _fitted(case: Case, n: int):
    _, low, high, is_open = case
    return (low * n)[:n], (high * n)[:n], is_open


@pytest.mark.parametrize("n_sets", [1, 3])
def test_the_largest_numbers_add_up(n_sets: int) -> None:
    """Facts as large as files may hold must not wrap around into bounds that seem to meet."""
    large = 10**6 * (2**31 - 1)
    sets = np.eye(4, dtype=bool)[:n_sets] if n_sets > 1 else np.ones((1, 4), dtype=bool)
    sets = np.concatenate([sets, np.ones((1, 4), dtype=bool)]) if n_sets > 1 else sets
    low = np.full((1, len(sets)), large)
    low[0, -1] = 0 if n_sets > 1 else large
    high = np.full((1, len(sets)), BOUNDLESS)
    high[0, -1] = n_sets * large
    met = tighten_bounds(sets, low, high, np.ones((1, 4), dtype=bool))
    own = propagate_limits(
        CountLimits(sets, low.T, np.where(high == BOUNDLESS, -1, high).T), np.ones((1, 4), dtype=bool)
    )
    assert n_sets * large == met.count[0, -1] == own.fixed_count[-1, 0]
    assert (np.where(own.fixed_count > 0, own.fixed_count, -1) == met.count.T).all()
