"""Tables in Arrow's own format: files (.arrow, .feather) and streams (.arrows), a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

ENDINGS = (".arrow", ".feather", ".arrows")


def is_arrow(path: Path) -> bool:
    """Tell a file of Arrow by its name."""
    return path.suffix in ENDINGS


def names(path: Path) -> list[str]:
    """Return the columns; ArrowInvalid if it is no file of Arrow."""
    with pa.OSFile(str(path)) as file, _reader(path, file) as reader:
        return list(reader.schema.names)


def batches(path: Path, columns: Sequence[str], most_bytes: int) -> Iterator[pa.RecordBatch | None]:
    """Read columns; the first batch is empty. None, and then nothing, once more bytes were unpacked than may be.

    Raises:
        ArrowException: it cannot be read to its end, or an array in it is damaged.
    """
    n_bytes = 0
    with pa.OSFile(str(path)) as file, _reader(path, file) as reader:
        yield pa.RecordBatch.from_pylist([], pa.schema([reader.schema.field(name) for name in columns]))
        for batch in _each(reader):
            n_bytes += batch.nbytes
            if n_bytes > most_bytes:
                yield None
                return
            wanted = batch.select(list(columns))
            wanted.validate(full=True)
            yield wanted


def _reader(path: Path, file: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    return pa.ipc.open_stream(file) if path.suffix == ".arrows" else pa.ipc.open_file(file)


def _each(reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)
    else:
        yield from reader
