"""Compare microdata/persons.csv.gz, if it is there, with the microdata: the same records, one a line."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator

from topdown.publish.verify.reader import open_inside, unreadable
from topdown.publish.verify.session import Session

CSV = "microdata/persons.csv.gz"
_BLOCK = 2**20
_MAX_RATIO = 1100  # deflate cannot shrink further than 1032 to 1


def check_csv(session: Session) -> None:
    """Compare byte for byte what the file unpacks to; UnreadableError (V108) at the first difference."""
    n_bytes, expected = 0, hashlib.sha256()
    most = _MAX_RATIO * _size(session) + _BLOCK
    for line, times in _lines(session):
        n_bytes += len(line) * times
        if times < 0 or n_bytes > most:
            raise unreadable("V108", CSV, "is too short for the records of the microdata")
        while times > 0:
            expected.update(line * min(times, _BLOCK))
            times -= _BLOCK
    found = hashlib.sha256()
    try:
        with open_inside(session.root, CSV) as raw, gzip.GzipFile(fileobj=raw) as file:
            while block := file.read(_BLOCK):
                n_bytes -= len(block)
                if n_bytes < 0:
                    break
                found.update(block)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise unreadable("V108", CSV, f"cannot be unpacked ({type(error).__name__})") from None
    if n_bytes != 0 or found.digest() != expected.digest():
        raise unreadable("V108", CSV, "does not hold the records of the microdata, in order")


def _size(session: Session) -> int:
    try:
        with open_inside(session.root, CSV) as file:
            return os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        raise unreadable("V108", CSV, f"cannot be opened ({type(error).__name__})") from None


def _lines(session: Session) -> Iterator[tuple[bytes, int]]:
    schema = session.plan.schema
    names = ["geocode", *(a.name for a in schema.attributes)]
    yield _line(names), 1
    labels = [[_quoted(label) for label in a.labels] for a in schema.attributes]
    for areas in session.sections():
        population, geocodes = areas.population, areas.tree.geocodes[-1].to_pylist()
        values = [population.value[a.name].tolist() for a in schema.attributes]
        leaves, counts = population.leaf.tolist(), population.count.tolist()
        for row, (leaf, count) in enumerate(zip(leaves, counts, strict=True)):
            rest = ",".join(texts[value[row]] for texts, value in zip(labels, values, strict=True))
            yield f"{_quoted(geocodes[leaf])},{rest}\n".encode(), count


def _line(texts: list[str]) -> bytes:
    return (",".join(_quoted(text) for text in texts) + "\n").encode("utf-8")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text
