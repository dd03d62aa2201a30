"""Families that are solved in one compiled call, against the general way, which takes every split."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import policies, solved
from tests.helpers.depth import repeats
from tests.helpers.random_census import make_random_census
from tests.helpers.solved import solve_answers
from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.resources import load_source
from topdown.solve import Solved, Tally, TopDownSolver, is_sound, solve_family

SIZES = st.sampled_from([0.0, 0.3, 3.0, 30.0])  # of the noise, against the planned one
# Places of arguments of `solve_family`.
BOUND_OF_CELL, TOTAL_WEIGHTS, COUNTS = 6, 14, 16
OPEN, LOWER, MEASURED, FIRST, ANSWERS = 17, 18, 19, 20, 21
Family = tuple[Any, ...]


@contextmanager
def families_by(solve_family: Callable[..., Any]) -> Iterator[list[tuple[Family, Any]]]:
    """Give families to another function; yields each with what came of it."""
    seen: list[tuple[Family, Any]] = []

    def watched(*family: Any) -> Any:
        seen.append((family, solve_family(*family)))
        return seen[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{TopDownSolver.__module__}.solve_family", watched)
        yield seen


def nothing(*family: Any) -> None:
    """Send every family the general way."""
    del family


def solve_all(
    census: solved.Census, seed: int, size: float
) -> tuple[Solved, list[tuple[float, int, bool, str]]]:
    """Solve a census from noisy answers; returns also what was tallied of every split, in order."""
    exact, tables, splits = policies.exact_values(census), policies.exact_tables(census), []
    level_tally = type(Tally().level("any"))
    add = level_tally.add

    def tallied(tally: Any, fit: Any, rounded: Any) -> None:
        splits.append((fit.residual_persons, fit.iterations, rounded.optimal, rounded.route))
        add(tally, fit, rounded)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level_tally, "add", tallied)
        result = solve_answers(census.context, solved.noisy(census, seed, size=size), exact, tables=tables)
    return result, splits


def check_equal(census: solved.Census, seed: int, size: float, solve_family: Callable[..., Any]) -> int:
    """Fail unless families solved at once are those of the general way, to the last bit; return how many there are."""
    with families_by(nothing):
        general, splits = solve_all(census, seed, size)
    with families_by(solve_family) as seen:
        at_once, their_splits = solve_all(census, seed, size)
    assert their_splits == splits
    solved.check_same(at_once, general)
    return sum(found is not None for _, found in seen)


@given(st.integers(0, 10_000_000), SIZES, st.booleans())
@settings(max_examples=repeats(25, 200), deadline=None)
def test_families_at_once_are_those_of_the_general_way(seed: int, size: float, plain: bool) -> None:
    """Closed cells, bounds that bind or do not, exact tables, areas of nobody: one table, one distance, one proof."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            census = make_random_census(Path(folder), seed, plain=plain)
        except ConfigError:  # constraints that the plan refuses
            assume(False)
        check_equal(census, seed + 1, size, solve_family)


def test_nearly_all_families_without_exact_tables_are_solved_at_once(tmp_path: Path) -> None:
    """If the call handed all back, releases would be right and slow, and the comparison above empty."""
    families = 0
    for seed in range(4):
        census = solved.make_census(tmp_path / str(seed), seed, n_blocks=30)
        families += check_equal(census, seed, 0.3, solve_family)
    assert families >= 8  # of 12 counties


def test_the_compiled_call_does_what_its_source_says(tmp_path: Path) -> None:
    """Machines with and without a compiler must publish the same table."""
    name = solve_family.__module__
    file = Path(str(import_module(name).__file__))
    source = load_source(name, file.with_name("kernels_family.py"))
    assert check_equal(solved.make_census(tmp_path, 3), 4, 0.3, source.solve_family)


def families(folder: Path) -> list[Family]:
    """Return families that are solved at once."""
    census = solved.make_census(folder, 3, n_blocks=30)
    with families_by(solve_family) as seen:
        solve_all(census, 4, 0.3)
    return [family for family, found in seen if found is not None]


def changed(family: Family, place: int, value: Any) -> Family:
    """Return a family with another argument."""
    return (*family[:place], value, *family[place + 1 :])


def test_what_is_not_certified_is_handed_back(tmp_path: Path) -> None:
    """Whatever the call cannot prove must go the general way, which solves it or says why there is no table."""
    taken = families(tmp_path)
    assert {len(family[TOTAL_WEIGHTS]) for family in taken} == {0, 1}, "of one pass, and of two"
    for family in taken:
        for place, value in {
            "one child": (MEASURED, family[MEASURED][:1]),
            "a child without answers": (MEASURED, family[MEASURED][1:]),
            "a closed child with answers": (OPEN, np.zeros_like(family[OPEN])),
            "a bound above all": (LOWER, family[LOWER] + family[COUNTS].sum() + 1),
            "no steps": (8, np.array([40, 80, 0])),
            "a target out of reach": (10, -1.0),
        }.values():
            assert solve_family(*changed(family, place, value)) is None
        closed = family[OPEN].copy()
        closed[family[MEASURED][-1] - family[FIRST]] = False  # the last child has answers all the same
        assert solve_family(*changed(family, OPEN, closed)) is None
        fewer = changed(family, MEASURED, family[MEASURED][:-1])  # the last child is open and has no answers
        assert solve_family(*changed(fewer, ANSWERS, family[ANSWERS][:-1])) is None


def test_a_bound_that_binds_is_handed_back(tmp_path: Path) -> None:
    """A rounding may keep a bound that its fit breaks: it would be the rounding of another problem's fit."""
    for family in families(tmp_path):
        nodes, begins, cells, counts = solve_family(*family)[3:]
        held = np.zeros_like(family[LOWER])
        for node, low, high in zip(nodes, begins[:-1], begins[1:], strict=True):
            bound = family[BOUND_OF_CELL][cells[low:high]]
            np.add.at(held[node - family[FIRST]], bound[bound >= 0], counts[low:high][bound >= 0])
        assert held.any()
        assert solve_family(*changed(family, LOWER, held)) is None


def test_a_broken_rounding_is_not_sound() -> None:
    """The last look at a result must see every constraint that it may break."""
    estimate, allowed = np.array([[1.5, 0.5], [0.0, 3.0]]), np.array([[True, True], [False, True]])
    counts, bound, lower = np.array([2, 3]), np.array([0, -1]), np.array([[1, 0]])

    def sound(rounded: list[list[int]], counts: Ints = counts, lower: Ints = lower) -> bool:
        return is_sound(np.array(rounded), estimate, allowed, counts, bound, lower)

    assert sound([[1, 1], [0, 3]])
    assert sound([[2, 0], [0, 3]])
    assert not sound([[1, 1], [1, 2]])  # records where none may be
    assert not sound([[2, 1], [0, 3]])  # not the parent's count
    assert not sound([[1, 1], [0, 3]], lower=np.array([[2, 0]]))  # a bound
    assert not sound([[3, -1], [0, 3]])  # a negative count
    assert not sound(
        [[0, 2], [0, 3]], lower=np.zeros((1, 2), dtype=np.int64)
    )  # further than one from the estimate
