"""Geocodes in a block of bytes, and the leaf table in parts, say what texts and the table in one piece say."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.sections import packed
from tests.helpers.small_release import from_dense
from topdown.errors import DataError
from topdown.inputs import codes_from_arrow, codes_to_arrow
from topdown.measure import LeafCounts
from topdown.measure import record_counts as leaf_counts
from topdown.model import (
    Codes,
    Geography,
    Histogram,
    PackedRows,
    PublicFacts,
    codes_of,
    from_any_prefixes,
    from_parents,
    from_prefixes,
    from_release_listing,
    histogram,
)
from topdown.plan import find_rows, read_release_public, write_public
from topdown.solve import records_sha256

texts = st.lists(st.text(st.sampled_from("01aé\U0001f3e0\0 "), max_size=5), max_size=12)


@settings(deadline=None)
@given(texts)
@example(["x" * 20_000, *"abcdef"])
def test_codes_are_the_texts(codes: list[str]) -> None:
    """A geocode that came back otherwise, or in another place, would give its people to another area."""
    held = codes_of(codes)
    assert isinstance(held, Codes) == (all(codes) and "\0" not in "".join(codes) and len(str(codes)) < 10_000)
    assert codes == list(held)
    assert tuple(codes) == held
    assert [held[i] for i in range(-len(codes), len(codes))] == codes * 2
    assert codes[1:4] == list(held[1:4])
    for text in [*codes, "0", "", "\0", "2", "0" * 9]:
        assert (text in codes) == (text in held)
    assert [codes.index(code) for code in codes] == [held.index(code) for code in codes]
    with pytest.raises(ValueError, match="not"):
        held.index("2")
    chunks = pa.chunked_array([codes[:3], codes[3:]], pa.string())
    for column in (chunks, chunks.slice(1), chunks.dictionary_encode()):
        read = codes_from_arrow(column)
        assert column.to_pylist() == list(read)
        assert pa.array(column.to_pylist(), pa.string()).equals(codes_to_arrow(read))
        assert type(read) is type(codes_of(column.to_pylist()))


@given(
    st.sets(st.text("01a", min_size=3, max_size=3), min_size=1), st.sampled_from([(0, 1, 3), (1, 3), (0, 3)])
)
@example({"0aé", "0bé"}, (1, 3))
@example({"012", "01"}, (0, 3))
def test_prefixes_give_the_tree_of_each_code_by_itself(codes: set[str], lengths: tuple[int, ...]) -> None:
    """A tree in another order would have another hash: nobody could resume or extend an older release."""
    names = ("top", "middle", "leaf")[-len(lengths) :]
    leaves = tuple(sorted(codes, key=lambda code: code[::-1]))
    found = [
        answer_of(lambda make=make: make(names, lengths, leaves))
        for make in (from_any_prefixes, from_prefixes)
    ]
    if isinstance(found[0], str):
        assert found[0] == found[1]
    else:
        same(*found)


def answer_of(make: Callable[[], Geography]) -> Geography | str:
    """Return a tree, or the code of the error that refuses it."""
    try:
        return make()
    except DataError as error:
        return error.code


def same(one: Geography, other: Geography) -> None:
    """Fail unless two trees are one."""
    assert one.level_names == other.level_names
    for a, b in zip(one.levels, other.levels, strict=True):
        assert list(a.codes) == list(b.codes)
        np.testing.assert_array_equal(a.parent, b.parent)


Listed = tuple[str, str, str]


def edits(rows: list[Listed]) -> dict[str, list[Listed]]:
    """Return lists of nodes that are no tree, or are not in its order."""
    swapped = [*rows[:-2], rows[-1], rows[-2]]
    return {
        "as it is": rows,
        "two leaves swapped": swapped,
        "a leaf twice": [*rows, rows[-1]],
        "a county called as a leaf is": [rows[0], (rows[-1][0], rows[0][0], "county"), *rows[1:]],
        "a county without leaves": [*rows[:2], ("99", rows[0][0], "county"), *rows[2:]],
        "a parent nobody is": [*rows[:-1], (rows[-1][0], "98", "leaf")],
        "two roots": [("r", "", "land"), *rows],
        "leaves first": rows[::-1],
        "a leaf among the counties": [*rows[:1], rows[-1], *rows[1:-1]],
    }


@pytest.mark.parametrize("edit", list(edits([("0", "", "land"), ("00", "0", "county")])))
def test_a_listed_tree_is_that_of_its_parents(edit: str) -> None:
    """A table in another order, or with an error, read as if it were ours would put areas into the wrong ones."""
    rows = [("0", "", "land"), ("00", "0", "county"), ("01", "0", "county")]
    rows += [(f"{county}{leaf}", county, "leaf") for county in ("00", "01") for leaf in "abc"]
    rows = edits(rows)[edit]
    names = tuple(dict.fromkeys(level for _, _, level in rows))
    level = np.array([names.index(of) for _, _, of in rows], dtype=np.int64)
    codes, parents = (codes_of([row[i] for row in rows]) for i in (0, 1))
    parents = codes_of(list(parents)[1:])
    found = from_release_listing(names, level, codes, parents) if isinstance(parents, Codes) else None
    assert (found is not None) == (edit == "as it is")
    if found is not None:
        same(from_parents(rows), found)


@pytest.mark.parametrize("root", ["", "0"])
def test_a_release_reads_back_its_tree_in_any_order(tmp_path: Path, root: str) -> None:
    """An older release whose table has another order, or a table altered at its root, is read with all its checks."""
    tree = from_prefixes(("land", "county", "leaf"), (0, 1, 3), ("1aa", "1bé"[:2] + "c", "2aa"))
    write_public(tmp_path, tree, PublicFacts({}))
    same(tree, read_release_public(tmp_path)[0])
    table = pq.read_table(tmp_path / "geography.parquet")
    parent = pa.array([root, *table.column("parent").to_pylist()[1:]])
    order = [*range(6)] if root else [5, 0, 2, 1, 3, 4]
    pq.write_table(table.set_column(2, "parent", parent).take(order), tmp_path / "geography.parquet")
    if root:
        with pytest.raises(DataError, match="without a parent"):
            read_release_public(tmp_path)
    else:
        same(tree, read_release_public(tmp_path)[0])


@given(st.lists(st.text("01é", min_size=1, max_size=4), min_size=1, unique=True), st.data())
def test_rows_are_found_as_in_a_dict(codes: list[str], data: st.DataObject) -> None:
    """Facts of a leaf taken from another row would close the wrong cells."""
    wanted = data.draw(st.lists(st.sampled_from([*codes, "2", "00000"])))
    expected = [codes.index(code) if code in codes else -1 for code in wanted]
    assert expected == find_rows(codes_of(codes), codes_of(wanted)).tolist() if wanted else True
    assert expected == find_rows(codes, wanted).tolist()


def test_many_codes_are_one_column() -> None:
    """Arrow's own conversion gave a nation's blocks in pieces, which no writer took."""
    column = codes_to_arrow(Codes(np.full(2_000_000, b"x" * 15)))
    assert isinstance(column, pa.StringArray)
    assert (len(column), column[1_999_999].as_py()) == (2_000_000, "x" * 15)


COLUMNS = ("node", "cell", "count")


def same_counts(one: Histogram, other: Histogram) -> bool:
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
    assert same_counts(table.between(first, last), parts.between(first, last))
    assert same_counts(table, parts.whole())
    assert (table.n_entries, table.n_records) == (parts.n_entries, parts.n_records)


@given(tables(), st.sampled_from([1, 7, 100]))
@settings(max_examples=50, deadline=None)
def test_pieces_are_all_entries_once(made: tuple[Histogram, list[int]], most: int) -> None:
    """Whoever adds up, or hashes, piece by piece would lose or double people; a piece that is too long is no piece."""
    table, ends = made
    with pytest.MonkeyPatch.context() as patch:
        for module in (histogram, leaf_counts):
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
