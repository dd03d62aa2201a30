"""Cells that no rule tells apart: the one place that finds them, beside a look at every pair of cells."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from tests.helpers.implied_brute import crossing, random_census
from topdown.errors import ConfigError
from topdown.model import (
    ConstraintSystem,
    ExactTable,
    arrange_exact_tables,
    distinct_rows,
    equal_numbers,
    group_cells,
)


@given(st.integers(0, 1_000_000), st.integers(0, 90))
@settings(max_examples=50, deadline=None)
def test_cells_are_of_one_class_if_all_sets_agree(seed: int, n_sets: int) -> None:
    """A class too coarse lifts a rule from some cells; one out of order changes the bytes of releases."""
    rng = np.random.default_rng(seed)
    sets = list(rng.random((n_sets, 7)) < 0.1)
    found = group_cells(sets, 7)
    marks = [tuple(bool(cells[c]) for cells in sets) for c in range(7)]
    order = sorted(set(marks))
    assert [order.index(mark) for mark in marks] == found.of_cell.tolist()
    assert [marks.index(mark) for mark in order] == found.first.tolist()
    assert found.marked(sets).T.tolist() == [list(mark) for mark in order]
    assert distinct_rows(np.array(marks, dtype=bool).reshape(7, n_sets))[1].tolist() == found.of_cell.tolist()


@given(st.lists(st.integers(0, 12) | st.integers(0, 2**62), max_size=30))
@settings(max_examples=200, deadline=None)
def test_equal_numbers_are_found_with_and_without_a_sort(numbers: list[int]) -> None:
    """Leaves that are merged into one piece are told by these numbers: another first leaf has another pattern."""
    first, which = equal_numbers(np.array(numbers, dtype=np.int64))
    order = sorted(set(numbers))
    assert first.tolist() == [numbers.index(number) for number in order]
    assert which.tolist() == [order.index(number) for number in numbers]


@given(st.integers(0, 1_000_000), st.booleans())
@settings(max_examples=50, deadline=None)
def test_kinds_are_the_possible_classes_of_cells(seed: int, table: bool) -> None:
    """The limits of a node are indexed by kind: their order is that of class, bounds, caps and answer."""
    census = random_census(np.random.default_rng(seed), most=1)
    if crossing(census):
        return
    rules = ConstraintSystem.from_facts(census.schema, census.geography, census.invariants, census.facts)
    n_cells = census.schema.n_cells
    answers = np.random.default_rng(seed).integers(0, 3, n_cells) * table
    rows = [rules.class_of_cell, *rules.bound_cells, *rules.cap_cells, answers]
    key = [tuple(int(row[c]) for row in rows) for c in range(n_cells)]
    assert np.array_equal([sorted(set(key)).index(k) for k in key], rules.cell_classes(answers).of_cell)
    possible = rules.open[0][0][rules.class_of_cell]
    order = sorted({k for k, may in zip(key, possible, strict=True) if may})
    kinds = rules.partition(answers)
    assert [
        order.index(k) if may else -1 for k, may in zip(key, possible, strict=True)
    ] == kinds.of_cell.tolist()
    assert [k[0] for k in order] == kinds.class_of.tolist()
    assert [k[-1] for k in order] == kinds.answer_of.tolist()


def crossed(a: np.ndarray, b: np.ndarray) -> bool:
    """Look at every pair of answers of two tables: do they share cells, and neither holds the other."""
    sets = [[frozenset(np.flatnonzero(of == answer)) for answer in set(of.tolist())] for of in (a, b)]
    return any(x & y and x - y and y - x for x in sets[0] for y in sets[1])


def open_everywhere(is_open: list[bool]) -> ConstraintSystem:
    """Return constraints of a root and its one leaf, where some cells are open and nothing is bounded."""
    none, here = np.zeros((1, 0), dtype=np.int64), np.array([is_open])
    cells = np.arange(len(is_open), dtype=np.int64)
    return ConstraintSystem(cells, (here, here), (), (none, none), (), none)


TABLES = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.booleans(), min_size=n, max_size=n),
        st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=6),
    )
)


@given(TABLES)
@settings(max_examples=300, deadline=None)
def test_exact_tables_cross_if_two_of_their_answers_do(drawn: tuple[list[bool], list[list[int]]]) -> None:
    """Tables that cross have no complete constraints; tables that do not must not be refused, and the pair is named."""
    is_open, given_labels = drawn
    labels = [np.array(of, dtype=np.int64) for of in given_labels]
    tables = [ExactTable(f"t{i}", 0, of) for i, of in enumerate(labels)]
    possible = np.array(is_open)
    pairs = {
        (a, b)
        for a, b in combinations(range(len(labels)), 2)
        if crossed(labels[a][possible], labels[b][possible])
    }
    if pairs:
        with fails_with("C033", ConfigError) as refused:
            arrange_exact_tables(tables, open_everywhere(is_open), ("land", "block"))
        assert any(f"'t{a}' and 't{b}'" in refused.value.text for a, b in pairs)
        return
    merged = arrange_exact_tables(tables, open_everywhere(is_open), ("land", "block")).root_sums
    assert merged is not None
    for answer, source in enumerate(merged.sources):
        cells = (merged.labels == answer) & possible
        same = [
            (i, int(code))
            for i, of in enumerate(labels)
            for code in np.unique(of[cells])
            if np.array_equal((of == code) & possible, cells)
        ]
        assert source == (same[0] if same else None)


def test_a_hundred_tables_are_compared_by_their_answers() -> None:
    """Each table splits the answers of the one before: none cross, until the last table crosses all that are finer."""
    cells = np.arange(400)
    tables = [ExactTable(f"t{k}", 0, np.minimum(cells, k)) for k in range(1, 101)]
    rules = open_everywhere([True] * 400)
    assert len(arrange_exact_tables(tables, rules, ("land", "block")).root.sources) == 101
    across = ExactTable("across", 0, (cells == 399).astype(np.int64))
    with pytest.raises(ConfigError, match=r"'t\d+' and 'across'"):
        arrange_exact_tables([*tables, across], rules, ("land", "block"))
