"""Answers that a kernel packs stand in the file that Arrow would have written, and are read back by it and by Arrow."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.small_release import MEASUREMENTS as SCHEMA
from topdown.formats import TABLE_OPTIONS, filled, list_form, listed, pack, unpack
from topdown.resources import load_source

ROOT = Path(__file__).resolve().parents[2]
SOURCE = load_source("kernels_lists", ROOT / "topdown" / "formats" / "kernels_lists.py")
ANSWERS = SCHEMA.names.index("answers")
numbers = st.one_of(
    st.integers(-3, 3),
    st.integers(-300, 300),
    st.integers(-(2**30), 2**30),
    st.just(-(2**31)),
    st.just(2**31 - 1),
)


def written(groups: list[np.ndarray], values: np.ndarray) -> bytes:
    """Return the file that Arrow writes: lists of some lengths in each row group, and numbers in them or none."""
    sink, used = io.BytesIO(), 0
    with pq.ParquetWriter(sink, SCHEMA, **TABLE_OPTIONS["topdown.measurements"]) as writer:
        for n, lengths in enumerate(groups):
            here = lengths if len(values) else np.zeros_like(lengths)
            rows = {
                "level": pa.repeat("block", len(here)),
                "node": pa.array([f"{n:02d}{i // 2}" for i in range(len(here))]),
                "query": pa.array(["total", "a * b"] * len(here))[: len(here)],
                "answers": listed(here, values[used : used + here.sum()]),
                "variance_numerator": pa.array(np.arange(len(here)) % 2),
                "variance_denominator": pa.array(np.full(len(here), 2**40)),
            }
            writer.write_table(
                pa.table([rows[name] for name in SCHEMA.names], schema=SCHEMA), row_group_size=len(here)
            )
            used += int(here.sum())
        writer.add_key_value_metadata({"type": "topdown.measurements", "queries": '["total", "a * b"]' * 9})
    return sink.getvalue()


@given(st.lists(numbers, min_size=1, max_size=300))
@example([7])
@example([-(2**30), 2**30] * 70)
@example([0] * 129 + [3])
def test_kernels_are_their_source_and_inverses(values: list[int]) -> None:
    """A compiled kernel that differs from what is read would release other numbers than were drawn."""
    array = np.array(values, dtype=np.int32)
    ends, packed = [], []
    for kernels in (pack, SOURCE.pack):
        room = np.zeros(2_000, dtype=np.uint8)
        ends.append(kernels(array, np.empty(128, dtype=np.int64), room))
        packed.append(room[: max(ends[-1], 0)].tobytes())
    assert ends[0] == ends[1]
    assert packed[0] == packed[1]
    steps = np.diff(np.array(values, dtype=np.int64))
    assert (ends[0] < 0) == bool((abs(steps) >= 2**31).any()), (
        "differences of more than 32 bits are Arrow's to pack"
    )
    for kernels in (unpack, SOURCE.unpack) if ends[0] > 0 else ():
        out, data = np.empty(len(values), dtype=np.int32), np.frombuffer(packed[0], dtype=np.uint8)
        assert kernels(data, out)
        assert out.tolist() == values
        assert not kernels(np.append(data, np.uint8(0)), out), "bytes that say nothing of the numbers"


@given(st.data())
def test_files_are_those_of_arrow(data: st.DataObject) -> None:
    """Verify would refuse a release that was paid for: it knows one form only."""
    shape = st.lists(st.integers(1, 300), min_size=1, max_size=12)
    groups = [
        np.array(lengths, dtype=np.int64) for lengths in data.draw(st.lists(shape, min_size=1, max_size=20))
    ]
    forms = [form for lengths in groups if (form := list_form(lengths.tobytes()))]
    assert len(forms) == len(groups)
    most = data.draw(st.sampled_from([1, 40, 70_000, 2**30]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = rng.integers(-most, most, sum(int(lengths.sum()) for lengths in groups), dtype=np.int32)
    due = written(groups, values)
    assert filled(written(groups, values[:0]), ANSWERS, forms, values) == due
    footer, used = pq.read_metadata(io.BytesIO(due)), 0
    for n, form in enumerate(forms):
        column = footer.row_group(n).column(ANSWERS)
        chunk = due[column.data_page_offset : column.data_page_offset + column.total_compressed_size]
        found = form.values(chunk)
        assert found is not None
        assert np.array_equal(found, values[used : used + form.n_values])
        used += form.n_values
        for flip in data.draw(st.sets(st.integers(0, 8 * len(chunk) - 1), max_size=9)):
            other = bytearray(chunk)
            other[flip // 8] ^= 1 << flip % 8
            assert form.values(bytes(other)) is None, "a damaged page is Arrow's to refuse"


@pytest.mark.parametrize(("most", "is_one"), [(1 << 13, True), (1 << 16, False)])
def test_two_pages_are_left_to_arrow(most: int, is_one: bool) -> None:
    """Arrow begins another page at a megabyte; a longer one would be another form of the same rows."""
    lengths, rng = np.full(1_000, 521, dtype=np.int64), np.random.default_rng(0)
    form, values = list_form(lengths.tobytes()), rng.integers(-most, most, 521_000, dtype=np.int32)
    assert form is not None
    made = filled(written([lengths], values[:0]), ANSWERS, [form], values)
    assert (made == written([lengths], values)) if is_one else made is None


def test_another_writer_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later Arrow may write other bytes: found before the first answer is packed, and then Arrow writes all."""
    lengths = np.array([3, 77], dtype=np.int64)
    assert list_form(lengths.tobytes()) is not None
    assert list_form((0 * lengths).tobytes()) is None, "nothing to begin with"
    for changed in ({"column_encoding": {"answers.list.element": "PLAIN"}},
                    {"data_page_version": "2.0"}, {"compression": "zstd"}):  # fmt: skip
        options = TABLE_OPTIONS["topdown.measurements"] | changed
        monkeypatch.setitem(TABLE_OPTIONS, "topdown.measurements", options)
        list_form.cache_clear()
        assert list_form(lengths.tobytes()) is None
    list_form.cache_clear()
