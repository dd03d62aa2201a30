"""Sealed lines: JSON objects, one a line, each carrying its number, the hash of the line before and its own.

`prev` is the SHA-256 of the bytes of the line before, without its newline (64 zeros for the first). `hash`
is the SHA-256 of the line's canonical JSON without the key `hash`. So a changed byte anywhere is seen, in the
last line too, and what a crash left of an unfinished last line can be told from damage.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from topdown.caps import parse_json

ZEROS = "0" * 64


@dataclass(frozen=True)
class Line:
    """One sealed line: its fields without the seal, and the SHA-256 of its bytes."""

    fields: dict[str, object]
    sha256: str


def canonical(fields: dict[str, object]) -> bytes:
    """Write JSON with sorted keys and no spaces, as UTF-8."""
    return json.dumps(
        fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def seal(fields: dict[str, object], seq: int, prev: str) -> bytes:
    """Return a sealed line with its newline."""
    inner = fields | {"seq": seq, "prev": prev}
    return canonical(inner | {"hash": hashlib.sha256(canonical(inner)).hexdigest()}) + b"\n"


def line_hash(line: bytes) -> str:
    """Return what the next line's `prev` must be."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def read_lines(data: bytes) -> tuple[list[Line], int, bool]:
    """Check a file of sealed lines.

    Returns:
        (lines, n_bytes, whole): the lines, the bytes they take up, and False if the last of them lacks only
        its newline. Bytes after `n_bytes` are an unfinished last line, which never took effect.

    Raises:
        ValueError: with the 1-based number of the damaged line.

    """
    *whole, tail = data.split(b"\n")
    lines: list[Line] = []
    for raw in whole:
        lines.append(_open_line(raw, lines))
    n_bytes = len(data) - len(tail)
    if not tail or not _holds_an_object(tail):
        return lines, n_bytes, True
    lines.append(_open_line(tail, lines))
    return lines, len(data), False


def _open_line(raw: bytes, before: list[Line]) -> Line:
    number = len(before)
    try:
        fields = parse_json(raw)
        stated = fields.pop("hash")
        sound = (
            canonical(fields | {"hash": stated}) == raw
            and hashlib.sha256(canonical(fields)).hexdigest() == stated
            and fields.pop("seq") == number
            and fields.pop("prev") == (before[-1].sha256 if before else ZEROS)
        )
    except (ValueError, KeyError, AttributeError, TypeError):
        sound = False
    if not sound:
        raise ValueError(number + 1)
    return Line(fields, line_hash(raw))


def _holds_an_object(tail: bytes) -> bool:
    """Tell whether a tail without newline starts with a complete JSON object: then it is no torn write."""
    try:
        json.JSONDecoder().raw_decode(tail.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True
