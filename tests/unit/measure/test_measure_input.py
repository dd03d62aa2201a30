"""Bad records are refused before anything is spent, in words that say nothing about anybody; values without labels."""

import copy
import gzip
import pickle
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from tests.helpers.failing import fails_with
from tests.helpers.ledgers import n_intents
from tests.helpers.small_release import run_file
from tests.unit.measure.conftest import HEADER
from topdown.errors import ConfigError, DataError, TopdownError
from topdown.inputs import ValueLabels, bands_among, bands_from, check_values, file_formats, text_columns
from topdown.measure import (
    PLAIN_FORM,
    PRIVATE_LIST,
    RecordsForm,
    Refused,
    SortedRuns,
    load_records,
    measure,
    read_or_refuse,
    read_records,
    records_form,
)
from topdown.measure import records as labels
from topdown.model import Schema
from topdown.plan import prepare

SECRETS = ("CANARY", "987654321", "-77", "3.25", "1e3", "1104", "row ")


def refused(toy, code: str, *, records=None) -> DataError:
    """Measure; return the error after checking that it is silent, user-level, and that nothing was spent."""
    prepared = toy.prepare(records=records)
    with pytest.raises(DataError) as caught:
        measure(prepared, toy.folder / "out")
    error = caught.value
    shown = str(error.to_json()) + "".join(traceback.format_exception(error)).replace(str(toy.folder), "")
    assert code == error.code
    assert error.exit_code == 2
    assert error.fix
    assert [s for s in SECRETS if s in shown.replace(str(toy.folder), "")] == []
    assert error.__context__ is None
    assert n_intents(toy.ledger) == 0
    assert not (toy.folder / "out").exists()
    return error


def private(toy) -> str:
    """Return the private list after checking its rights."""
    path = toy.folder / PRIVATE_LIST
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_text()


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        (1, "CANARY", "D031"),
        (0, "CANARY", "D030"),
        (4, "-77", "D032"),
        (4, "2147483647", "D034"),
    ],
)
def test_a_bad_value_is_listed_only_in_private(toy, column, value, code):
    """An unknown label, a place outside, or a senseless count would be dropped or miscounted."""
    toy.rows[3][column] = value
    toy.write()
    error = refused(toy, code)
    if code != "D034":
        assert value in private(toy)
        assert "row 4" in private(toy)
    assert ("geocode", "dwelling", "sex", "age", "count")[column] in str(error)


@pytest.mark.parametrize("rows", [1, 7, 2**17])
def test_an_error_in_the_last_batch(toy, monkeypatch, rows):
    """Batches that were counted before must not be charged for, and the row is that of the file, not of its batch."""
    monkeypatch.setattr(file_formats, "BATCH_ROWS", rows)
    monkeypatch.setattr(SortedRuns.__init__, "__defaults__", (rows,))
    toy.rows[-1][1] = "CANARY"
    records = toy.folder / "records.parquet"
    table = {name: pa.array([row[i] for row in toy.rows], pa.string()) for i, name in enumerate(HEADER)}
    pq.write_table(pa.table(table), records)
    refused(toy, "D031", records=records)
    assert f"row {len(toy.rows)}" in private(toy)
    assert len(toy.rows) > 14


def test_an_older_private_list_is_replaced_and_a_link_is_not_followed(toy):
    """A stale list would mislead; a planted link would put private rows anywhere."""
    target = toy.folder / "elsewhere"
    target.write_text("kept")
    (toy.folder / PRIVATE_LIST).symlink_to(target)
    toy.rows[0][1] = "CANARY"
    toy.write()
    refused(toy, "D031")
    assert "CANARY" in private(toy)
    assert not (toy.folder / PRIVATE_LIST).is_symlink()
    assert target.read_text() == "kept"


def test_a_formula_in_the_private_list_is_defused(toy):
    """A spreadsheet must not run what a record says."""
    toy.rows[0][1] = "=1+CANARY"
    toy.write()
    refused(toy, "D031")
    assert "'=1+CANARY" in private(toy)


def parquet(toy, **changes):
    """Write the records as Parquet with some columns replaced."""
    names = ["geocode", "dwelling", "sex", "age"]
    columns = {n: pa.array([r[i] for r in toy.rows]) for i, n in enumerate(names)}
    columns["count"] = pa.array([int(r[4]) for r in toy.rows], pa.int32())
    path = toy.folder / "records.parquet"
    pq.write_table(pa.table(columns | changes), path)
    return path


@pytest.mark.parametrize(
    ("name", "keep"),
    [("parquet", 0), ("parquet", 8), ("parquet", 200), ("parquet", -1), ("parquet", -300), ("gz", -900)],
)
def test_a_truncated_file(toy, name, keep):
    """A file cut in transfer would lose people silently, wherever it was cut."""
    path = toy.folder / "records.csv.gz" if name == "gz" else parquet(toy)
    if name == "gz":
        more = b"".join(b"1104,home,male,0_17,%d\n" % (i % 7) for i in range(20_000))
        path.write_bytes(gzip.compress(toy.records.read_bytes() + more))
    path.write_bytes(path.read_bytes()[:keep])
    refused(toy, "D021", records=path)


@pytest.mark.parametrize(
    ("value", "kind"), [(-77, pa.int64()), (None, pa.int64()), (2**63, pa.uint64()), (2**31, pa.int64())]
)
def test_a_bad_count_in_parquet(toy, value, kind):
    """A wrapped, rounded or missing count would be a wrong number of people."""
    counts = pa.array([*[1] * (len(toy.rows) - 1), value], kind)
    refused(toy, "D032", records=parquet(toy, count=counts))
    assert f"row {len(toy.rows)}" in private(toy)


def with_ignore(prepared, **input_):
    """Return the same run with other words about its tables."""
    return replace(
        prepared, run=structs.replace(prepared.run, input=structs.replace(prepared.run.input, **input_))
    )


def test_a_column_named_in_ignore_is_not_read(toy):
    """A free text may stay in the file if the run file says that nobody reads it."""
    expected = load_records(toy.records, toy.prepare().context).open_counts().whole()
    for row in toy.rows:
        row.append('said "no",\nthen\r\nleft\n1101,home,male,0_17,CANARY\n')
    toy.write([*HEADER, "note"])
    run = with_ignore(toy.prepare(), ignore=("note",)).run
    found = load_records(toy.records, toy.prepare().context, records_form(run)).open_counts().whole()
    assert expected.count.tolist() == found.count.tolist()
    assert expected.cell.tolist() == found.cell.tolist()


def test_one_record_a_row_must_be_said(toy):
    """A run that says so and finds counts all the same has the wrong file, or the wrong words."""
    context = toy.prepare().context
    with fails_with("D040", DataError):
        load_records(toy.records, context, RecordsForm(has_count=False))


@pytest.mark.parametrize("shift", range(0, 48, 5))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_quoted_line_break_at_the_edge_of_a_block_makes_nobody(toy, shift, end):
    """The reader works in blocks of 1 MiB; text that begins before the edge was read as rows after it."""
    row, planted = f"1101,home,male,0_17,1,{'x' * 20}{end}", f"1101,home,male,0_17,1,{'y' * 20}{end}"
    head = f"geocode,dwelling,sex,age,count,note{end}"
    n = ((1 << 20) - 700 - len(head)) // len(row)
    pad = "x" * shift
    hidden = f'1101,home,male,0_17,1,"{pad}{end}{planted * 40}"{end}'
    toy.records.write_text(head + row * n + hidden + row * 9, newline="")
    found = read_records(
        toy.records, text_columns("geocode", "dwelling", "sex", "age"), RecordsForm(ignored=("note",))
    )
    assert n + 10 == sum(len(batch["sex"]) for batch in found)


def test_a_null_label(toy):
    """A missing answer is not an answer of the schema."""
    refused(toy, "D031", records=parquet(toy, sex=pa.array([None] * len(toy.rows), pa.string())))


@pytest.mark.parametrize("kind", ["plain", "dictionary", "large", "no count", "unsigned", "text", "chunks"])
def test_all_spellings_of_parquet_give_the_same_histogram(toy, kind):
    """How a table is stored must not change who is counted."""
    context = toy.prepare().context
    expected = load_records(toy.records, context).open_counts().whole()
    changes = {
        "plain": {},
        "dictionary": {
            n: pa.array([r[i] for r in toy.rows]).dictionary_encode() for i, n in enumerate(["geocode"])
        },
        "large": {"sex": pa.array([r[2] for r in toy.rows], pa.large_string())},
        "unsigned": {"count": pa.array([int(r[4]) for r in toy.rows], pa.uint64())},
        "text": {"count": pa.array([r[4] for r in toy.rows], pa.large_string())},
        "chunks": {"age": pa.chunked_array([[r[3] for r in toy.rows[:5]], [r[3] for r in toy.rows[5:]]])},
    }
    if kind == "no count":
        toy.rows = [r for r in toy.rows for _ in range(int(r[4]))]
        path = toy.folder / "people.parquet"
        names = ["geocode", "dwelling", "sex", "age"]
        pq.write_table(pa.table({n: [r[i] for r in toy.rows] for i, n in enumerate(names)}), path)
    else:
        path = parquet(toy, **changes[kind])
    found = load_records(path, context, RecordsForm(has_count=kind != "no count")).open_counts().whole()
    for name in ("node", "cell", "count"):
        assert getattr(expected, name).tolist() == getattr(found, name).tolist()


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (["1101", "barracks", "male", "0_17", "1"], "no children in barracks"),
        (["1101", "barracks", "male", "18_64", "1"], "nobody in barracks where there are none"),
        (["1204", "home", "male", "18_64", "1"], "nobody at home where there are no homes"),
    ],
)
def test_records_where_nobody_can_be(toy, row, name):
    """Such records contradict the release's own promises; no release could be exact."""
    toy.rows.append(row)
    toy.write()
    assert name in str(refused(toy, "D035"))
    assert row[0] in private(toy)


def test_fewer_records_than_a_lower_bound(toy):
    """A dormitory without its two people: the exact total could not hold either."""
    toy.rows = [r for r in toy.rows if r[1] != "dormitory"]
    toy.write()
    assert "at least two people per dormitory" in str(refused(toy, "D036"))


def test_a_row_with_count_zero_holds_nobody(toy):
    """An explicit zero is no contradiction, wherever it stands."""
    toy.rows.append(["1204", "barracks", "male", "0_17", "0"])
    toy.write()
    context = toy.prepare().context
    assert load_records(toy.records, context).open_counts().whole().n_records == sum(
        int(r[4]) for r in toy.rows
    )


LABELS = ("0-17", "18-64", "65+", "unknown")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (ValueLabels(bands=("0-17", "19+")), "C336"),
        (ValueLabels(bands=("0-17", "17+")), "C336"),
        (ValueLabels(bands=("65+", "0-64")), "C336"),
        (ValueLabels(bands=("0-17", "young")), "C335"),
        (ValueLabels(bands=("0-17", "18+")), "C337"),
        (ValueLabels(labels={"M": "male"}), "C337"),
        (ValueLabels(blank="none"), "C337"),
    ],
)
def test_values_without_a_label_or_with_two_are_refused_beforehand(values, code):
    """A gap between two bands would lose the people in it, or stop a run after its noise."""
    with fails_with(code, ConfigError):
        check_values(values, "age", LABELS)


def test_every_number_has_the_band_it_lies_in():
    """An end that is off by one moves a year of people to other labels."""
    values = ValueLabels(bands=bands_from([0, 18, 65]), blank="unknown")
    for number in (*range(120), 999_999_999):
        expected = "0-17" if number < 18 else "18-64" if number < 65 else "65+"
        assert expected == values.label_of(str(number)) == values.label_of(f"0{number}"[:9])
    assert values.label_of("") == "unknown"
    assert [text for text in ("65+", "-3", "1.5", " 7") if values.label_of(text) != text] == []


def test_labels_that_are_bands_are_seen(tmp_path):
    """Single years are labels themselves, and bands with a gap cannot cover a register."""
    assert bands_among(LABELS) == LABELS[:3]
    assert bands_among(("0", "1", "2")) == ()
    assert bands_among(("0-4", "10-14")) == ()


def test_records_of_codes_are_counted_as_their_labels(tmp_path: Path) -> None:
    """Codes counted under another label, or a blank as none, are a wrong census."""
    (tmp_path / "leaves.csv").write_text("geocode,homes,dormitories,barracks\n123,9,0,0\n")
    (tmp_path / "run.toml").write_text(run_file())
    context = prepare(tmp_path / "run.toml").context
    names = [a.name for a in context.plan.schema.attributes]
    first = {a.name: a.labels[0] for a in context.plan.schema.attributes}
    header = "geocode," + ",".join(names)
    plain, coded = tmp_path / "plain.csv", tmp_path / "coded.csv"
    row = ["123", *first.values()]
    plain.write_text(header + "\n" + ",".join(row) + "\n")
    coded.write_text(header + "\n" + ",".join(["123", "", *["x"] * (len(names) - 1)]) + "\n")
    values = {name: ValueLabels(labels={"x": first[name]}, blank=first[name]) for name in names}
    found = [
        load_records(path, context, RecordsForm(has_count=False, values=of), list_errors=False).open_counts()
        for path, of in ((plain, {}), (coded, values))
    ]
    assert found[0].key.tolist() == found[1].key.tolist()
    with fails_with("D031", DataError):
        load_records(coded, context, RecordsForm(has_count=False), list_errors=False)


TELLTALE = "CANARY-4711"


def talk(*_: object) -> None:
    """Fail as a library does that quotes what it read."""
    record = [TELLTALE]
    raise KeyError(record[0])


def refuse(*_: object) -> None:
    """Fail because of a rule, with the record at hand."""
    record = [TELLTALE]
    raise Refused("D031", f"some of {len(record)} records have no label", column="sex", fix="correct them")


def everything_carried(error: BaseException) -> str:
    """Return all that a log could show of an error: texts, notes, errors before it, and local names of every frame."""
    told = "".join(traceback.format_exception(error)) + repr(getattr(error, "__notes__", ()))
    for one in (error, error.__context__, error.__cause__):
        frames = traceback.walk_tb(one.__traceback__ if one else None)
        told += "".join(repr(frame.f_locals) for frame, _ in frames if frame.f_globals is not globals())
    return told + repr(error.__context__)


@pytest.mark.parametrize(("read", "code"), [(talk, "X023"), (refuse, "D031")])
def test_no_error_carries_a_record(tmp_path: Path, read: Callable[[], None], code: str) -> None:
    """A traceback with the library's own words, or with local names, would take a record to a log."""
    with pytest.raises(TopdownError) as caught:
        read_or_refuse(tmp_path / "people.csv", read, "they could not be read", "nothing", list_errors=False)
    error = caught.value
    assert error.code == code
    assert error.__context__ is None
    assert error.__cause__ is None
    assert TELLTALE not in everything_carried(error)
    assert "people.csv" in str(error.file)


def test_what_nobody_foresaw_says_what_it_spared(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and labels are read by two functions; each must end in the same error, and say what did not happen."""
    prepared = toy.prepare()
    monkeypatch.setattr(Schema, "cells", talk)
    monkeypatch.setattr(labels, "_values_in_batch", talk)
    for read, spared in (
        (lambda: load_records(prepared.records_path, prepared.context), "nothing was spent"),
        (
            lambda: labels.confirmed_labels(prepared.records_path, PLAIN_FORM, lambda _, names: names),
            "nothing was written",
        ),
    ):
        with fails_with("X023") as caught:
            read()
        assert caught.value.fix.endswith(spared)
        assert "(KeyError)" in str(caught.value)
        assert TELLTALE not in everything_carried(caught.value)


def test_what_is_read_is_returned(tmp_path: Path) -> None:
    """A box around reading must not keep what was read."""
    found = object()
    assert read_or_refuse(tmp_path, lambda: found, "", "", list_errors=False) is found


@pytest.mark.parametrize("show", [repr, str, format, lambda c: f"{c!r:>80}", lambda c: f"{[c]}".strip("[]")])
def test_printing_shows_nothing(toy, show):
    """A log line or a traceback with locals must not print counts."""
    box = load_records(toy.records, toy.prepare().context)
    assert show(box).strip() == "<confidential records, not shown>"


@pytest.mark.parametrize(
    "use",
    [
        *(pickle.dumps, copy.copy, copy.deepcopy, np.asarray, np.array, list, len, bool, hash, vars),
        lambda c: c == c,
    ],
)
def test_copying_and_converting_are_refused(toy, use):
    """A pickle or an array is how records reach a temporary file."""
    box = load_records(toy.records, toy.prepare().context)
    with pytest.raises(TypeError):
        use(box)
