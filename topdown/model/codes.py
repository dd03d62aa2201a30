"""Geocodes of a level in one block of bytes: a nation's blocks would be 500 MB of separate texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final, overload

import numpy as np
from numpy.typing import NDArray

WASTE = 4  # times the bytes of all codes that equal widths may take


@final
class Codes(Sequence[str]):
    """A frozen sequence of texts, each of as many bytes as the longest; made by `codes_of`.

    Args:
        coded: UTF-8 without zero bytes, shape (n,), kind S. Its order is that of the texts.
    """

    __slots__ = ("coded",)

    def __init__(self, coded: NDArray[np.bytes_]) -> None:
        self.coded = coded.view()
        self.coded.flags.writeable = False

    def __len__(self) -> int:
        return len(self.coded)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Codes: ...
    def __getitem__(self, at: int | slice) -> str | Codes:
        if isinstance(at, slice):
            return Codes(self.coded[at])
        return bytes(self.coded[at]).decode()

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), 4_096):
            for code in self.coded[first : first + 4_096].tolist():
                yield code.decode()

    def __contains__(self, code: object) -> bool:
        return isinstance(code, str) and bool(len(self._places(code)))

    def index(self, code: str, start: int = 0, stop: int | None = None) -> int:
        """Return where a code first stands between `start` and `stop`; ValueError if it does not."""
        inside = range(len(self))[start:stop]
        found = [int(at) for at in self._places(code) if at in inside]
        if not found:
            raise ValueError(f"{code!r} is not there")
        return found[0]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Codes):
            return np.array_equal(self.coded, other.coded)
        if isinstance(other, tuple | list):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _places(self, code: str) -> NDArray[np.intp]:
        wanted = code.encode(errors="replace")
        if not wanted or b"\0" in wanted or len(wanted) > self.coded.dtype.itemsize:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(self.coded == wanted)


def codes_of(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as `Codes`; as a tuple where one is empty, has a zero byte, or is far longer than the others."""
    if isinstance(texts, Codes):
        return texts
    try:
        coded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        return tuple(texts)
    sizes = [len(code) for code in coded]
    most = max(sizes, default=1)
    if not all(sizes) or most * len(sizes) > WASTE * sum(sizes) + 4_096 or any(b"\0" in c for c in coded):
        return tuple(texts)
    return Codes(np.array(coded, dtype=f"S{most}"))


def are_plain(codes: Codes, n_bytes: int) -> bool:
    """Tell whether each code is ASCII and has so many bytes."""
    if codes.coded.dtype.itemsize != n_bytes:
        return False
    each = np.ascontiguousarray(codes.coded).view(np.uint8)
    return bool((each > 0).all() and (each < 128).all())
