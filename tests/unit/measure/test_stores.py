"""Records in a database or an Arrow file: the same people as in a CSV, nothing written, nothing told."""

import gzip
import hashlib
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tests.helpers.failing import fails_with
from tests.helpers.folders import files
from tests.unit.measure.conftest import HEADER
from topdown.errors import ConfigError, DataError
from topdown.inputs import (
    ControlTotals,
    DatabaseTable,
    MemoryTable,
    TableProblem,
    containing_file,
    locate_table,
    read_header,
    read_table,
    text_columns,
)
from topdown.inputs import database_tables as sqlite
from topdown.measure import PRIVATE_LIST, load_records

ODD = "people\"; DROP TABLE people; --?table=x'"


def counts(toy, table):
    """Return what the reader makes of a table."""
    found = load_records(table, toy.prepare().context).open_counts().whole()
    return [getattr(found, name).tolist() for name in ("node", "cell", "count")]


def arrow(toy) -> pa.Table:
    """Return the records; geocodes are whole numbers, as databases often have them."""
    columns = {name: pa.array([row[i] for row in toy.rows]) for i, name in enumerate(HEADER)}
    whole = {name: columns[name].cast(pa.int64()) for name in ("geocode", "count")}
    return pa.table(columns | whole)


def database(
    toy, rows=None, *, table: str = "people", kinds: str = "INT, TEXT, TEXT, TEXT, INT"
) -> DatabaseTable:
    """Write the records into an SQLite database."""
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(HEADER, kinds.split(", "), strict=True))
    name = '"' + table.replace('"', '""') + '"'
    with closing(sqlite3.connect(toy.folder / "a #1?%.db")) as to, to:
        to.execute(f"CREATE TABLE {name} ({columns})")
        to.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?)", toy.rows if rows is None else rows)  # noqa: S608
    return DatabaseTable("sqlite", toy.folder / "a #1?%.db", table)


def spelt(toy, kind: str) -> Path | DatabaseTable:
    """Write the records in one of the forms that are read."""
    path, text = toy.folder / "held", toy.records.read_text()
    stored = {
        ".csv": lambda p: p.write_text("\ufeff" + text),
        ".tsv": lambda p: p.write_text(text.replace(",", "\t")),
        ".csv.gz": lambda p: p.write_bytes(gzip.compress(text.replace(",", ";").encode())),
        ".csv.zst": lambda p: p.write_bytes(pa.Codec("zstd").compress(text.encode(), asbytes=True)),
        ".parquet": lambda p: pq.write_table(arrow(toy), p),
        ".feather": lambda p: pyarrow.feather.write_feather(arrow(toy), p, compression="lz4", chunksize=9),
    }
    if kind == "sqlite":
        return database(toy)
    if kind == "view":
        table = database(toy, table=ODD)
        with closing(sqlite3.connect(table.file)) as to, to:
            quoted = ODD.replace('"', '""')
            to.execute(f'CREATE VIEW v AS SELECT * FROM "{quoted}" ORDER BY age')  # noqa: S608
        return DatabaseTable("sqlite", table.file, "v")
    if kind == "odd name":
        return database(toy, table=ODD)
    path = Path(f"{path}{kind}")
    if kind in (".arrow", ".arrows"):
        with (pa.ipc.new_stream if kind == ".arrows" else pa.ipc.new_file)(path, arrow(toy).schema) as to:
            to.write_table(arrow(toy), 7)
    else:
        stored[kind](path)
    return path


KINDS = (".csv", ".tsv", ".csv.gz", ".csv.zst", ".parquet", ".arrow", ".feather", ".arrows", "sqlite", "view",
         "odd name")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_holds_the_same_people(toy, kind, monkeypatch):
    """A person more or less in one form of a table than in another is a wrong census."""
    monkeypatch.setattr(sqlite, "_AT_ONCE", 4)
    expected, table = counts(toy, toy.records), spelt(toy, kind)
    before = {name: data for name, data in files(toy.folder).items() if name.startswith(("held", "a #1"))}
    assert expected == counts(toy, table)
    after = {name: data for name, data in files(toy.folder).items() if name.startswith(("held", "a #1"))}
    assert before == after


@pytest.mark.parametrize("kind", KINDS)
def test_control_totals_hold_for_every_form(toy, kind):
    """A table that was cut at the end of a row, or doubled, was released without a word."""
    table, context = spelt(toy, kind), toy.prepare().context
    rows, people = len(toy.rows), sum(int(row[-1]) for row in toy.rows)
    sha256 = hashlib.sha256(containing_file(table).read_bytes()).hexdigest()
    load_records(table, context, totals=ControlTotals(rows, people, sha256))
    wrong = [("D081", {"rows": rows - 1}), ("D081", {"people": people + 1})]
    for code, totals in (*wrong, ("D080", {"sha256": "0" * 64})):
        with fails_with(code, DataError) as raised:
            load_records(table, context, totals=ControlTotals(**totals))
        said = " ".join((str(raised.value), raised.value.fix, *map(str, raised.value.details)))
        assert str(people) not in said.replace(str(toy.folder), "")


def test_control_totals_of_a_frame(toy):
    """A frame has rows and people as a file has, and no bytes that a sha256 could be of."""
    frame, context = MemoryTable(arrow(toy), "records"), toy.prepare().context
    load_records(frame, context, totals=ControlTotals(rows=len(toy.rows)))
    for code, totals in (("D081", ControlTotals(people=1)), ("D082", ControlTotals(sha256="0" * 64))):
        with fails_with(code, DataError):
            load_records(MemoryTable(arrow(toy), "records"), context, totals=totals)


def test_duckdb_holds_the_same_people(toy):
    """A database that may reach other files, or is written, is no source of records."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    expected, path = counts(toy, toy.records), toy.folder / "a.duckdb"
    with duckdb.connect(str(path)) as to:
        quoted = ODD.replace('"', '""')
        source = f"SELECT * FROM read_csv('{toy.records}', all_varchar = true)"  # noqa: S608
        to.execute(f'CREATE TABLE "{quoted}" AS {source}')
        to.execute(f"CREATE VIEW leak AS {source}")
    before = path.read_bytes()
    assert expected == counts(toy, DatabaseTable("duckdb", path, ODD))
    for name, code in (("people", "D070"), ("leak", "D021")):
        assert code == refused(toy, DatabaseTable("duckdb", path, name)).code
    assert before == path.read_bytes()
    assert [path] == list(toy.folder.glob("a.duckdb*"))


def test_a_library_that_is_missing_is_named(toy, monkeypatch):
    """Whoever has DuckDB and not its library must not read of an internal error."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (toy.folder / "a.duckdb").write_bytes(b"x")
    error = refused(toy, DatabaseTable("duckdb", toy.folder / "a.duckdb", "people"))
    assert (error.code, "pip install" in error.fix) == ("D073", True)


def refused(toy, table) -> DataError:
    """Return the refusal; it tells nothing that rows hold."""
    context = toy.prepare().context
    with pytest.raises(DataError) as caught:
        load_records(table, context)
    assert "CANARY" not in str(caught.value.to_json()) + repr(caught.value.__context__)
    return caught.value


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:5000]), "D021"),
        (lambda p: p.write_bytes(b"CANARY" * 999), "D021"),
        (lambda p: p.write_bytes(b""), "D070"),
        (lambda p: p.with_name(p.name + "-wal").write_bytes(b"CANARY"), "D071"),
        (lambda p: p.with_name(p.name + "-journal").write_bytes(b"CANARY"), "D071"),
    ],
)
def test_a_database_that_is_damaged_or_in_use(toy, edit, code):
    """What another program has not written down yet would be missing, without a word."""
    table = database(toy)
    edit(table.file)
    assert code == refused(toy, table).code


@pytest.mark.parametrize(
    ("value", "kinds", "code"),
    [
        (["CANARY", "home", "male", "0_17", 1], "ANY, TEXT, TEXT, TEXT, INT", "D072"),
        ([1101, "home", "male", 3.25, 1], "INT, TEXT, TEXT, BLOB, INT", "D072"),
        ([1101, "home", b"CANARY\xff", "0_17", 1], "INT, TEXT, BLOB, TEXT, INT", "D072"),
        ([1101, "home", None, "0_17", 1], "INT, TEXT, TEXT, TEXT, INT", "D031"),
        ([1101, "home", "CANARY", "0_17", 1], "INT, TEXT, TEXT, TEXT, INT", "D031"),
        ([1101, "home", "male", "0_17", -5], "INT, TEXT, TEXT, TEXT, INT", "D032"),
    ],
)
def test_values_that_are_no_labels(toy, value, kinds, code):
    """A database lets every row be of another kind; the row is for the owner's eyes only."""
    error = refused(toy, database(toy, [*toy.rows, value], kinds=kinds))
    assert code == error.code
    assert (toy.folder / PRIVATE_LIST).exists() == (code in ("D031", "D032"))


def test_text_that_is_no_text(toy):
    """The library quotes the row in its words; ours must not."""
    table = database(toy)
    with closing(sqlite3.connect(table.file)) as to, to:
        to.execute(
            "INSERT INTO people SELECT 1101, CAST(x'43414E415259FF' AS TEXT), sex, age, 1 FROM people LIMIT 1"
        )
    assert refused(toy, table).code == "D021"


def test_a_name_is_never_read_as_a_command(toy):
    """Whoever may write a run file must not be able to change or read another table."""
    table = database(toy)
    before = table.file.read_bytes()
    for name in (
        "people; DROP TABLE people",
        "people WHERE 1=1",
        "sqlite_master",
        'x" UNION SELECT 1 --',
        "PEOPLE ",
    ):
        assert refused(toy, DatabaseTable("sqlite", table.file, name)).code == "D070", name
    assert before == table.file.read_bytes()
    for text in ("sqlite:a.db", "sqlite:?table=x", "duckdb:a.db?table="):
        with pytest.raises(ConfigError, match="names no table"):
            locate_table(text)
    assert locate_table("folder:a?table=b") == Path("folder:a?table=b")


def test_a_table_that_changes_while_it_is_read(toy):
    """Half of an older table and half of a newer one is nobody's census."""
    table = database(toy)
    found = sqlite.sqlite_batches(table, HEADER)
    next(found)
    with closing(sqlite3.connect(table.file)) as to, to:
        to.execute("DELETE FROM people")
    with pytest.raises((TableProblem, ValueError)):
        list(found)


def test_damaged_arrow_files_are_refused(toy):
    """An array whose places lie outside its values would be read from other memory."""
    path = spelt(toy, ".arrow")
    whole, found = path.read_bytes(), set[str]()
    for at in range(8, len(whole), 211):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x7F]) + whole[at + 1 :])
        try:
            counts(toy, path)
        except DataError as error:
            found.add(error.code)
    assert found <= {"D021", "D023", "D024", "D030", "D031", "D032", "D034", "D036", "D040", "D041"}
    path.write_bytes(whole[:-40])
    assert refused(toy, path).code == "D021"


def test_a_stream_that_was_cut_between_two_batches_is_refused(toy):
    """The library takes the end of the file for that of the stream: people would be missing unseen."""
    path = spelt(toy, ".arrows")
    whole, ends = path.read_bytes(), list[int]()
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        ends += [file.tell()] + [file.tell() for _ in reader]
    assert len(ends) > 2
    for kept in (*(whole[:end] for end in ends), whole + whole, whole + b"\0"):
        path.write_bytes(kept)
        assert refused(toy, path).code == "D021", len(kept)
    path.write_bytes(whole)
    assert counts(toy, path) == counts(toy, toy.records)


def test_a_page_that_is_not_what_its_checksum_says_is_refused(toy):
    """One flipped bit of a count is another census; where the file has checksums they are used."""
    path = toy.folder / "held.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(arrow(toy), path, write_page_checksum=True, **plain)
    whole = path.read_bytes()
    at = pq.read_metadata(path).row_group(0).column(4).data_page_offset
    size = pq.read_metadata(path).row_group(0).column(4).total_compressed_size
    for place in (at + size - 1, at + size - 20):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert refused(toy, path).code == "D021"


def test_packed_arrow_files_have_a_cap(toy, monkeypatch):
    """A few bytes that unpack to all the memory there is."""
    path = spelt(toy, ".feather")
    monkeypatch.setenv("TOPDOWN_TABLE_BYTES", "200")
    assert refused(toy, path).code == "D043"


def test_public_tables_come_from_databases_too(toy):
    """Leaves are read by other code than records."""
    table = database(toy)
    assert read_header(table) == HEADER
    assert read_table(table, text_columns("sex"), ignored=None).texts("sex") == [row[2] for row in toy.rows]
