"""What a ledger says: its records as values, and what they add up to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from topdown.errors import BudgetError
from topdown.ledger.lines import ZEROS, read_lines

UNITS = ("rho", "epsilon")
_EXACT = re.compile(r"[0-9]+(/[1-9][0-9]*)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


@dataclass(frozen=True)
class Opened:
    """First record: which data set this ledger is of."""

    data_set: str


@dataclass(frozen=True)
class Intent:
    """Noise of this cost is about to be drawn.

    Args:
        release, plan_hash: what it is for.
        loss: exact; `loss_name` is its unit, rho (zCDP) or epsilon (pure DP).
        attempt: 1 for the first intent of a measurement, more after a crash.
        covers: names of the levels whose noise may be drawn once under this intent.
        journal: id of the measurement's journal, so that no other folder can draw under it.
        limit, limit_reason: the limit it was checked against, filled in by the ledger.

    """

    release: str
    plan_hash: str
    loss: Fraction
    loss_name: str
    attempt: int
    covers: tuple[str, ...]
    journal: str
    limit: Fraction = Fraction(0)
    limit_reason: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Fraction) or not isinstance(self.limit, Fraction):
            raise TypeError('a loss is an exact Fraction; write Fraction("1/2"), never a float')
        if self.loss <= 0 or self.loss_name not in UNITS or not self.covers:
            raise ValueError("an intent needs a positive loss, a unit (rho, epsilon) and levels it covers")


@dataclass(frozen=True)
class Commit:
    """The noise drawn under `intents` is in the files whose digest is `files`; from now on it may be read."""

    intents: tuple[int, ...]
    plan_hash: str
    journal: str
    files: str


@dataclass(frozen=True)
class Void:
    """The noise drawn under intent `intent` never left the room and is destroyed; `witness` saw to it."""

    intent: int
    reason: str
    witness: str


Event = Opened | Intent | Commit | Void
KINDS: dict[str, type[Opened] | type[Intent] | type[Commit] | type[Void]] = {
    "open": Opened,
    "intent": Intent,
    "commit": Commit,
    "void": Void,
}


@dataclass(frozen=True)
class Entry:
    """One record with its place, its time (UTC) and the SHA-256 of its line."""

    seq: int
    time: str
    event: Event
    sha256: str


@dataclass(frozen=True)
class Book:
    """All records of a ledger, checked one against the other."""

    entries: tuple[Entry, ...] = ()

    @property
    def head(self) -> str:
        """SHA-256 of the last line: print it elsewhere, and a ledger cut back later is found out."""
        return self.entries[-1].sha256 if self.entries else ZEROS

    @property
    def data_set(self) -> str:
        """Name of the data set, empty if the ledger is."""
        first = self.entries[0].event if self.entries else None
        return first.data_set if isinstance(first, Opened) else ""

    @cached_property
    def intents(self) -> dict[int, Intent]:
        """Every intent by its number, voided ones included."""
        return {e.seq: e.event for e in self.entries if isinstance(e.event, Intent)}

    @cached_property
    def voided(self) -> frozenset[int]:
        """Numbers of the intents taken back."""
        return frozenset(e.event.intent for e in self.entries if isinstance(e.event, Void))

    @cached_property
    def committed(self) -> frozenset[int]:
        """Numbers of the intents whose noise may be read."""
        return frozenset(i for e in self.entries if isinstance(e.event, Commit) for i in e.event.intents)

    @property
    def loss_name(self) -> str:
        """Unit of every loss in this ledger; empty while there is none."""
        return next((intent.loss_name for intent in self.intents.values()), "")

    @property
    def charged(self) -> Fraction:
        """Sum of the losses of all intents that were not voided, finished or not."""
        return sum((i.loss for seq, i in self.intents.items() if seq not in self.voided), Fraction(0))

    def of_journal(self, journal: str) -> dict[int, Intent]:
        """Return the intents one measurement may draw under, by number."""
        return {s: i for s, i in self.intents.items() if i.journal == journal and s not in self.voided}

    def commit_of(self, journal: str) -> Commit | None:
        """Return the commit of one measurement, if there is one."""
        found = (e.event for e in self.entries if isinstance(e.event, Commit) and e.event.journal == journal)
        return next(found, None)

    def holds(self, seq: int, sha256: str) -> bool:
        """Tell whether record `seq` is still the one with this hash."""
        return seq < len(self.entries) and self.entries[seq].sha256 == sha256

    def problem(self, event: Event) -> str:
        """Say why a record cannot come next; empty if it can."""
        if isinstance(event, Opened):
            return "it is already open" if self.entries else ""
        if not self.entries:
            return "its first record does not open it"
        if isinstance(event, Intent):
            return "" if self.loss_name in ("", event.loss_name) else "it mixes rho and epsilon"
        named = event.intents if isinstance(event, Commit) else (event.intent,)
        for seq in named:
            if seq not in self.intents:
                return f"record {seq} is no intent"
            if seq in self.voided or seq in self.committed:
                return f"intent {seq} is already {'voided' if seq in self.voided else 'committed'}"
        if isinstance(event, Commit):
            return "" if named else "a commit names no intent"
        return "" if event.reason and event.witness else "a void needs a reason and a witness"

    def plus(self, event: Event, time: str, sha256: str) -> Book:
        """Return the book with one more record; ValueError if it cannot come next."""
        if self.problem(event):
            raise ValueError(self.problem(event))
        return Book((*self.entries, Entry(len(self.entries), time, event, sha256)))


def read_book(data: bytes, path: Path) -> tuple[Book, int, bool]:
    """Check the bytes of a ledger; see `read_lines` for what is returned beside the book.

    Raises:
        BudgetError: a changed, missing, repeated or senseless record (B006).

    """
    book, where = Book(), 0
    try:
        lines, n_bytes, whole = read_lines(data)
        for line in lines:
            where = len(book.entries) + 1
            book = book.plus(*from_fields(line.fields), line.sha256)
    except (ValueError, TypeError) as error:
        where = where or error.args[0]
        raise BudgetError(
            f"ledger damaged: {path}, line {where} is not what was written",
            code="B006",
            file=str(path),
            line=where,
            fix="restore the ledger from a copy; nothing can be spent until its chain of hashes is whole",
        ) from None
    return book, n_bytes, whole


def exact_text(value: Fraction) -> str:
    """Write an exact number as "a/b", or "a" if it is whole."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def to_fields(event: Event) -> dict[str, object]:
    """Return a record as JSON-ready fields with its kind."""
    kind = next(name for name, cls in KINDS.items() if isinstance(event, cls))
    plain: dict[str, object] = {"kind": kind}
    for item in fields(event):
        value = getattr(event, item.name)
        if isinstance(value, Fraction):
            value = exact_text(value)
        plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain


def from_fields(plain: dict[str, object]) -> tuple[Event, str]:
    """Read a record back, strictly; ValueError if a field is missing, unknown or of the wrong type."""
    rest = dict(plain)
    kind, time = rest.pop("kind", None), rest.pop("time", None)
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None or not isinstance(time, str) or not _TIME.fullmatch(time):
        raise ValueError("unknown kind or no time")
    if set(rest) != {item.name for item in fields(cls)}:
        raise ValueError("missing or unknown field")
    values = {item.name: _READERS[str(item.type)](rest[item.name]) for item in fields(cls)}
    return cls(**values), time  # type: ignore[arg-type]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("not a whole number")
    return value


def _fraction(value: object) -> Fraction:
    text = _text(value)
    if not _EXACT.fullmatch(text) or exact_text(Fraction(text)) != text:
        raise ValueError("not an exact number in lowest terms")
    return Fraction(text)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


_READERS: dict[str, Callable[[object], object]] = {
    "str": _text,
    "int": _whole,
    "Fraction": _fraction,
    "tuple[str, ...]": lambda value: tuple(_text(v) for v in _list(value)),
    "tuple[int, ...]": lambda value: tuple(_whole(v) for v in _list(value)),
}
