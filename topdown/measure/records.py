"""Confidential tables in, batches of columns out; what may be said of those that cannot be taken.

A `Refused` keeps the offending rows apart from the words: which rule they break, never what is in them. Rows go to a
private list beside the records, for the owner's eyes only. Labels of a draft leave this file once a person said that
they are public.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from topdown.errors import DataError, InternalError, TopdownError
from topdown.formats.caps import RAISE_TABLE
from topdown.inputs import (
    BLANK,
    ControlTotals,
    MemoryTable,
    TableColumn,
    TableLocation,
    TableProblem,
    TableReader,
    TableSource,
    ValueLabels,
    containing_file,
    header_if_readable,
    printable,
    read_header,
)
from topdown.inputs.table_reader import (
    MAX_COUNT,
    MISCOUNTED,
    MISCOUNTED_FIX,
    MOST_ROWS_KEPT,
    TOO_LARGE,
    advice_on_unreadable,
    check_header,
    is_text,
    toml_name_list,
    type_name,
)
from topdown.output_paths import is_same_file
from topdown.plan import RunFile
from topdown.process import check_stopped

OffendingRows = Callable[[], Iterator[tuple[str, str]]]  # (place, value) of each offending row


class Refused(Exception):  # noqa: N818 - never leaves the measure stage
    """The records break a rule. `text` is public; `rows` is for the private list only.

    Args:
        code, text, fix, details: as in `TopdownError`; nothing that was read from the records.
        column: the column concerned, empty if none.
        rows: makes (place, value) pairs; not called before the private list is written.

    """

    def __init__(
        self,
        code: str,
        text: str,
        *,
        fix: str,
        column: str = "",
        details: tuple[tuple[str, str], ...] = (),
        rows: OffendingRows | None = None,
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.fix, self.column = code, text, fix, column
        self.details, self.rows = details, rows


@dataclass(frozen=True)
class RecordsForm:
    """What a records file holds beside geocode and attributes.

    Args:
        ignored: names of columns that are there and are not read; any other column is refused.
        has_count: whether a column `count` says how many records a row stands for; else each row is one.
        called: what columns are called in the file, where that is another name.
        values: by attribute, how its values become labels, where they are none.
        may_be_empty: whether the records may have no rows, as who made them says.
    """

    ignored: tuple[str, ...] = ()
    has_count: bool = True
    called: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, ValueLabels] = field(default_factory=dict)
    may_be_empty: bool = False


PLAIN_FORM = RecordsForm()


def control_totals(run: RunFile) -> ControlTotals:
    """Return the control totals of a run file's records."""
    return ControlTotals(run.input.rows, run.input.people, run.input.sha256)


def records_form(run: RunFile) -> RecordsForm:
    """Return the form that a run file says its records have."""
    at = run.input
    return RecordsForm(at.ignore, at.count, at.columns, at.values, may_be_empty=at.rows == 0)


def read_records(
    source: TableSource,
    columns: Sequence[TableColumn],
    form: RecordsForm,
    unknown: Mapping[str, Refused] | None = None,
) -> Iterator[dict[str, Any]]:
    """Read columns, and `count` if the form has it, of a file or a table in memory; see `TableReader.batches`.

    Args:
        source: the records. columns: beside `count`. form: the other columns.
        unknown: what is said of values of label columns that are no label, by column.

    Raises:
        Refused: no such file, not readable to its end, no rows, a column missing, there twice or not asked for, a
            database that cannot give it, a value that is not of its column; that counts only once all rows were read.
    """
    problem, wanted = None, (*columns, TableColumn("count", "whole")) if form.has_count else columns
    try:
        reader = TableReader(
            source, wanted, ignored=form.ignored, called=form.called, may_be_empty=form.may_be_empty
        )
        yield from reader.batches()
        reader.check()
    except TableProblem as found:
        problem = found
    if problem is not None:  # raised here, so that it carries no context that quotes the file
        raise _refusal(source, problem, unknown or {})


_TABLE_REFUSALS = {
    "missing": ("D020", "the records file does not exist", "correct input.records in the run file"),
    "no rows": (
        "D022",
        "the records file has no rows",
        "give a table with rows; if nobody is meant, say rows = 0 under [input]",
    ),
    "miscounted": ("D042", MISCOUNTED, MISCOUNTED_FIX),
    "too large": ("D043", TOO_LARGE, RAISE_TABLE),
}


def _refusal(source: TableSource, problem: TableProblem, unknown: Mapping[str, Refused]) -> Refused:
    """Return what may be said of a table of records: which rule it breaks, nothing that it holds."""
    has, column, near = "the records file has", printable(problem.column), printable(problem.near)
    details = (("not read", toml_name_list(problem.unread)),) if problem.unread else ()
    like = f" (it has {near!r})" if near else ""
    if problem.kind in _TABLE_REFUSALS:
        code, text, fix = _TABLE_REFUSALS[problem.kind]
        return Refused(code, text, fix=fix)
    match problem.kind:
        case "unreadable":
            return Refused(
                "D021", "the records file cannot be read to its end", fix=advice_on_unreadable(source)
            )
        case "database" | "control totals":
            named = ", ".join(f"input.{name}" for name in problem.column.split(", ") if name)
            wrong = (("control totals", named),) if named else ()
            return Refused(problem.code, problem.text, fix=problem.fix, details=wrong)
        case "limit":
            return Refused(problem.code, f"of the records file: {problem.text}", fix=problem.fix)
        case "missing column" if column == "count":
            fix = f"rename {near!r} if it is the count; " if near else ""
            fix += "if the rows are single records, say so in the run file: "
            fix += "[input] count = false (evaluate: --no-count)"
            return Refused("D041", f"{has} no column 'count'{like}", column=column, details=details, fix=fix)
        case "missing column" | "empty file":
            fix = "give one column each: geocode, the attributes of the schema, and count"
            return Refused(
                "D023", f"{has} no column {column!r}{like}", column=column, details=details, fix=fix
            )
        case "column twice":
            return Refused(
                "D023", f"{has} two columns called {column!r}", column=column, fix="keep one of them"
            )
        case "unread column":
            fix = f"rename it to {near!r} if it is that; " if near else ""
            fix += "if it is not needed, say so in the run file: [input] ignore = "
            fix += toml_name_list(problem.unread)
            text = f"{has} a column {column!r} that is not read"
            return Refused("D040", text, column=column, details=details, fix=fix)
        case "wrong type" | "empty value":
            return wrong_type(column, problem.text, problem.near)
        case "no whole number":
            refused = Refused(
                "D032",
                f"some counts are not whole numbers from 0 to {MAX_COUNT:,}",
                column=column,
                fix="correct the records; a count is the number of records in one cell",
            )
        case "no label":
            refused = unknown[problem.column]
    refused.rows = lambda: ((f"row {row + 1}", value) for row, value in problem.rows)
    return refused


def wrong_type(column: str, found: str, wanted: str) -> Refused:
    """Return the refusal of a column that holds values of another kind (D024)."""
    fix = "write the column as text; numbers lose their leading zeros"
    if wanted != "text":
        fix = "write the counts as integers, or as text of digits"
    text = f"column {column!r} of the records holds {found}, not {wanted}"
    return Refused("D024", text, column=column, fix=fix)


PRIVATE_LIST = "PRIVATE-input-errors.csv"


def write_private_errors(records: Path, rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Write (rule, column, place, value) rows beside the records, mode 0600, replacing an earlier list.

    Never follows a symbolic link. At most `MOST_ROWS_KEPT` rows.

    Returns:
        a sentence for the user: where the list is, or that it could not be written; nothing from the rows.

    """
    path = records.parent / PRIVATE_LIST
    if is_same_file(path, records):
        return f"not listed: the input itself is called {PRIVATE_LIST}"
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return f"could not be listed beside the input ({PRIVATE_LIST})"
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("rule", "column", "place", "value"))
        for _, row in zip(range(MOST_ROWS_KEPT), rows, strict=False):
            writer.writerow(_without_formula(text) for text in row)
    return f"listed beside the input, {path} (mode 0600)"


def _without_formula(text: str) -> str:
    """Keep a spreadsheet from running a cell as a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


Found = TypeVar("Found")
NOT_LISTED = "not listed: nothing of a table in memory is written to a disk"


def read_or_refuse(
    source: TableSource, read: Callable[[], Found], what: str, spared: str, *, list_errors: bool
) -> Found:
    """Return what `read` makes of records; whatever it raises becomes an error without a word out of them.

    Args:
        source: the records.
        read: reads them.
        what: is done with them, as "the records could not be checked".
        spared: what did not happen, as "nothing was spent".
        list_errors: whether rows that break a rule are listed in a private file beside the records; those of a
            table in memory are not, because nothing of it is written.

    Raises:
        DataError: of a `Refused`: file, column and rule, never a value, a count or a row.
        InternalError: X023 for everything else.
    """
    error: TopdownError
    try:
        return read()
    except Refused as refused:
        error = _public_error(source, refused, list_errors)
    except TableProblem as problem:
        error = _public_error(source, _refusal(source, problem, {}), list_errors)
    except Exception as unforeseen:  # which a library may have made of an interrupt
        error = InternalError(  # a library's words may quote a record, so only the kind of error is kept
            f"{what} ({type(unforeseen).__name__})",
            code="X023",
            file=_file_name(source),
            fix=f"report this with the kind of file it was; {spared}",
        )
    check_stopped()
    raise error  # here, so that it carries no context and no frame that holds records


def _public_error(source: TableSource, refused: Refused, list_errors: bool) -> DataError:
    """Return what may be said of records that break a rule; the rows of a file go to the private list."""
    text = (
        refused.text.replace("the records file", "the table")
        if isinstance(source, MemoryTable)
        else refused.text
    )
    details = [("file", _file_name(source) or ""), ("column", refused.column), *refused.details]
    if refused.rows is not None and list_errors:
        rows = ((refused.text, refused.column, place, value) for place, value in refused.rows())
        details.append(
            (
                "rows",
                NOT_LISTED
                if isinstance(source, MemoryTable)
                else write_private_errors(containing_file(source), rows),
            )
        )
    details.append(("this run spent", "nothing: records are checked before the ledger is charged"))
    unnamed = refused.column and repr(refused.column) not in refused.text
    return DataError(
        f"{source.name}: {text}" + (f" (column {refused.column})" if unnamed else ""),
        code=refused.code,
        file=_file_name(source),
        fix=refused.fix,
        details=tuple((key, value) for key, value in details if value),
    )


def _file_name(source: TableSource) -> str | None:
    return None if isinstance(source, MemoryTable) else str(source)


MOST_LABELS = 200  # a column with more values is no list of labels
MOST_CHARACTERS = 80  # of a label that a person reads before confirming it


@dataclass(frozen=True)
class ColumnValues:
    """What a person is asked about a column of the records; confidential.

    Args:
        name: of the column.
        labels: distinct values, empty ones left out; none if there are too many, or one cannot be shown as it is.
        are_whole: whether all are whole numbers. has_blank: whether some are empty.
    """

    name: str
    labels: tuple[str, ...]
    are_whole: bool
    has_blank: bool


@dataclass(frozen=True)
class ConfirmedColumn:
    """What a person confirmed of a column: the published labels, and what the values in the records mean."""

    labels: tuple[str, ...]
    values: ValueLabels


AskPerson = Callable[[ColumnValues], ConfirmedColumn | None]


@dataclass(frozen=True)
class ConfirmedLabels:
    """What a person confirmed.

    Args:
        columns: by attribute, all of them public. left_out: columns that are no attributes.
    """

    columns: dict[str, ConfirmedColumn]
    left_out: tuple[str, ...]


def unread_columns(table: TableLocation, form: RecordsForm, needed: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns of the records that nobody asked for; no row is read.

    None where the first line lacks a column that is needed: it may be no line of names but a record.
    """
    wanted = [form.called.get(name, name) for name in (*needed, *(["count"] if form.has_count else []))]
    try:
        check_header(header_if_readable(table), wanted, form.ignored)
    except TableProblem as problem:
        return problem.unread if problem.kind == "unread column" else ()
    return ()


def counts_records(table: TableLocation, key: str) -> bool:
    """Tell whether the records have a column `count`; True where they cannot be looked at. No row is read."""
    names = header_if_readable(table)
    return key not in names or "count" in names


def confirmed_labels(table: TableLocation, form: RecordsForm, ask: AskPerson) -> ConfirmedLabels:
    """Ask for every column of the records whether the labels in it are public, and return those that are.

    No count is kept, and the order is that of the alphabet. No values are shown of a column with more than
    `MOST_LABELS`, or with one that cannot be shown as it is. What `ask` is given is confidential.

    Args:
        table: the records. form: its columns beside attributes; those ignored are not read.
        ask: gets a column; returns the labels of the published list and what the values mean, or None to leave the
            column out. What it raises is passed on, and nothing was kept.

    Raises:
        DataError: as `load_records`; D031 a value that no confirmed label covers, D024 a column of another kind.
        InternalError: X023 what nobody foresaw, and nothing of it but its kind.
    """
    found = read_or_refuse(
        table,
        lambda: _values_by_column(table, form),
        "the labels could not be read",
        "nothing was written",
        list_errors=False,
    )
    asked = {name: ask(_shown_to_person(name, held)) for name, held in found.items()}
    told = {name: column for name, column in asked.items() if column is not None}
    read_or_refuse(
        table,
        lambda: _check_covered(found, told),
        "the labels could not be compared",
        "nothing was written",
        list_errors=False,
    )
    return ConfirmedLabels(told, tuple(name for name, column in asked.items() if column is None))


@dataclass
class _HeldValues:
    """Distinct values of a column until they are too many to show; of whole numbers the least and the largest."""

    values: set[str] = field(default_factory=set)
    has_blank: bool = False
    are_whole: bool = True
    ends: tuple[str, ...] = ()

    def add(self, values: set[str]) -> None:
        self.has_blank |= "" in values
        values.discard("")
        self.are_whole &= all(len(v) <= 9 and v.isascii() and v.isdigit() for v in values)
        if self.are_whole and values:
            held = {int(v) for v in (*values, *self.ends)}
            self.ends = (str(min(held)), str(max(held)))
        if len(self.values) <= MOST_LABELS:
            self.values |= values


def _shown_to_person(name: str, held: _HeldValues) -> ColumnValues:
    shown = len(held.values) <= MOST_LABELS and all(map(_is_readable, held.values))
    labels = tuple(sorted(held.values, key=_label_order)) if shown else ()
    return ColumnValues(name, labels, held.are_whole and bool(held.values), held.has_blank)


def _check_covered(found: Mapping[str, _HeldValues], told: Mapping[str, ConfirmedColumn]) -> None:
    """Refuse a value that the confirmed labels leave out, without saying which (Refused D031)."""
    for name, column in told.items():
        held = found[name]
        wanted = [*held.values, *held.ends, *([""] if held.has_blank else [])]
        left = set(column.values.labels_of(wanted)) - set(column.labels)
        if left:
            what = "some records have no label" if left == {""} else "some values have no label"
            fix = (
                f"type {BLANK} = LABEL"
                if left == {""}
                else "let bands begin at 0, and give every value a label"
            )
            raise Refused("D031", what, column=name, fix=fix)


def _values_by_column(table: TableLocation, form: RecordsForm) -> dict[str, _HeldValues]:
    own = {"geocode", "count"} if form.has_count else {"geocode"}
    taken = own | {form.called.get(name, name) for name in own} | set(form.ignored)
    held = {name: _HeldValues() for name in read_header(table) if name not in taken}
    for batch in read_records(table, [TableColumn(name, "any") for name in ("geocode", *held)], form):
        for name, values in held.items():
            values.add(_values_in_batch(name, batch[name]))
    return held


def _values_in_batch(name: str, column: pa.Array) -> set[str]:
    unique = column.unique()
    if pa.types.is_dictionary(unique.type):
        unique = unique.dictionary_decode()
    if pa.types.is_integer(unique.type):
        unique = unique.cast(pa.string())
    if not is_text(unique.type) and not pa.types.is_null(unique.type):
        raise wrong_type(name, type_name(column), "text")
    return {value or "" for value in unique.to_pylist()}


def _is_readable(label: str) -> bool:
    return label.isprintable() and len(label) <= MOST_CHARACTERS and label == label.strip()


def _label_order(label: str) -> tuple[int, int, str]:
    """Order numbers by value, then texts."""
    number = label.isascii() and label.isdigit()
    return (0, int(label), label) if number else (1, 0, label)
