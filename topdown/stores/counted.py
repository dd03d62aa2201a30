"""A stream of CSV that counts its rows as they pass, by the bytes alone."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class CountedLines(io.RawIOBase):
    """Counts rows: lines that are not blank, outside quotation marks."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._n, self._open, self._ended = 0, False, True

    def readable(self) -> bool:
        """Say so to the reader."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Pass on what is read, and count."""
        data: bytes = self._stream.read() if size is None or size < 0 else self._stream.read(size)
        if data:
            self._count(np.frombuffer(data, dtype=np.uint8), b'"' in data)
        return data

    def _count(self, data: NDArray[np.uint8], quoted: bool) -> None:
        ends = (data == ord("\n")) | (data == ord("\r"))
        if quoted:
            inside = (np.cumsum(data == ord('"')) + self._open) % 2 == 1
            self._open = bool(inside[-1])
            ends &= ~inside
        elif self._open:
            ends[:] = False
        self._n += int((ends[1:] & ~ends[:-1]).sum()) + int(ends[0] and not self._ended)
        self._ended = bool(ends[-1])

    def n_lines(self) -> int:
        """Return the number of rows, the header's with them; -1 if a quotation mark was never closed."""
        return -1 if self._open else self._n + (not self._ended)
