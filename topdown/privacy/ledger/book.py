"""What a ledger says: sealed lines, the records in them checked one against the other, and what they add up to.

Sealed lines are JSON objects, one a line, each carrying its number, the hash of the line before and its own. `prev`
is the SHA-256 of the bytes of the line before, without its newline (64 zeros for the first). `hash` is the SHA-256 of
the line's canonical JSON without the key `hash`. So a changed byte anywhere is seen, in the last line too, and what a
crash left of an unfinished last line can be told from damage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from topdown.errors import BudgetError
from topdown.formats.caps import parse_json
from topdown.privacy.ledger.ledger_records import (
    Attested,
    Begun,
    Charge,
    Choice,
    Commit,
    Drawn,
    Event,
    LedgerBinding,
    Opened,
    Refund,
    from_fields,
    level_of,
)

ZEROS = "0" * 64


@dataclass(frozen=True)
class SealedLine:
    """One sealed line: its fields without the seal, and the SHA-256 of its bytes."""

    fields: dict[str, object]
    sha256: str


def canonical_line(fields: dict[str, object]) -> bytes:
    """Write JSON with sorted keys and no spaces, as UTF-8."""
    return json.dumps(
        fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def time_text() -> str:
    """Return the time now as records have it (UTC)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seal(fields: dict[str, object], seq: int, prev: str) -> bytes:
    """Return a sealed line with its newline."""
    inner = fields | {"seq": seq, "prev": prev}
    return canonical_line(inner | {"hash": hashlib.sha256(canonical_line(inner)).hexdigest()}) + b"\n"


def line_hash(line: bytes) -> str:
    """Return what the next line's `prev` must be."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def read_lines(data: bytes) -> tuple[list[SealedLine], int, bool]:
    """Check a file of sealed lines.

    Returns:
        (lines, n_bytes, whole): the lines, the bytes they take up, and False if the last of them lacks only
        its newline. Bytes after `n_bytes` are an unfinished last line, which never took effect.

    Raises:
        ValueError: with the 1-based number of the damaged line.

    """
    *whole, tail = data.split(b"\n")
    lines: list[SealedLine] = []
    for raw in whole:
        lines.append(_open_line(raw, lines))
    n_bytes = len(data) - len(tail)
    if not tail or not _holds_an_object(tail):
        return lines, n_bytes, True
    lines.append(_open_line(tail, lines))
    return lines, len(data), False


def _open_line(raw: bytes, before: list[SealedLine]) -> SealedLine:
    number = len(before)
    try:
        fields = parse_json(raw)
        stated = fields.pop("hash")
        sound = (
            canonical_line(fields | {"hash": stated}) == raw
            and hashlib.sha256(canonical_line(fields)).hexdigest() == stated
            and fields.pop("seq") == number
            and fields.pop("prev") == (before[-1].sha256 if before else ZEROS)
        )
    except (ValueError, KeyError, AttributeError, TypeError):
        sound = False
    if not sound:
        raise ValueError(number + 1)
    return SealedLine(fields, line_hash(raw))


def _holds_an_object(tail: bytes) -> bool:
    """Tell whether a tail without newline starts with a complete JSON object: then it is no torn write."""
    try:
        json.JSONDecoder().raw_decode(tail.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True)
class Entry:
    """One record with its place, its time (UTC) and the SHA-256 of its line."""

    seq: int
    time: str
    event: Event
    sha256: str


class Book:
    """All records of a ledger; grows with `add`, which costs the same however long it is.

    Attributes:
        entries: every record in order.
        intents: every intent, of noise or of a choice, by its number, voided ones included.
        voided, committed: numbers of the intents taken back, and of those whose noise may be read.
        begun: (journal, part) -> intents it was begun under, in order.
        drawn: (intent, part) -> SHA-256 of the file the part became.
        charged: sum of the losses of all intents that were not voided, finished or not.
        charged_delta: the same of their deltas; 0 unless losses are pairs.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.intents: dict[int, Charge] = {}
        self.voided: set[int] = set()
        self.committed: set[int] = set()
        self.begun: dict[tuple[str, str], list[int]] = {}
        self.drawn: dict[tuple[int, str], str] = {}
        self.charged = self.charged_delta = Fraction(0)
        self._of_journal: dict[str, list[int]] = {}
        self._commits: dict[str, Commit] = {}

    @property
    def head(self) -> str:
        """SHA-256 of the last line: print it elsewhere, and a ledger cut back later is found out."""
        return self.entries[-1].sha256 if self.entries else ZEROS

    @property
    def opened(self) -> Opened | None:
        """The first record; None while there is none."""
        first = self.entries[0].event if self.entries else None
        return first if isinstance(first, Opened) else None

    @property
    def binding(self) -> LedgerBinding:
        """What the ledger is bound to; ValueError while it is empty."""
        if self.opened is None:
            raise ValueError("an empty ledger is bound to nothing")
        return self.opened.binding

    @property
    def attestations(self) -> list[Entry]:
        """Every record by which somebody attested that the ledger is complete."""
        return [entry for entry in self.entries if isinstance(entry.event, Attested)]

    @property
    def refunds(self) -> list[Entry]:
        """Every record by which a charge was taken back."""
        return [entry for entry in self.entries if isinstance(entry.event, Refund)]

    @property
    def live(self) -> dict[int, Charge]:
        """Every intent that was not voided, by its number."""
        return {seq: intent for seq, intent in self.intents.items() if seq not in self.voided}

    def of_journal(self, journal: str) -> dict[int, Charge]:
        """Return the intents one measurement may draw under, by number."""
        return {s: self.intents[s] for s in self._of_journal.get(journal, ()) if s not in self.voided}

    def n_attempts(self, journal: str) -> int:
        """Return how many intents a measurement has, voided ones included."""
        return len(self._of_journal.get(journal, ()))

    def commit_of(self, journal: str) -> Commit | None:
        """Return the commit of one measurement, if there is one."""
        return self._commits.get(journal)

    def problem(self, event: Event) -> str:
        """Say why a record cannot come next; empty if it can."""
        if isinstance(event, Opened):
            return "it is already open" if self.entries else ""
        if not self.entries:
            return "its first record does not open it"
        if isinstance(event, Charge):
            if isinstance(event, Choice) and event.neighbours != self.binding.neighbours:
                return "it mixes neighbour relations"
            return "" if self.binding.loss_name == event.loss_name else "it mixes losses of two kinds"
        if isinstance(event, Commit):
            return self._commit_problem(event)
        if isinstance(event, Refund):
            return self._gone(event.intent) or (
                "" if event.reason and event.witness else "a void needs a reason and a witness"
            )
        if isinstance(event, Begun | Drawn):
            return self._part_problem(event)
        return "" if event.reason else "whoever attests that a ledger is complete gives a reason"

    def _gone(self, seq: int) -> str:
        if seq not in self.intents:
            return f"record {seq} is no intent"
        if seq in self.voided or seq in self.committed:
            return f"intent {seq} is already {'voided' if seq in self.voided else 'committed'}"
        return ""

    def _commit_problem(self, commit: Commit) -> str:
        gone = next(filter(None, map(self._gone, commit.intents)), "")
        if gone or not commit.intents:
            return gone or "a commit names no intent"
        if any(self.intents[seq].journal != commit.journal for seq in commit.intents):
            return "a commit names an intent of another journal"
        return "it is committed already" if commit.journal in self._commits else ""

    def _part_problem(self, event: Begun | Drawn) -> str:
        gone = self._gone(event.intent)
        if gone:
            return gone
        intent = self.intents[event.intent]
        try:
            covered = level_of(event.part) in intent.covers
        except ValueError as error:
            return str(error)
        if not covered:
            return f"intent {event.intent} does not cover {event.part}"
        begun = event.intent in self.begun.get((intent.journal, event.part), ())
        if isinstance(event, Begun):
            return f"{event.part} was begun under intent {event.intent} before" if begun else ""
        if not begun:
            return f"{event.part} was not begun under intent {event.intent}"
        recorded = (event.intent, event.part) in self.drawn
        return f"{event.part} was drawn under intent {event.intent} before" if recorded else ""

    def add(self, event: Event, time: str, sha256: str) -> Entry:
        """Append one record and return it; ValueError if it cannot come next."""
        problem = self.problem(event)
        if problem:
            raise ValueError(problem)
        entry = Entry(len(self.entries), time, event, sha256)
        self.entries.append(entry)
        if isinstance(event, Charge):
            self.intents[entry.seq] = event
            self._of_journal.setdefault(event.journal, []).append(entry.seq)
            self.charged += event.loss
            self.charged_delta += event.delta
        elif isinstance(event, Begun):
            self.begun.setdefault((self.intents[event.intent].journal, event.part), []).append(event.intent)
        elif isinstance(event, Drawn):
            self.drawn[event.intent, event.part] = event.sha256
        elif isinstance(event, Commit):
            self.committed.update(event.intents)
            self._commits[event.journal] = event
        elif isinstance(event, Refund):
            self.voided.add(event.intent)
            self.charged -= self.intents[event.intent].loss
            self.charged_delta -= self.intents[event.intent].delta
        return entry


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
            event, time = from_fields(line.fields)
            book.add(event, time, line.sha256)
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


def losses_by_plan(intents: Iterable[Charge]) -> dict[str, Fraction]:
    """Add the losses of intents by plan hash."""
    found: dict[str, Fraction] = {}
    for intent in intents:
        found[intent.plan_hash] = found.get(intent.plan_hash, Fraction(0)) + intent.loss
    return found


UNNAMED = "somebody whom the ledger does not name"


def ledger_history(book: Book) -> dict[str, Any]:
    """Return which ledger it is, its last record and that one's date, and what persons attested or took back."""
    opened, last = book.opened, book.entries[-1]
    attested = [(e, e.event) for e in book.attestations if isinstance(e.event, Attested)]
    refunded = [(e, e.event) for e in book.refunds if isinstance(e.event, Refund)]
    return {
        "ledger": "" if opened is None else opened.ledger,
        "up_to": {"record": last.seq, "date": last.time[:10]},
        "attestations": [
            {"record": e.seq, "date": e.time[:10], "by": said.by, "reason": said.reason}
            for e, said in attested
        ],
        "refunds": [
            {"record": e.seq, "date": e.time[:10], "intent": r.intent, "by": r.witness, "reason": r.reason}
            for e, r in refunded
        ],
    }


def history_lines(history: dict[str, Any]) -> list[str]:
    """Return a line for every attestation and refund of a ledger."""
    lines = [
        f"Attested on {one['date']} by {one['by'] or UNNAMED}: the ledger is complete (record {one['record']}: "
        f"{one['reason']})."
        for one in history["attestations"]
    ]
    return lines + [
        f"Taken back on {one['date']}: the charge of record {one['intent']}, whose noise {one['by']} saw destroyed "
        f"({one['reason']})."
        for one in history["refunds"]
    ]
