"""Write files of a release, durably: under a temporary name first, equal content giving equal bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from topdown.plan.plan import Plan

TEMPORARY = ".tmp"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or none of it."""
    with written(path) as file:
        file.write(data)


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be written bit by bit; it has its name once the context ends, and never if that is by an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + TEMPORARY)
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o644), "wb") as file:
        yield file
    _name(part, path)


def write_parquet(
    path: Path, table: pa.Table, document_type: str, plan: Plan, more: Mapping[str, str] | None = None
) -> None:
    """Write a table stamped with its type, its plan and `more`; see `parquet_bytes`."""
    write_bytes(path, parquet_bytes(table, document_type, plan, more))


def parquet_bytes(
    table: pa.Table, document_type: str, plan: Plan, more: Mapping[str, str] | None = None
) -> bytes:
    """Return a table as a stamped file; equal tables and pyarrow versions give equal bytes."""
    stamps = {"type": document_type, "version": "1", "plan_hash": plan.plan_hash} | dict(more or {})
    made = io.BytesIO()
    with pq.ParquetWriter(
        made, table.schema, compression="zstd", store_schema=False, write_page_checksum=True
    ) as writer:
        if table.num_rows:  # else Arrow writes pages of nothing, which no reader is told of
            writer.write_table(table)
        # Without Arrow's schema, the table's own metadata is not written.
        writer.add_key_value_metadata(stamps)
    return made.getvalue()


def _name(part: Path, path: Path) -> None:
    """Give a whole file its name; after a power cut it is there whole, or not at all."""
    _sync(part, os.O_RDONLY)
    part.replace(path)
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
