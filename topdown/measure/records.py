"""Confidential tables in, batches of columns out; a `Refused` keeps the offending rows apart from the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from topdown.caps import RAISE_TABLE
from topdown.columns import (
    MISCOUNTED,
    MISCOUNTED_FIX,
    TOO_LARGE,
    MiscountedError,
    Odd,
    TooLargeError,
    UnreadableError,
    find_odd,
    listed,
    names_in,
    shown,
)
from topdown.frames import HeldTable, Source, batches_of, is_there, names_of
from topdown.plan.runfile import RunFile
from topdown.stores.place import StoreError

Rows = Callable[[], Iterator[tuple[str, str]]]  # (place, value) of each offending row


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
        rows: Rows | None = None,
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.fix, self.column = code, text, fix, column
        self.details, self.rows = details, rows


@dataclass(frozen=True)
class Form:
    """What a records file holds beside geocode and attributes.

    Args:
        ignored: names of columns that are there and are not read; any other column is refused.
        has_count: whether a column `count` says how many records a row stands for; else each row is one.
        called: what columns are called in the file, where that is another name.
    """

    ignored: tuple[str, ...] = ()
    has_count: bool = True
    called: Mapping[str, str] = field(default_factory=dict)


PLAIN = Form()


def form_of(run: RunFile) -> Form:
    """Return the form that a run file says its records have."""
    return Form(run.input.ignore, run.input.count, run.input.columns)


def read_records(source: Source, names: tuple[str, ...], form: Form) -> Iterator[pa.RecordBatch]:
    """Read the named columns, and `count` if the form has it, of a file or a table in memory, batch by batch.

    Raises:
        Refused: no such file, not readable to its end, no rows, a column missing, there twice or not asked for;
            a database that cannot give it; whatever is wrong with a batch, it counts only once all were read.

    """
    if not is_there(source):
        raise Refused("D020", "the records file does not exist", fix="correct input.records in the run file")
    refused, n_rows = None, 0
    try:
        header = names_of(source)
        wanted = (*names, "count") if form.has_count else names
        theirs = names_in(header, wanted, form.called)
        odd = find_odd(header, theirs, form.ignored)
        if odd is not None:
            raise _odd(odd)
        text, coded = pa.string(), pa.dictionary(pa.int32(), pa.string())
        types = {of: text if name == "count" else coded for name, of in zip(wanted, theirs, strict=True)}
        for batch in batches_of(source, types):
            n_rows += batch.num_rows
            yield batch.rename_columns(list(wanted))
    except UnreadableError:
        refused = Refused(
            "D021",
            "the records file cannot be read to its end",
            fix="give columns that Arrow can hold, each of one type"
            if isinstance(source, HeldTable)
            else "give a whole table, a CSV with as many fields throughout as in its header",
        )
    except TooLargeError:
        refused = Refused("D043", TOO_LARGE, fix=RAISE_TABLE)
    except MiscountedError:
        refused = Refused("D042", MISCOUNTED, fix=MISCOUNTED_FIX)
    except StoreError as error:
        refused = Refused(error.code, error.text, fix=error.fix)
    if refused is not None:  # raised here, so that it carries no context that quotes the file
        raise refused
    if n_rows == 0:
        raise Refused("D022", "the records file has no rows", fix="give a table with at least one row")


def _odd(odd: Odd) -> Refused:
    name, has = shown(odd.name), "the records file has"
    details = (("not read", listed(odd.unasked)),) if odd.unasked else ()
    if odd.kind == "missing" and name == "count":
        near = f" (it has {shown(odd.near)!r})" if odd.near else ""
        fix = f"rename {shown(odd.near)!r} if it is the count; " if odd.near else ""
        fix += "if the rows are single records, say so in the run file: [input] count = false (evaluate: --no-count)"
        return Refused("D041", f"{has} no column 'count'{near}", column=name, details=details, fix=fix)
    if odd.kind == "missing":
        near = f" (it has {shown(odd.near)!r})" if odd.near else ""
        fix = "give one column each: geocode, the attributes of the schema, and count"
        return Refused("D023", f"{has} no column {name!r}{near}", column=name, details=details, fix=fix)
    if odd.kind == "twice":
        return Refused("D023", f"{has} two columns called {name!r}", column=name, fix="keep one of them")
    fix = f"rename it to {odd.near!r} if it is that; " if odd.near else ""
    return Refused(
        "D040",
        f"{has} a column {name!r} that is not read",
        column=name,
        details=details,
        fix=f"{fix}if it is not needed, say so in the run file: [input] ignore = {listed(odd.unasked)}",
    )


def kind_of(column: pa.Array) -> str:
    """Return the name of a column's type without the names of its fields."""
    return str(column.type).partition("<")[0].partition("[")[0]
