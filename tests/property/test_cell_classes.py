"""Cells that no rule tells apart: the one place that finds them, beside a look at every pair of cells."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.implied_brute import crossing, random_census
from topdown.model import (
    ConstraintSystem,
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
