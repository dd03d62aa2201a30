"""The leaf table in parts says, stretch by stretch, what the table in one piece says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.sections import packed
from tests.helpers.small_release import from_dense
from topdown.measure import LeafCounts
from topdown.measure import record_counts as leaf_counts
from topdown.model import Histogram, PackedRows, histogram
from topdown.model import histogram as leaf_table
from topdown.solve import records_sha256

COLUMNS = ("node", "cell", "count")


def same(one: Histogram, other: Histogram) -> bool:
    """Tell whether two tables are equal, types included."""
    sizes = (one.n_nodes, one.n_cells) == (other.n_nodes, other.n_cells)
    columns = [(getattr(one, name), getattr(other, name)) for name in COLUMNS]
    return sizes and all(a.dtype == b.dtype == np.int64 and np.array_equal(a, b) for a, b in columns)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Histogram, list[int]]:
    """Draw a table, few or many of whose leaves are empty, and where its parts end."""
    rng, n_leaves = np.random.default_rng(draw(st.integers(0, 10**6))), draw(st.integers(1, 300))
    dense = rng.integers(0, 400, (n_leaves, 5)) * (
        rng.random((n_leaves, 5)) < draw(st.sampled_from([0, 0.02, 0.5]))
    )
    return from_dense(dense), sorted(draw(st.lists(st.integers(0, n_leaves), max_size=4)))


@given(tables(), st.integers(0, 300), st.integers(0, 300))
@settings(deadline=None)
def test_a_stretch_is_that_of_the_whole(made: tuple[Histogram, list[int]], first: int, last: int) -> None:
    """Parts overlap stretches at either end, hold them, or are empty; numbers go beyond those that bytes hold."""
    table, ends = made
    parts, first, last = packed(table, ends), min(first, last), max(first, last)
    assert same(table.between(first, last), parts.between(first, last))
    assert same(table, parts.whole())
    assert (table.n_entries, table.n_records) == (parts.n_entries, parts.n_records)


@given(tables(), st.sampled_from([1, 7, 100]))
@settings(max_examples=50, deadline=None)
def test_pieces_are_all_entries_once(made: tuple[Histogram, list[int]], most: int) -> None:
    """Whoever adds up, or hashes, piece by piece would lose or double people; a piece that is too long is no piece."""
    table, ends = made
    with pytest.MonkeyPatch.context() as patch:
        for module in (histogram, leaf_table, leaf_counts):
            patch.setattr(module, "ENTRIES", most)
        for kept in (table, packed(table, ends), LeafCounts.pack(table)):
            pieces = list(kept.pieces())
            assert all(0 < piece.n_entries <= most for piece in pieces)
            for name in COLUMNS:
                held = [getattr(piece, name) for piece in pieces]
                assert np.array_equal(getattr(table, name), np.concatenate([np.zeros(0, np.int64), *held]))
            assert records_sha256(table) == records_sha256(kept)


def test_a_search_in_narrow_numbers_copies_none() -> None:
    """Numpy casts numbers and what is looked for to one type: all of a nation's, for every stretch."""
    rows = PackedRows(*(np.array(column, dtype=np.uint8) for column in ([0, 7, 255], [1, 2, 3], [1, 1, 1])))
    for first, last, found in ((0, 300, 3), (-5, 7, 1), (7, 255, 1), (255, 256, 1), (256, 999, 0), (8, 8, 0)):
        here = rows.between(first, last)
        assert len(here) == found
        assert here.node.base is rows.node
        assert here.node.dtype == np.uint8
