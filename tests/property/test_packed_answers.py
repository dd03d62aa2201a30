"""Packed answers are checked where they are: what is accepted is what Arrow writes for their values, nothing else."""

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.small_release import MEASUREMENTS as SCHEMA
from topdown.formats import TABLE_OPTIONS
from topdown.resources import load_source
from topdown.verify import KnownRows, end_of_packed, has_due_bytes, has_lengths

OPTIONS = TABLE_OPTIONS["topdown.measurements"]
STAMPS = {"level": "land", "type": "topdown.measurements", "version": "2"}
HEAD = b"\x80\x01\x04"  # 128 differences a block, in 4 groups

ROOT = Path(__file__).resolve().parents[2]
SOURCE = load_source("kernels_packing", ROOT / "topdown" / "verify" / "kernels_packing.py")

numbers = st.one_of(
    st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), 2**31 - 1, 0])
)
lists = st.lists(numbers, min_size=1, max_size=300)


def packed(values: list[int]) -> bytes:
    """Return how Arrow packs numbers."""
    schema = pa.schema([pa.field("v", pa.int32(), nullable=False)])
    sink = io.BytesIO()
    how = {"compression": "none", "use_dictionary": False, "column_encoding": {"v": "DELTA_BINARY_PACKED"}}
    with pq.ParquetWriter(sink, schema, write_statistics=False, **how) as writer:
        writer.write_table(pa.table([pa.array(values, pa.int32())], schema=schema))
    data = sink.getvalue()
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    return data[data.index(HEAD) : chunk.data_page_offset + chunk.total_compressed_size]


def unpacked(data: bytes) -> list[int]:
    """Return the numbers that are packed, as the format says, however they are packed."""
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            place += 1
            value, shift = value | (data[place - 1] & 127) << shift, shift + 7
            if data[place - 1] < 128:
                return value

    def signed() -> int:
        coded = number()
        return (coded >> 1) ^ -(coded & 1)

    block, groups, n_values = number(), number(), number()
    found = [signed()]
    while len(found) < n_values:
        least, widths = signed(), data[place : place + groups]
        place += groups
        for width in widths[: -(-(n_values - len(found)) * groups // block)]:
            size = block // groups * width // 8
            bits = int.from_bytes(data[place : place + size], "little")
            for k in range(min(block // groups, n_values - len(found))):
                step = least + (bits >> k * width & (1 << width) - 1)
                found.append((found[-1] + step + 2**31) % 2**32 - 2**31)
            place += size
    return found[:n_values]


def end(data: bytes, n_values: int) -> int:
    array = np.frombuffer(data, dtype=np.uint8)
    found = end_of_packed(array, 0, n_values)
    assert found == SOURCE.end_of_packed(array, 0, n_values), "compiled and interpreted"
    return found


@given(lists)
@example([7])
@example([0] * 129)
@example([-(2**31), 2**31 - 1] * 70)
def test_what_arrow_packs_is_accepted(values: list[int]) -> None:
    """Every check of a release would write all answers again, which takes four times as long, or refuse a true file."""
    data = packed(values)
    assert end(data, len(values)) == len(data)
    assert end(data, len(values) + 1) == -1
    assert end(data[:-1], len(values)) == -1
    assert end(data + b"A", len(values)) == len(data), "what stands behind it is the caller's to refuse"
    assert unpacked(data) == values


@given(lists, st.data())
@example([5] * 40, None)
def test_no_second_packing_of_the_same_numbers_is_accepted(values: list[int], data: Any) -> None:
    """Numbers that can be packed in two ways carry a message beside them that no reader of rows shows."""
    true = bytearray(packed(values))
    flips = (
        range(8 * len(true))
        if data is None
        else data.draw(st.sets(st.integers(0, 8 * len(true) - 1), max_size=3))
    )
    for flip in flips:
        other = bytearray(true)
        other[flip // 8] ^= 1 << flip % 8
        if end(bytes(other), len(values)) == len(other):
            assert packed(unpacked(bytes(other))) == bytes(other)


def wider(values: list[int]) -> bytes:
    """Return numbers below 32 packed with a bit more than they need; there are 33, the last a group of its own."""
    data = packed(values)
    width = data[len(HEAD) + 3]
    steps = np.diff(values) - np.diff(values).min()
    bits = sum(int(step) << k * (width + 1) for k, step in enumerate(steps))
    place = len(HEAD) + 3
    return (
        data[:place]
        + bytes([width + 1])
        + data[place + 1 : place + 4]
        + bits.to_bytes(4 * (width + 1), "little")
    )


def test_looser_packings_are_refused() -> None:
    """A width, a least difference or a group that is larger than it need be holds bits that say nothing of the rows."""
    values = [int(v) for v in np.random.default_rng(1).integers(0, 30, 33)]
    data = packed(values)
    assert end(data, 33) == len(data)
    assert unpacked(wider(values)) == values
    assert end(wider(values), 33) == -1
    least = bytearray(data)
    least[len(HEAD) + 2] += 2  # all differences one larger
    assert end(bytes(least), 33) == len(data), "the same form, of other numbers"
    assert unpacked(bytes(least)) != values
    filled = bytearray(packed(values[:20]))
    filled[-1] |= 128
    assert unpacked(bytes(filled)) == values[:20]
    assert end(bytes(filled), 20) == -1
    empty = bytearray(packed(values[:20]))
    empty[len(HEAD) + 4] = 3  # the width of a group that holds nothing
    assert end(bytes(empty), 20) == -1


def rows(n: int, lengths: list[int]) -> KnownRows:
    columns = {
        "level": pa.array(["land"] * n),
        "node": pa.array([f"{i // 2:03d}" for i in range(n)]),
        "query": pa.array(["total" if i % 2 == 0 else "age" for i in range(n)]),
        "variance_numerator": pa.array([1 + i % 2 for i in range(n)]),
        "variance_denominator": pa.array([3] * n),
    }
    return KnownRows(columns, np.array(lengths, dtype=np.int64))


def written(
    groups: list[KnownRows],
    seed: int = 0,
    stamps: dict[str, str] = STAMPS,
    schema: pa.Schema = SCHEMA,
    most: int = 90,
    **options: Any,
) -> bytes:
    """Return a file of measurements as Arrow writes it, with random answers."""
    rng, sink = np.random.default_rng(seed), io.BytesIO()
    with pq.ParquetWriter(sink, schema, **(OPTIONS | options)) as writer:
        for group in groups:
            answers = pa.array(
                [rng.integers(-most, most, n).tolist() for n in group.lengths], schema.field("answers").type
            )
            row = [answers if name == "answers" else group.columns[name] for name in schema.names]
            writer.write_table(pa.table(row, schema=schema), row_group_size=len(group.lengths))
        writer.add_key_value_metadata(stamps)
    return sink.getvalue()


GROUPS = [rows(6, [1, 40] * 3), rows(6, [1, 40] * 3), rows(2, [1, 40])]


@pytest.mark.parametrize("lengths", [[1, 40], [0, 3], [0, 0], [200, 900]])
def test_known_rows_with_any_answers_are_due(lengths: list[int]) -> None:
    """True releases would be written again, at four times the cost."""
    groups = [rows(6, lengths * 3), rows(4, lengths * 2)]
    for seed in range(3):
        assert has_due_bytes(written(groups, seed), SCHEMA, groups, STAMPS)


def test_lists_have_the_lengths_that_reading_finds() -> None:
    """A row of this run's own files with one answer too few would be certified as planned."""
    wrong = ([40, 1] * 3, [1, 40] * 4, [2, 39] * 3, [1, 40, 1, 40, 1, 41], [0, 41] * 3)
    for seed, true in enumerate(([1, 40] * 3, [0, 3] * 3, [200, 900] * 3)):
        data = written([rows(6, true)], seed)
        at = pq.read_metadata(io.BytesIO(data)).row_group(0).column(3)
        chunk = data[at.data_page_offset : at.data_page_offset + at.total_compressed_size]
        lists = pq.read_table(io.BytesIO(data))["answers"]
        for lengths in (true, *wrong):
            same = [len(answers) for answers in lists.to_pylist()] == lengths
            assert has_lengths(io.BytesIO(chunk), len(chunk), np.array(lengths)) == same
    assert not has_lengths(io.BytesIO(2 * chunk), 2 * len(chunk), np.array(true, dtype=np.int64))


@pytest.mark.parametrize(
    "options",
    [
        {"compression_level": {"node": 5}},
        {"compression": "none"},
        {"compression": "zstd"},
        {"write_page_checksum": False},
        {"write_statistics": True},
        {"use_dictionary": False},
        {"data_page_size": 100, "write_batch_size": 16},
        {"column_encoding": {"answers.list.element": "PLAIN"}},
        {"version": "1.0"},
        {"data_page_version": "2.0"},
        {"write_page_index": True},
        {"store_schema": True},
        {"stamps": STAMPS | {"note": "Ann Smith"}},
        {"schema": pa.schema([field.with_nullable(True) for field in SCHEMA])},
        {"schema": SCHEMA.set(3, pa.field("answers", pa.list_(pa.int32()), nullable=False))},
    ],
    ids=str,
)
def test_the_same_rows_written_otherwise_are_not_due(options: dict[str, Any]) -> None:
    """A choice of the writer is a message, or shows other rows to a reader that filters."""
    groups = [rows(20, [40, 400] * 10)] * 2
    assert written(groups, **options) != written(groups)
    assert not has_due_bytes(written(groups, **options), SCHEMA, groups, STAMPS)


@pytest.mark.parametrize(("most", "due"), [(1 << 13, True), (1 << 16, False)])
def test_a_page_ends_where_arrow_ends_it(most: int, due: bool) -> None:
    """Row groups of wide noise would be written again, or one page take what this version of Arrow puts in two."""
    group = rows(1_000, [521] * 1_000)
    assert has_due_bytes(written([group], most=most, data_page_size=1 << 22), SCHEMA, [group], STAMPS) == due


def test_other_rows_are_not_due() -> None:
    """Answers to other questions, or of another number, would pass as those that were planned."""
    data = written(GROUPS)
    for name in SCHEMA.names:
        column = GROUPS[2].columns.get(name, pa.array(["a", "a"]))
        other = KnownRows(GROUPS[2].columns | {name: column.take(pa.array([1, 0]))}, GROUPS[2].lengths)
        same = name in ("level", "node", "variance_denominator", "answers")
        assert has_due_bytes(data, SCHEMA, [*GROUPS[:2], other], STAMPS) == same, name
    swapped = KnownRows(GROUPS[2].columns, GROUPS[2].lengths[::-1].copy())
    assert not has_due_bytes(data, SCHEMA, [*GROUPS[:2], swapped], STAMPS)
    assert not has_due_bytes(data, SCHEMA, GROUPS[:2], STAMPS)
    assert not has_due_bytes(data, SCHEMA, [*GROUPS, GROUPS[2]], STAMPS)
    assert not has_due_bytes(data, SCHEMA, GROUPS, STAMPS | {"level": "town"})


def test_no_file_with_a_changed_bit_is_due() -> None:
    """What differs in a bit from the one form is found by reading only if this does not call it due."""
    data = written(GROUPS)
    for flip in range(0, 8 * len(data), 67):
        other = bytearray(data)
        other[flip // 8] ^= 1 << flip % 8
        with suppress(ValueError, LookupError, TypeError, OSError, pa.ArrowException):
            assert not has_due_bytes(bytes(other), SCHEMA, GROUPS, STAMPS), flip
