"""Confidential tables in, whole columns out; a `Refused` keeps the offending rows apart from the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

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


def read_columns(path: Path, names: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    """Read the named columns and `count`, if there is one, of a CSV(.gz) or Parquet file.

    Raises:
        Refused: no such file, not readable to its end, no rows, a column missing or there twice.

    """
    if not path.is_file():
        raise Refused("D020", "the records file does not exist", fix="correct input.records in the run file")
    table, header, readable = None, [], True
    try:
        header = _header(path)
        wanted = [*names, "count"] if "count" in header else list(names)
        if all(header.count(name) == 1 for name in wanted):
            table = _read(path, wanted)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, ValueError):
        readable = False  # the reader's words quote the file, so they are dropped
    if not readable:
        raise Refused(
            "D021", "the records file cannot be read to its end", fix="give a whole CSV(.gz) or Parquet file"
        )
    for name in (*names, "count"):
        n = header.count(name)
        if n > 1 or (n == 0 and name != "count"):
            raise Refused(
                "D023",
                f"the records file has {'no column' if n == 0 else 'two columns called'} {name!r}",
                column=name,
                fix=f"give one column each: {', '.join(names)}, and optionally count",
            )
    if table is None or table.num_rows == 0:
        raise Refused("D022", "the records file has no rows", fix="give a table with at least one row")
    return {name: table.column(name) for name in table.column_names}


def _is_parquet(path: Path) -> bool:
    return path.name.endswith(".parquet")


def _header(path: Path) -> list[str]:
    if _is_parquet(path):
        with pq.ParquetFile(path) as file:
            return list(file.schema_arrow.names)
    if path.stat().st_size == 0:
        return []
    with pa_csv.open_csv(path) as reader:
        return list(reader.schema.names)


def _read(path: Path, wanted: list[str]) -> pa.Table:
    if _is_parquet(path):
        with pq.ParquetFile(path) as file:
            return file.read(columns=wanted)
    text = {name: pa.dictionary(pa.int32(), pa.string()) for name in wanted}
    if "count" in wanted:
        text["count"] = pa.string()
    options = pa_csv.ConvertOptions(column_types=text, include_columns=wanted, strings_can_be_null=False)
    return pa_csv.read_csv(path, convert_options=options)


def positions(column: pa.ChunkedArray, labels: tuple[str, ...], unknown: Refused) -> NDArray[np.int64]:
    """Return the index of every row's value among `labels`; raise `unknown` with the rows that have none."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise Refused(
            "D024",
            f"column {unknown.column!r} of the records holds {kind}, not text",
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
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        good = pc.match_substring_regex(column, r"^[0-9]{1,10}$")
        numbers = pc.if_else(good, column, "-1").cast(pa.int64())
    elif pa.types.is_integer(kind):
        numbers = column.cast(pa.int64(), safe=False)  # unsigned numbers from 2^63 on become negative
    elif pa.types.is_floating(kind):
        inside = pc.and_(pc.greater_equal(column, 0.0), pc.less_equal(column, float(MAX_COUNT)))
        good = pc.and_(inside, pc.equal(pc.floor(column), column))
        numbers = pc.if_else(good, column, -1.0).cast(pa.int64())
    else:
        raise Refused(
            "D024",
            f"column 'count' of the records holds {kind}, not whole numbers",
            column="count",
            fix="write the counts as whole numbers",
        )
    counts: NDArray[np.int64] = numbers.fill_null(-1).to_numpy().astype(np.int64)
    bad = np.flatnonzero((counts < 0) | (counts > MAX_COUNT))
    if len(bad):
        shown: Any = column
        raise Refused(
            "D032",
            f"some counts are not whole numbers from 0 to {MAX_COUNT:,}",
            column="count",
            fix="correct the records; a count is the number of records in one cell",
            rows=lambda: ((f"row {i + 1}", str(shown[int(i)].as_py())) for i in bad),
        )
    return counts
