"""Noisy answers of a row group, unpacked from the bytes of their page: Arrow's reader takes four times as long.

Arrow tells the lists of a page apart by two levels a number. Where their lengths are known, the levels are: they are
those of as many zeros.
"""

from __future__ import annotations

import io
import sys
import zlib
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.formats import kernels_numbers
from topdown.formats.kernels_numbers import unpack
from topdown.formats.release_documents import TABLE_OPTIONS

LIST_OF_ANSWERS = pa.list_(pa.field("element", pa.int32(), nullable=False))
IS_COMPILED = sys.byteorder == "little" and not str(kernels_numbers.__file__).endswith(".py")
"""Whether this is faster than Arrow, and numbers lie in memory as in the file."""
_KINDS = bytes.fromhex("150a 1506 1506 1c00 00 00")
"""End of a page's header: how numbers and levels are written, no statistics; structs end."""


def unpacked_lists(chunk: bytes, lengths: bytes) -> NDArray[np.int32] | None:
    """Return the numbers of a column chunk, one list after the other; None where Arrow is to read it.

    Guarantees: the chunk is one page with its checksum, its lists have these lengths, and nothing is behind it.

    Args:
        chunk: of a column of lists, as the file holds it. lengths: of the lists, as bytes of int64.

    Cost: about 1 ns a number.
    """
    n = int(np.frombuffer(lengths, dtype=np.int64).sum())
    levels, body = _levels(lengths), _body(chunk, n)
    if levels is None or body is None or not body.startswith(levels):
        return None
    data = np.frombuffer(body + bytes(8), dtype=np.uint8)
    words = np.lib.stride_tricks.as_strided(data[:8].view(np.int64), (len(body) + 1,), (1,), writeable=False)
    out = np.empty(n, dtype=np.int32)
    if unpack(data[: len(body)], words, len(levels), out) != len(body):
        return None
    out.flags.writeable = False
    return out


def _body(chunk: bytes, n: int) -> bytes | None:
    """Return what is behind the header of the only page of a chunk of n numbers; None if that is not its header."""
    head, kinds, body = chunk.partition(_KINDS)
    checksum = zlib.crc32(body)
    sizes = b"\x15\x00" + 2 * (b"\x15" + _varint(2 * len(body)))  # a page of data; unpacked and packed bytes
    signed = checksum - 2**32 if checksum >= 2**31 else checksum
    of_body = b"\x15" + _varint(2 * signed if signed >= 0 else -2 * signed - 1)
    return body if head + kinds == sizes + of_body + b"\x1c\x15" + _varint(2 * n) + _KINDS else None


def _varint(number: int) -> bytes:
    """Return a whole number, 7 bits a byte, lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


@lru_cache(maxsize=64)
def _levels(lengths: bytes) -> bytes | None:
    """Return how Arrow writes the lengths of lists before their numbers; None if zeros do not fill one page."""
    each = np.frombuffer(lengths, dtype=np.int64)
    ends, zeros = np.concatenate(([0], np.cumsum(each))), np.zeros(int(each.sum()), dtype=np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(zeros), type=LIST_OF_ANSWERS)
    schema, file = pa.schema([pa.field("answers", LIST_OF_ANSWERS, nullable=False)]), io.BytesIO()
    with pq.ParquetWriter(file, schema, **TABLE_OPTIONS["topdown.measurements"]) as writer:
        writer.write_table(pa.table([lists], schema=schema), row_group_size=len(each))
    at = pq.read_metadata(file).row_group(0).column(0)
    chunk = file.getvalue()[at.data_page_offset :][: at.total_compressed_size]
    body, end = _body(chunk, len(zeros)), 0
    if body is None:
        return None
    for _ in ("where lists begin", "which are empty"):
        end += 4 + int.from_bytes(body[end : end + 4], "little")
    return body[:end]
