"""Open files that nobody attests, following no symlink; read JSON and Thrift strictly."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from topdown.formats.verify_documents import Finding

MAX_JSON_BYTES = 256 * 2**20
_BLOCK = 2**20  # bytes that are read at once


class UnreadableError(Exception):
    """A file cannot be used; carries the finding that says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


def unreadable(
    code: str, path: str, problem: str, why: str = "the file is damaged or was altered"
) -> UnreadableError:
    """Return the exception for a file that cannot be used."""
    return UnreadableError(Finding(code, f"{path} {problem}", file=path, why=why))


def open_inside(root: Path, path: str) -> BinaryIO:
    """Open a regular file below `root`, following no symlink on the way.

    Raises:
        OSError: missing, a symlink, or not a regular file.
        ValueError: the path could leave the folder.
    """
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise ValueError(f"{path!r} is not a plain path inside the folder")
    folder = _folder_inside(root, parts[:-1])
    try:
        descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def names_inside(root: Path, path: str) -> list[str]:
    """Return the names in a folder below `root`; none if there is no such folder, or a symlink leads to it."""
    try:
        folder = _folder_inside(root, path.split("/"))
    except OSError:
        return []
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    finally:
        os.close(folder)


def _folder_inside(root: Path, parts: Iterable[str]) -> int:
    """Open a folder below `root`; OSError if it is missing, or a symlink is on the way."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def sha256_of(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, in hex."""
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _blocks(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield what a file holds, at most so many bytes in all; never room for more than there is."""
    while most and (block := file.read(min(most, _BLOCK))):
        yield block
        most -= len(block)


def read_bytes(root: Path, path: str, code: str, limit: int = MAX_JSON_BYTES) -> bytes:
    """Read a whole small file; UnreadableError if it is missing, odd, or larger than `limit`."""
    try:
        with open_inside(root, path) as file:
            data = b"".join(_blocks(file, limit + 1))
    except FileNotFoundError:
        raise unreadable(code, path, "is missing", "the release is not complete") from None
    except (OSError, ValueError) as error:
        raise unreadable(code, path, f"cannot be opened ({type(error).__name__})") from None
    if len(data) > limit:
        raise unreadable(code, path, f"has more than {limit:,} bytes")
    return data


def parse_json(data: bytes, code: str, path: str) -> dict[str, Any]:
    """Parse a JSON object; no key twice, no NaN or infinity, nothing nested without end."""
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise unreadable(code, path, f"is not JSON ({str(error)[:80]})") from None
    if not isinstance(document, dict):
        raise unreadable(code, path, "is not a JSON object")
    return document


def read_json(root: Path, path: str, code: str, kind: str, version: int = 1) -> dict[str, Any]:
    """Read a JSON document and check its `type` and `version`, and that it has the only bytes it may have (V201)."""
    data = read_bytes(root, path, code)
    document = parse_json(data, code, path)
    stated = document.get("version")
    if document.get("type") == kind and type(stated) is int and stated != version:
        age = "an older" if stated < version else "a newer"
        why = f"it is version {stated} of its format, this verifier reads version {version}"
        fix = "verify it with the version of topdown that made it"
        text = f"{path} was made by {age} version of topdown; {fix}"
        raise UnreadableError(Finding(code, text, file=path, why=why, fix=fix))
    if document.get("type") != kind or type(stated) is not int:
        raise unreadable(code, path, f'is not a "{kind}" document of version {version}')
    check_bytes(path, data, document)
    return document


def canonical_json(document: Any) -> bytes:
    """Return the only bytes a document of a release may have: sorted keys, two spaces, a last newline."""
    return (json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def check_bytes(path: str, data: bytes, document: Any) -> None:
    """Refuse a document whose bytes are not those that a writer of the format gives to what it says (V201)."""
    try:
        same = data == canonical_json(document)
    except ValueError:  # half of a surrogate pair is no text
        same = False
    if not same:
        why = "the same content in other bytes could carry a message"
        raise unreadable("V201", path, "is not written in its canonical form", why)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is given twice")
    return out


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number")


T = TypeVar("T")


class NotAvailableError(Exception):
    """Something a check needs could not be read; `owner` is the check that reports why."""

    def __init__(self, owner: str, finding: Finding) -> None:
        super().__init__(owner, finding)
        self.owner, self.finding = owner, finding

    def __str__(self) -> str:
        return self.finding.text


class LoadedOnce:
    """Values by key, each loaded when it is first asked for."""

    def __init__(self) -> None:
        self._memo: dict[str, Any] = {}

    def __call__(self, key: str, owner: str, load: Callable[[], T]) -> T:
        """Return `load()`, computed once; NotAvailableError if it cannot be read."""
        if key not in self._memo:
            try:
                self._memo[key] = load()
            except UnreadableError as error:
                self._memo[key] = NotAvailableError(owner, error.finding)
        value = self._memo[key]
        if isinstance(value, NotAvailableError):
            raise value.with_traceback(None)  # which would hold what was read
        return value  # type: ignore[no-any-return]

    def forget(self, key: str) -> None:
        """Load a value anew when it is asked for again."""
        del self._memo[key]


STRUCT, LIST, _SET, _MAP, _BINARY, _DOUBLE, _BYTE = 12, 9, 10, 11, 8, 7, 3
_DEEPEST = 16
Fields = dict[tuple[int, int], Any]
"""Values of a struct of Thrift's compact protocol, by field number and kind; whole numbers as they are written."""


def signed(number: int) -> int:
    """Return the number that a whole number of Thrift's stands for."""
    return (number >> 1) ^ -(number & 1)


def zigzag(number: int) -> int:
    """Return how a whole number is written, the inverse of `signed`."""
    return 2 * number if number >= 0 else -2 * number - 1


class Items(list[Any]):
    """A list, and of what kind its values are: that too is part of what is written."""

    def __init__(self, kind: int, values: Iterable[Any]) -> None:
        super().__init__(values)
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and self.kind == other.kind and super().__eq__(other)

    __hash__ = None


class ThriftReader:
    """Reads values one after the other; a struct becomes {field: value}."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self._at = data, 0

    @property
    def n_read(self) -> int:
        """Number of bytes that were read."""
        return self._at

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                if byte == 0 and shift > 7:
                    raise ValueError("a number is written longer than it is")
                return value
            if shift > 63:
                raise ValueError("a number has no end")

    def _bytes(self, n_bytes: int) -> bytes:
        self._at += n_bytes
        if self._at > len(self._data):
            raise ValueError("it ends too early")
        return bytes(self._data[self._at - n_bytes : self._at])

    def struct(self, depth: int) -> Fields:
        """Read a struct: its values by field number and kind."""
        if depth > _DEEPEST:
            raise ValueError("it is nested too deep")
        fields: Fields = {}
        field = 0
        while head := self._byte():
            step = head >> 4 or signed(self._varint()) - field
            if step < 1 or (step < 16) != (head >> 4 > 0):
                raise ValueError("its fields are out of order, or a number is written longer than it is")
            field += step
            kind = head & 15
            fields[field, kind] = (
                kind if kind in (1, 2) else self._value(kind, depth)
            )  # a flag is its own kind
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, _SET):
            head = self._byte()
            n_items = self._varint() if head >> 4 == 15 else head >> 4
            if (n_items < 15) != (head >> 4 < 15):
                raise ValueError("a number is written longer than it is")
            return Items(head & 15, [self._value(head & 15, depth + 1) for _ in self._counted(n_items)])
        if kind == _MAP:
            n_items = self._varint()
            kinds = self._byte() if n_items else 0
            each = self._counted(n_items)
            return Items(
                kinds, [(self._value(kinds >> 4, depth), self._value(kinds & 15, depth)) for _ in each]
            )
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (1, 2, _BYTE, _DOUBLE):
            return self._bytes(8 if kind == _DOUBLE else 1)
        if kind in (4, 5, 6):
            return self._varint()
        raise ValueError(f"there is no kind {kind}")

    def _counted(self, n_items: int) -> range:
        """Return a range of so many items, each of which takes a byte at least."""
        if n_items > len(self._data) - self._at:
            raise ValueError("it claims more than it holds")
        return range(n_items)


def read_footer(data: bytes) -> Fields:
    """Return what the footer of a Parquet file says.

    Raises:
        ValueError, LookupError: it is no footer, or its bytes are not the only ones that say it.
    """
    length = int.from_bytes(data[-8:-4], "little")
    reader = ThriftReader(data[-8 - length : -8])
    fields = reader.struct(0)
    if reader.n_read != length:
        raise ValueError("its footer has more than it says")
    return fields
