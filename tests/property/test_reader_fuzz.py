"""Readers of tables against mutated valid files: read as another reader would, or refused with an error of ours."""

import csv
import io
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import Sizes, hierarchy_of
from pgsr.group_tables import leaf_counts, public_totals, read_groups, read_hierarchy
from tests.cli.conftest import LEAVES, PERSONS
from tests.helpers.depth import repeats
from topdown.errors import TopdownError
from topdown.inputs import TableColumn, TableProblem, TableReader, read_header, read_table, text_columns
from topdown.measure import RecordsForm, Refused, read_records
from topdown.plan import GeographyTable, read_public

PIECES = [",", '"', '""', "\n", "\r\n", "\r", '"\n', '\n"', "1", "-", "e", "0x", "\0", "\ufeff", ";", " ", "count",
          "1101", "home", "\t", "é", "'", "=", ",,", '","', "1101,home,male,0_17,1\n", "9" * 20]  # fmt: skip
GROUPS = "region,size,count\nA,1,3\nA,2,2\nB,1,4\n"
HIERARCHY = "region,parent,level\nT,,top\nA,T,leaf\nB,T,leaf\n"
REGIONS = hierarchy_of([("T", "", "top"), ("A", "T", "leaf"), ("B", "T", "leaf")])
NAMES = ("geocode", "dwelling", "sex", "age")
FEW = settings(max_examples=repeats(30, 150), deadline=None)


@st.composite
def mutated(draw, text: str) -> bytes:
    """Return a valid table after a few edits: pieces put in, put over, left out, rows doubled, bytes changed."""
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        how = draw(st.sampled_from(["insert", "replace", "cut", "double"]))
        piece = draw(st.sampled_from(PIECES))
        if how == "insert":
            text = text[:at] + piece + text[at:]
        elif how == "replace":
            text = text[:at] + piece + text[min(end, at + 3) :]
        elif how == "cut":
            text = text[:at] + text[min(end, at + 5) :]
        else:
            text = text[:at] + text[at:end] * 2 + text[end:]
    data = text.encode()
    if data and draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    return data


def on_disk(data: bytes, name: str) -> Path:
    """Write a file into a folder of its own."""
    path = Path(tempfile.mkdtemp()) / name
    path.write_bytes(data)
    return path


def plain_rows(data: bytes) -> list[dict[str, str]]:
    """Read a table with Python's own reader, blank lines left out."""
    header, *rows = [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")) if row]
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.mark.deep
@given(mutated(PERSONS))
@FEW
def test_records_are_read_as_another_reader_reads_them(data):
    """Rows that one reader sees and another does not are people nobody counted."""
    path = on_disk(data, "persons.csv")
    unknown = {"geocode": Refused("D030", "", fix="", column="geocode")}
    known = ("1101", "1102", "1104", "1201")
    columns = [
        TableColumn(name, "label", known) if name == "geocode" else TableColumn(name, "any") for name in NAMES
    ]
    codes, numbers = [], []
    try:
        for batch in read_records(path, columns, RecordsForm(), unknown):
            codes += [known[i] for i in batch["geocode"]]
            numbers += batch["count"].tolist()
    except Refused:
        return
    rows = plain_rows(data)
    assert [int(row["count"]) for row in rows] == numbers
    assert [row["geocode"] for row in rows] == codes


@pytest.mark.deep
@given(mutated(LEAVES))
@FEW
def test_leaves_are_read_or_refused(data):
    """A public table that is not whole must end in one of our errors."""
    path = on_disk(data, "leaves.csv")
    table = GeographyTable(levels=("land", "county", "block"), prefix_lengths=(1, 2, 4))
    try:
        tree, facts = read_public(path, table, ("homes", "dormitories", "barracks"), path.parent)
    except TopdownError:
        return
    rows = plain_rows(data)
    assert len(rows) == len(tree.leaves)
    assert sum(int(row["homes"]) for row in rows) == facts.columns["homes"].sum()


@pytest.mark.deep
@given(mutated(GROUPS))
@FEW
def test_groups_are_read_as_another_reader_reads_them(data):
    """The number of groups is published exactly: it must be that of the file."""
    path = on_disk(data, "groups.csv")
    try:
        found = leaf_counts(read_groups(path), REGIONS, Sizes(5, 1, "top-code"))
    except TopdownError:
        return
    rows = plain_rows(data)
    assert sum(int(row["count"]) for row in rows) == found.sum()


@pytest.mark.deep
@given(mutated(HIERARCHY))
@FEW
def test_hierarchies_and_totals_are_read_or_refused(data):
    """A public table that is not whole must end in one of our errors."""
    for read in (read_hierarchy, public_totals):
        with suppress(TopdownError):
            assert read(on_disk(data, "table.csv"))


@pytest.mark.deep
@given(
    st.lists(st.text(alphabet='a,"\n\r ', max_size=8), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
)
@FEW
def test_every_text_that_is_quoted_rightly_is_read(texts, end):
    """The second count of rows must not refuse a file that any writer of CSV makes."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([["id", "note"], *([str(i), text] for i, text in enumerate(texts))])
    path = on_disk(out.getvalue().encode(), "table.csv")
    assert texts == read_table(path, text_columns("id", "note")).texts("note")


@pytest.mark.deep
@given(
    st.binary(max_size=60)
    | st.lists(st.sampled_from(["a\n", '"', '"a\n"\n', '"\r"\r\n', '"""a"\n', "é"])).map(
        lambda some: f"a\n{''.join(some)}".encode()
    )
)
@FEW
def test_any_bytes_are_read_as_another_reader_reads_them_or_refused(data):
    """A library's own exception would show what the file holds; a row more or less would go unseen."""
    for name in ("t.parquet", "t.csv.gz", "t.csv"):
        path = on_disk(data, name)
        try:
            header = read_header(path) or ["nothing"]
            reader = TableReader(path, [TableColumn(name, "any") for name in header], may_be_empty=True)
            table = pa.concat_tables(pa.table(values) for values in reader.batches())
        except TableProblem:
            continue
        assert name == "t.csv"
        assert plain_rows(data) == table.to_pylist()
