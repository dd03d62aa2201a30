"""What it costs to read tables in a process of their own: the 1,052,567 persons of Rhode Island, in rows and counted.

Run: `pytest bench/bench_reading.py -s`. Needs ../shared beside the checkout. Prints CPU seconds, children included, of
reading all columns here and in a process apart, in alternation; medians of seven.
"""

from __future__ import annotations

import resource
import sqlite3
import statistics
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from topdown.inputs import DatabaseTable, TableLocation, read_header
from topdown.inputs.reading_process import read_apart
from topdown.inputs.table_reader import format_of

PERSONS = Path(__file__).resolve().parents[2] / "shared" / "data" / "rhode_island_2010" / "persons.csv.gz"
TEXTS = ("geocode", "hhgq", "votingage", "hispanic", "cenrace")


def _cpu_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def _tables(folder: Path) -> list[TableLocation]:
    """Write the persons in every form, a row each."""
    texts = pa_csv.ConvertOptions(column_types=dict.fromkeys(TEXTS, pa.string()))
    counted = pa_csv.read_csv(PERSONS, convert_options=texts)
    rows = np.repeat(np.arange(counted.num_rows), counted["count"].to_numpy())
    table = counted.take(rows).select(TEXTS)
    pa_csv.write_csv(table, folder / "a.csv")
    pq.write_table(table, folder / "a.parquet")
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as to:
        to.write_table(table)
    with closing(sqlite3.connect(folder / "a.db")) as to, to:
        to.execute(f"CREATE TABLE people ({', '.join(TEXTS)})")
        columns = [table[name].to_pylist() for name in TEXTS]
        to.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", zip(*columns, strict=True))
    return [
        PERSONS,
        *(folder / f"a.{end}" for end in ("csv", "parquet", "arrow")),
        DatabaseTable("sqlite", folder / "a.db", "people"),
    ]


@pytest.mark.skipif(not PERSONS.exists(), reason="needs ../shared")
def test_what_a_process_apart_costs(tmp_path: Path) -> None:
    """Measure; the same rows come out."""
    for table in _tables(tmp_path):
        kind, spent = format_of(table), {"here": list[float](), "apart": list[float]()}
        types = {
            name: pa.string() if name == "count" else pa.dictionary(pa.int32(), pa.string())
            for name in read_header(table)
        }
        for _ in range(7):
            n_rows = []
            for where in spent:
                start = _cpu_seconds()
                columns = dict.fromkeys(kind.names(table)) | types
                batches = kind.batches(table, columns)
                if where == "apart":
                    batches = read_apart(partial(kind.batches, table, columns), "D086", "")
                n_rows.append(sum(batch.num_rows for batch in batches))
                spent[where].append(_cpu_seconds() - start)
            assert n_rows[0] == n_rows[1]
        here, apart = (statistics.median(spent[where]) for where in ("here", "apart"))
        print(
            f"{table.name:22} {n_rows[0]:9,} rows: {here:.3f} CPU s here, {apart:.3f} apart, {apart - here:+.3f}"
        )
