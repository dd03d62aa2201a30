"""Confidential tables in, whole columns out; a `Refused` keeps the offending rows apart from the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
    header_of,
    is_text,
    listed,
    read_rows,
    shown,
    whole_numbers,
)
from topdown.plan.runfile import RunFile

MAX_COUNT = 2**31 - 1
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
    """

    ignored: tuple[str, ...] = ()
    has_count: bool = True


PLAIN = Form()


def form_of(run: RunFile) -> Form:
    """Return the form that a run file says its records have."""
    return Form(run.input.ignore, run.input.count)


def read_columns(path: Path, names: tuple[str, ...], form: Form) -> dict[str, pa.ChunkedArray]:
    """Read the named columns, and `count` if the form has it, of a CSV(.gz) or Parquet file.

    Raises:
        Refused: no such file, not readable to its end, no rows, a column missing, there twice or not asked for.

    """
    if not path.is_file():
        raise Refused("D020", "the records file does not exist", fix="correct input.records in the run file")
    refused, table = None, None
    try:
        header = header_of(path)
        wanted = (*names, "count") if form.has_count else names
        odd = find_odd(header, wanted, form.ignored)
        if odd is not None:
            raise _odd(odd)
        types = {name: pa.dictionary(pa.int32(), pa.string()) for name in wanted}
        table = read_rows(path, types | ({"count": pa.string()} if form.has_count else {}))
    except UnreadableError:
        refused = Refused(
            "D021",
            "the records file cannot be read to its end",
            fix="give a whole CSV(.gz) or Parquet file with as many fields throughout as in its header",
        )
    except TooLargeError:
        refused = Refused("D043", TOO_LARGE, fix=RAISE_TABLE)
    except MiscountedError:
        refused = Refused("D042", MISCOUNTED, fix=MISCOUNTED_FIX)
    if refused is not None:  # raised here, so that it carries no context that quotes the file
        raise refused
    if table is None or table.num_rows == 0:
        raise Refused("D022", "the records file has no rows", fix="give a table with at least one row")
    return {name: table.column(name) for name in table.column_names}


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


def positions(column: pa.ChunkedArray, labels: tuple[str, ...], unknown: Refused) -> NDArray[np.int64]:
    """Return the index of every row's value among `labels`; raise `unknown` with the rows that have none."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not is_text(kind):
        raise Refused(
            "D024",
            f"column {unknown.column!r} of the records holds {_kind(kind)}, not text",
            column=unknown.column,
            fix="write the column as text; numbers lose their leading zeros",
        )
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    known = pc.index_in(whole.dictionary.cast(pa.string()), value_set=pa.array(labels, pa.string()))
    table = np.append(known.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), -1)
    found: NDArray[np.int64] = table[whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    bad = np.flatnonzero(found < 0)
    if len(bad):
        unknown.rows = lambda: ((f"row {i + 1}", str(whole[int(i)].as_py())) for i in bad)
        raise unknown
    return found


def whole_counts(column: pa.ChunkedArray | None, n_rows: int) -> NDArray[np.int64]:
    """Return the count of every row, 1 without a column; Refused unless all are whole, from 0 to 2^31-1."""
    if column is None:
        return np.ones(n_rows, dtype=np.int64)
    counts = whole_numbers(column)
    if counts is None:
        raise Refused(
            "D024",
            f"column 'count' of the records holds {_kind(column.type)}, not whole numbers",
            column="count",
            fix="write the counts as integers, or as text of digits",
        )
    bad = np.flatnonzero((counts < 0) | (counts > MAX_COUNT))
    if len(bad):
        values: Any = column
        raise Refused(
            "D032",
            f"some counts are not whole numbers from 0 to {MAX_COUNT:,}",
            column="count",
            fix="correct the records; a count is the number of records in one cell",
            rows=lambda: ((f"row {i + 1}", str(values[int(i)].as_py())) for i in bad),
        )
    return counts


def _kind(kind: pa.DataType) -> str:
    """Return the name of a type without the names of its fields."""
    return str(kind).partition("<")[0].partition("[")[0]
