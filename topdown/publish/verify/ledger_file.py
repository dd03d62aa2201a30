"""Read ledger.jsonl anew: canonical lines, each sealed by its own hash and by the hash of the line before."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from topdown.publish.verify.arithmetic import fraction
from topdown.publish.verify.plan_file import canonical
from topdown.publish.verify.reader import UnreadableError, parse_json, read_bytes
from topdown.publish.verify.result import Finding

FILE = "ledger.jsonl"


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    seq: int
    prev: str
    hash: str
    time: str


class Opened(_Line, frozen=True, kw_only=True, tag="open"):
    """First line: which data set the ledger is of."""

    data_set: str


class Intent(_Line, frozen=True, kw_only=True, tag="intent"):
    """Noise of this cost was about to be drawn at the levels in `covers`."""

    release: str
    plan_hash: str
    loss: str
    loss_name: str
    attempt: int
    covers: tuple[str, ...]
    journal: str
    limit: str
    limit_reason: str


class Commit(_Line, frozen=True, kw_only=True, tag="commit"):
    """The noise drawn under `intents` is in the files whose digest is `files`."""

    intents: tuple[int, ...]
    plan_hash: str
    journal: str
    files: str


class Void(_Line, frozen=True, kw_only=True, tag="void"):
    """The noise of one intent was destroyed before anyone saw it."""

    intent: int
    reason: str
    witness: str


Line = Opened | Intent | Commit | Void


@dataclass(frozen=True)
class LedgerFile:
    """A ledger as read: its lines, and the SHA-256 of the last one."""

    lines: tuple[Line, ...]
    head: str

    @property
    def intents(self) -> dict[int, Intent]:
        """Every intent by its number, voided ones included."""
        return {line.seq: line for line in self.lines if isinstance(line, Intent)}

    @property
    def commits(self) -> tuple[Commit, ...]:
        """Every commit."""
        return tuple(line for line in self.lines if isinstance(line, Commit))

    @property
    def voided(self) -> frozenset[int]:
        """Numbers of the intents taken back."""
        return frozenset(line.intent for line in self.lines if isinstance(line, Void))

    @property
    def charged(self) -> Fraction:
        """Sum of the losses of all intents that were not taken back."""
        return sum(
            (fraction(i.loss) for seq, i in self.intents.items() if seq not in self.voided), Fraction(0)
        )


def load_ledger(root: Path) -> LedgerFile:
    """Read ledger.jsonl; UnreadableError if a line is damaged (V020), or the chain is broken (V021)."""
    data = read_bytes(root, FILE, "V020")
    rows = data.split(b"\n")
    if rows.pop() != b"" or not rows:
        raise _broken("V021", "ends in the middle of a line", len(rows) + 1)
    previous = "0" * 64
    lines: list[Line] = []
    for row, raw in enumerate(rows, start=1):
        line = _line(raw, row)
        if line.seq != row - 1 or line.prev != previous:
            raise _broken("V021", "has a broken chain: a line was changed, removed or moved", row)
        previous = hashlib.sha256(raw).hexdigest()
        lines.append(line)
    return LedgerFile(tuple(lines), previous)


def _line(raw: bytes, row: int) -> Line:
    document = sealed(raw)
    if document is None:
        raise _broken("V021", "has a line that does not match its own hash", row)
    try:
        line: Line = msgspec.convert(document, Line, strict=True)
        if isinstance(line, Intent):
            fraction(line.loss)
    except (ValueError, TypeError):
        raise _broken("V020", "has a line that is not what a ledger holds", row) from None
    return line


def sealed(raw: bytes) -> dict[str, Any] | None:
    """Parse a line that carries the hash of its own canonical JSON; None if it is not one."""
    try:
        document = parse_json(raw, "V020", FILE)
        inner = {key: value for key, value in document.items() if key != "hash"}
        stated = hashlib.sha256(canonical(inner)).hexdigest() == document.get("hash")
        return document if stated and canonical(document) == raw else None
    except (UnreadableError, ValueError, TypeError):
        return None


def _broken(code: str, text: str, row: int) -> UnreadableError:
    fix = "ask the publisher for the ledger of the data set; do not use this copy"
    return UnreadableError(
        Finding(code, f"ledger.jsonl {text}", FILE, row, why="the ledger was altered", fix=fix)
    )
