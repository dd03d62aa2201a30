"""Read Parquet nobody vouches for: stamps, columns and sizes are checked before any value is read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.publish.verify.footer import describes_every_column
from topdown.publish.verify.reader import UnreadableError, open_inside, unreadable
from topdown.publish.verify.result import Finding

MAX_ROWS = 2**30
BYTES_A_VALUE = 256
ROWS_A_BYTE = 200  # run-length coding of a true table never packs more
MAGIC = b"PAR1"
WRITER = re.compile(r"parquet-cpp-arrow version [0-9]+(\.[0-9]+){0,3}(-SNAPSHOT)?")
TEXT = pa.string()
WHOLE = pa.int64()
REAL = pa.float64()


class ParquetTable:
    """A Parquet file whose columns, stamps and sizes were checked before any value is read.

    Args:
        root, path: where it is.
        code: of the findings about it.
        kind: its `type` stamp.
        columns: name and type of every column, in order; text columns are read as dictionaries.
        max_rows: most rows a true file can have.
        stamps: further stamps it must carry (an empty one must be absent); None if none is due. No others may be there.
        max_list_values: most values of its list column, if it has one.

    Raises:
        UnreadableError: anything does not fit.

    """

    def __init__(
        self,
        root: Path,
        path: str,
        code: str,
        kind: str,
        columns: dict[str, pa.DataType],
        max_rows: int,
        stamps: dict[str, str] | None,
        max_list_values: int = 0,
    ) -> None:
        self.path, self._code, self._columns = path, code, columns
        text = [name for name, type_ in columns.items() if type_ == TEXT]
        try:
            self._stream = open_inside(root, path)
        except FileNotFoundError:
            raise unreadable(code, path, "is missing", "the release is not complete") from None
        except (OSError, ValueError) as error:
            raise unreadable(code, path, f"cannot be opened ({type(error).__name__})") from None
        try:
            size = os.fstat(self._stream.fileno()).st_size
            self._check_footer(size)
            # One thread: Arrow's own drop the stream's bytes late, and abort if Python ends meanwhile.
            self._file = pq.ParquetFile(self._stream, read_dictionary=text, pre_buffer=False)
            self._check_stamps({"type": kind, "version": "1"} | (stamps or {}))
            self._check_size(max_rows, max_list_values, size)
            self._check_layout(size)
        except UnreadableError:
            self.close()
            raise
        except Exception as error:  # a damaged footer can surface as almost anything
            self.close()
            raise unreadable(code, path, f"is not a whole Parquet file ({type(error).__name__})") from None

    def _check_footer(self, size: int) -> None:
        """Refuse a footer that leaves out a column; what is no footer at all is Arrow's to refuse."""
        self._stream.seek(max(0, size - 4 - len(MAGIC)))
        length = int.from_bytes(self._stream.read(4), "little")
        if length > size:
            return
        self._stream.seek(max(0, size - 4 - len(MAGIC) - length))
        if not describes_every_column(self._stream.read(length)):
            raise unreadable(self._code, self.path, "does not describe every column")
        self._stream.seek(0)

    def _check_stamps(self, stamps: dict[str, str]) -> None:
        """Compare the stamps; no other text may stand beside them."""
        have = self._file.metadata.metadata or {}
        names = {key.decode("utf-8", "replace") for key in have}
        other = sorted(names - {key for key, wanted in stamps.items() if wanted})
        if other:
            text = f"carries a stamp {other[0][:40]!r} that the format does not have"
            raise unreadable(self._code, self.path, text)
        for key, wanted in stamps.items():
            found = have.get(key.encode(), b"").decode("utf-8", "replace")
            if found != wanted:
                text = f"{self.path} does not carry the right stamp {key!r}"
                why = "it belongs to another run, or is no such file"
                raise UnreadableError(
                    Finding(self._code, text, self.path, None, None, wanted[:16], found[:16], why)
                )

    def _check_size(self, max_rows: int, max_values: int, size: int) -> None:
        meta = self._file.metadata
        found = {
            f.name: (f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
            for f in self._file.schema_arrow
        }
        if list(found) != list(self._columns) or not all(
            _same(found[n], t) for n, t in self._columns.items()
        ):
            shown = ", ".join(f"{name} {type_}" for name, type_ in found.items())
            raise unreadable(
                self._code, self.path, f"has other columns than the format asks for: {shown[:200]}"
            )
        self.n_rows = int(meta.num_rows)
        if not 0 <= self.n_rows <= min(max_rows, MAX_ROWS, 2**20 + ROWS_A_BYTE * size):
            raise unreadable(
                self._code, self.path, f"claims {self.n_rows:,} rows, more than it can truly have"
            )
        groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
        values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
        claimed = sum(int(group.total_byte_size) for group in groups)
        allowed = self.n_rows * len(self._columns) + max_values
        if values > allowed or claimed > 2**24 + BYTES_A_VALUE * allowed:
            raise unreadable(self._code, self.path, "claims more data than it can truly have")

    def _check_layout(self, size: int) -> None:
        """Refuse bytes that no reader reads: pages fill the file up to the footer, which holds no further text."""
        meta, spans = self._file.metadata, []
        for group in range(meta.num_row_groups):
            for i in range(meta.num_columns):
                column = meta.row_group(group).column(i)
                start = column.data_page_offset
                if column.has_dictionary_page and column.dictionary_page_offset:
                    start = min(start, column.dictionary_page_offset)
                spans.append((start, start + column.total_compressed_size))
        place = len(MAGIC)
        for start, end in sorted(spans):
            if start != place:
                raise unreadable(self._code, self.path, "has bytes between its pages")
            place = end
        self._stream.seek(size - 4 - len(MAGIC))
        footer = int.from_bytes(self._stream.read(4), "little")
        if place + footer + 4 + len(MAGIC) != size:
            raise unreadable(self._code, self.path, "has bytes between its pages and its footer")
        notes = [key for field in self._file.schema_arrow for key in (field.metadata or {})]
        if not WRITER.fullmatch(meta.created_by or "") or set(notes) - {b"PARQUET:field_id"}:
            raise unreadable(self._code, self.path, "carries text that the format does not have")

    def read(self) -> pa.Table:
        """Read all rows; UnreadableError if a page is damaged or a value is missing."""
        try:
            table = self._file.read(use_threads=False)
            table.validate(full=True)
        except Exception as error:
            raise unreadable(self._code, self.path, f"has a damaged page ({type(error).__name__})") from None
        finally:
            self.close()
        if table.num_rows != self.n_rows:
            raise unreadable(self._code, self.path, "has other row counts than its footer says")
        for name in table.column_names:
            if table.column(name).null_count:
                raise unreadable(self._code, self.path, f"has an empty value in column {name!r}")
        return table

    def batches(self, rows: int) -> Any:
        """Iterate over record batches of at most `rows` rows; UnreadableError if a page is damaged."""
        try:
            yield from self._file.iter_batches(batch_size=rows, use_threads=False)
        except Exception as error:
            raise unreadable(self._code, self.path, f"has a damaged page ({type(error).__name__})") from None
        finally:
            self.close()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted == TEXT:
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(found) and found.value_type == wanted.value_type)
    return bool(found == wanted)


def codes(column: Any, known: pa.Array) -> NDArray[np.int64]:
    """Return the position in `known` of each text of a dictionary column; -1 where it is not known."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = []
    for chunk in chunks:
        place = pc.fill_null(pc.index_in(chunk.dictionary.cast(TEXT), value_set=known), -1)
        if len(place) == 0:
            parts.append(np.full(len(chunk), -1, dtype=np.int64))
            continue
        index = pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        out = place.to_numpy(zero_copy_only=False).astype(np.int64)[index]
        out[index < 0] = -1
        parts.append(out)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def whole(column: Any) -> NDArray[np.int64]:
    """Return an int64 column as an array."""
    return np.ascontiguousarray(column.to_numpy(), dtype=np.int64)
