"""Tables that never end, or hold little and take much: each ends at a named limit, and at Ctrl-C."""

import os
import resource
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topdown.app import check_open_files
from topdown.errors import ConfigError, DataError
from topdown.formats.caps import TABLE_VARIABLE
from topdown.inputs import DatabaseTable, TableColumn, read_table, reading_process
from topdown.process import signals_as_interrupt

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"
NEVER_A_ROW = f"{ENDLESS} WHERE n < 0"
JOINED = "SELECT a.n FROM some a, some b, some c, some d, some e"


def view(folder: Path, query: str) -> DatabaseTable:
    """Make a database of a thousand rows with a view `v` of one column n."""
    with closing(sqlite3.connect(folder / "a.db")) as to, to:
        to.execute("CREATE TABLE some (n INT)")
        to.executemany("INSERT INTO some VALUES (?)", [(i,) for i in range(1000)])
        to.execute(f"CREATE VIEW v AS {query}")
    return DatabaseTable("sqlite", folder / "a.db", "v")


def refused(table: Path | DatabaseTable, *columns: TableColumn) -> DataError:
    """Read a table that is refused."""
    with pytest.raises(DataError) as raised:
        read_table(table, columns or [TableColumn("n", "whole")])
    return raised.value


@pytest.mark.parametrize("query", [ENDLESS, NEVER_A_ROW, JOINED])
def test_a_view_without_an_end_is_refused(tmp_path, monkeypatch, query):
    """Whoever may add a view to a database could let a run of the office wait for ever."""
    monkeypatch.setattr(reading_process, "TABLE_SECONDS", 0.3)
    monkeypatch.setenv(TABLE_VARIABLE, str(2**22))
    error = refused(view(tmp_path, query))
    assert error.code == "D083"
    assert "seconds" in str(error) or "4,194,304 bytes" in str(error)


def stop_reading(table: DatabaseTable, seconds: float) -> None:
    """Read a table, and press Ctrl-C after some seconds; that must end it."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))

    def read() -> None:
        with signals_as_interrupt():
            timer.start()
            try:
                read_table(table, [TableColumn("n", "whole")])
            finally:
                timer.cancel()

    with pytest.raises(KeyboardInterrupt):
        read()


@pytest.mark.parametrize("query", [ENDLESS, NEVER_A_ROW])
def test_a_view_ends_at_ctrl_c(tmp_path, query):
    """SQLite computed on after Ctrl-C, until somebody killed the process."""
    stop_reading(view(tmp_path, query), 0.3)


@pytest.mark.parametrize("query", [ENDLESS, JOINED])
def test_a_view_of_duckdb_is_refused_or_stopped(tmp_path, monkeypatch, query):
    """A view of DuckDB that recursed was stopped neither by Ctrl-C nor by anything else."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as to:
        to.execute('CREATE TABLE "some" AS SELECT range::INT n FROM range(1000)')
        to.execute("CREATE VIEW v AS " + query.replace("some", '"some"'))
    table = DatabaseTable("duckdb", tmp_path / "a.duckdb", "v")
    stop_reading(table, 0.2)
    monkeypatch.setattr(reading_process, "TABLE_SECONDS", 0.5)
    monkeypatch.setenv(TABLE_VARIABLE, str(2**24))
    assert refused(table).code == "D083"


def test_one_long_text_many_times_takes_no_memory(tmp_path):
    """A Parquet file of a kilobyte took six gigabytes: the cap counted eight bytes a value."""
    n, text = 131_072, "x" * 40_000
    coded = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([text]))
    pq.write_table(pa.table({"n": coded}), tmp_path / "a.parquet", store_schema=False, compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 5_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(tmp_path / "a.parquet", TableColumn("n", "text")).code == "D043"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


def test_texts_of_parquet_are_what_was_written(tmp_path):
    """Texts that pass through a dictionary must come out in the order of the rows, across row groups."""
    texts = [f"{i % 7}" * (i % 5) for i in range(1000)]
    pq.write_table(pa.table({"n": texts}), tmp_path / "a.parquet", row_group_size=77)
    assert read_table(tmp_path / "a.parquet", [TableColumn("n", "text")]).texts("n") == texts
    pq.write_table(pa.table({"n": [*texts, None]}), tmp_path / "b.parquet", use_dictionary=False)
    assert refused(tmp_path / "b.parquet", TableColumn("n", "text")).code == "D006"


def test_nulls_without_bytes_are_counted(tmp_path):
    """Two thousand million empty values in a file of 500 bytes ended in an internal error."""
    nulls = pa.record_batch({"n": pa.nulls(2**31 - 1)})
    with pa.ipc.new_stream(tmp_path / "a.arrows", nulls.schema) as to:
        to.write_batch(nulls)
    assert refused(tmp_path / "a.arrows").code == "D043"


@pytest.mark.parametrize(("n", "code"), [(20_000, "D040"), (20_001, "D084")])
def test_many_columns_are_refused_at_once(tmp_path, n, code):
    """Sixty thousand columns that nobody asked for took a CPU minute to be compared with those that are read."""
    names = ["n", *(f"column{i}" for i in range(n - 1))]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    start = time.process_time()
    assert refused(tmp_path / "a.csv").code == code
    assert time.process_time() - start < 15


def test_a_text_that_is_no_utf_8_is_an_unreadable_table(tmp_path):
    """One flipped byte of a text in Parquet ended in an internal error."""
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"n": ["abcdefgh"] * 9}),
        path,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    data = path.read_bytes()
    path.write_bytes(data.replace(b"abcdefgh", b"\xffbcdefgh", 1))
    assert refused(path, TableColumn("n", "label", ("abcdefgh",))).code == "D002"


@pytest.mark.parametrize(
    ("start", "advice"),
    [
        ("n\n1\n".encode("utf-16"), "UTF-8"),
        (b"PK\x03\x04 and more", "zip archive"),
        (b'n\n"1\n', "as many fields"),
    ],
)
def test_advice_fits_the_file(tmp_path, start, advice):
    """A spreadsheet or a locked database is not mended by another number of fields."""
    (tmp_path / "a.csv").write_bytes(start)
    error = refused(tmp_path / "a.csv")
    assert error.code in ("D002", "D004", "D042")
    assert advice in error.fix or error.code != "D002"
    (tmp_path / "a.db").write_bytes(b"no database")
    assert "close the database" in refused(DatabaseTable("sqlite", tmp_path / "a.db", "v")).fix


def test_few_open_files_are_named_before_anything_is_tried():
    """With six open files a run took its own measurements for damaged ones."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    check_open_files()
    resource.setrlimit(resource.RLIMIT_NOFILE, (23, before[1]))
    try:
        with pytest.raises(ConfigError) as raised:
            check_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert raised.value.code == "X066"
