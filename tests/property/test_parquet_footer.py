"""Parquet files: dictionaries are written as texts are; damaged footers are a finding, never the end of the process."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.processes import run_python
from topdown.inputs import parquet_bytes
from topdown.verify import describes_every_column

TURNED = """
import sys
from pathlib import Path
from topdown.verify.strict_parquet import TEXT, WHOLE, ParquetTable, TableForm
from topdown.verify.strict_reader import UnreadableError
path = Path(sys.argv[1])
data, said = path.read_bytes(), 0
start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
for at in range(start, len(data)):
    for bits in map(int, sys.argv[2:]):
        path.write_bytes(data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :])
        print(at, bits, flush=True)
        try:
            ParquetTable(path.parent, path.name, "V015", TableForm("topdown.leaves", {"a": WHOLE, "b": TEXT}), 9).read()
        except UnreadableError:
            said += 1
assert said > len(data[start:])
print("whole")
"""


def write(path: Path) -> Path:
    """Write a small table with the stamps of a release."""
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    path.write_bytes(parquet_bytes("topdown.leaves", table, {}))
    return path


def footer_of(path: Path) -> bytes:
    """Return the footer of a file."""
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12), st.sampled_from(["a", "long" * 9]))
@example(list(range(50_000)), 1 << 20, "of more bytes than a dictionary of a page may have")
@example([0, 1, 2, 3] * 6_000 + [4], 1 << 20, "that is the fifth, in the second page")
def test_a_column_of_numbered_texts_becomes_the_file_of_its_texts(index, rows, text):
    """`verify` writes texts one by one and compares bytes: other dictionaries would be another form of the file."""
    labels = pa.array([f"{text}{9 - i % 10}{i}" for i in range(max(index, default=0) + 2)])
    column = pa.DictionaryArray.from_arrays(pa.array(np.array(index, dtype=np.int32)), labels)
    numbered = pa.table({"label": column, "count": pa.array(index, pa.int64())})
    texts = pa.table({"label": column.cast(pa.string()), "count": numbered["count"]})
    for kind in ("topdown.table", "topdown.leaves"):
        assert parquet_bytes(kind, numbered, {}, rows) == parquet_bytes(kind, texts, {}, rows)


@pytest.mark.parametrize(
    "bits", [["1", "16"], pytest.param([str(b) for b in range(1, 256)], marks=pytest.mark.slow)]
)
def test_no_damage_ends_the_process(bits, tmp_path):
    """One bit of a footer made Arrow abort: no check ran, and the verifier said nothing at all."""
    path = write(tmp_path / "t.parquet")
    assert run_python("-c", TURNED, path, *bits).stdout.split("\n")[-2] == "whole"


def test_a_whole_footer_describes_every_column(tmp_path):
    """A reader of footers that refuses whole ones would refuse every release."""
    footer = footer_of(write(tmp_path / "t.parquet"))
    assert describes_every_column(footer)
    for end in range(len(footer)):
        with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
            describes_every_column(footer[:end])


def test_claims_without_end_are_refused():
    """A list of 2^60 items, or structs in structs, would take the memory or the stack."""
    for data in (
        b"\x49\xfc" + b"\xff" * 8 + b"\x0f",
        b"\x1c" * 1000,
        b"\x18\xff\xff\x7f",
        b"\x15" + b"\xff" * 30,
    ):
        with pytest.raises((ValueError, IndexError)):
            describes_every_column(data)


THREADS = """
import os, sys
from pathlib import Path
from topdown.verify.strict_parquet import TEXT, WHOLE, ParquetTable, TableForm
before = len(os.listdir("/proc/self/task"))
path = Path(sys.argv[1])
table = ParquetTable(path.parent, path.name, "V015", TableForm("topdown.leaves", {"a": WHOLE, "b": TEXT}), 9)
rows = table.read().num_rows if sys.argv[2] == "whole" else sum(len(b) for b in table.batches(1))
print(rows, len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
@pytest.mark.parametrize("how", ["whole", "batches"])
def test_reading_starts_no_thread(how, tmp_path):
    """A thread of Arrow's dropped Python's bytes while Python ended: one verify in ten died after a good answer."""
    path = write(tmp_path / "t.parquet")
    done = run_python("-c", THREADS, path, how, ok=False)
    assert done.stdout.split() == ["2", "0"], done.stderr
