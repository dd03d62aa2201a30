"""Charge, draw, commit, publish: the order of steps that no crash can turn into a second spend.

Knows files and ledger records, no confidential data and no noise: whoever calls it says how a part is made.
`tests/faults/test_measure_crashes.py` runs it through every crash of a modelled disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from topdown.errors import InternalError
from topdown.privacy.ledger.book import Entry
from topdown.privacy.ledger.durable import Disk
from topdown.privacy.ledger.journal import (
    Journal,
    MeasuredPart,
    check_not_rolled_back,
    files_digest,
    forget_records,
    records_changed,
    require_same_records,
)
from topdown.privacy.ledger.ledger_file import Ledger
from topdown.privacy.ledger.ledger_records import Charge, Commit, DrawnLaw, Intent


class Chargeable(Protocol):
    """What a run may charge, before it draws."""

    @property
    def covers(self) -> tuple[str, ...]:
        """Names of what it charges for, which its parts are levels of."""

    @property
    def limit(self) -> Fraction:
        """The most that may ever be charged to the data set."""

    @property
    def limit_reason(self) -> str:
        """Why."""

    @property
    def delta_limit(self) -> Fraction:
        """The same of delta, where losses are pairs; else 0."""

    def intent(self, covers: tuple[str, ...], attempt: int, journal_id: str) -> Charge:
        """Return the intent that pays for drawing some of it once."""


def check_new_charge(spend: Chargeable, ledger: Ledger, *, again: bool) -> None:
    """Refuse a new charge that the ledger would refuse, before anything is written for it.

    Raises:
        BudgetError: over the limit (B004); this release or plan is in the ledger already and `again` is not
            given (B013).

    """
    intent = spend.intent(spend.covers, 1, "new")
    ledger.check_first(intent, again=again)
    ledger.check_affordable(intent, spend.limit, spend.delta_limit)


@dataclass(frozen=True)
class NoiseCharge:
    """What a whole measurement may charge.

    Args:
        release, plan_hash: what it is for.
        laws: what each level draws.
        exact: names of the statistics the release publishes exactly.
        limit, limit_reason: ledger policy of the run file.
        delta_limit: the same for delta, where losses are pairs.

    """

    release: str
    plan_hash: str
    laws: dict[str, tuple[DrawnLaw, ...]]
    exact: tuple[str, ...]
    limit: Fraction
    limit_reason: str = ""
    delta_limit: Fraction = Fraction(0)

    def intent(self, covers: tuple[str, ...], attempt: int, journal_id: str) -> Intent:
        """Return the intent that pays for drawing some levels once."""
        laws = tuple(law for level in covers for law in self.laws[level])
        return Intent(self.release, self.plan_hash, laws, self.exact, attempt, covers, journal_id)

    @property
    def covers(self) -> tuple[str, ...]:
        """Names of the levels."""
        return tuple(self.laws)


class ChargedWork(Protocol):
    """What only the caller knows: how things are made, and whom to tell."""

    def charged(self, entry: Entry) -> None:
        """Hear that an intent was written."""

    def exact(self) -> bytes | None:
        """Return the content of exact.json, once what it names is on the disk; None if there is no such file."""

    def digest(self, key: bytes) -> str:
        """Return the HMAC-SHA256 of the records under a key; see `same_records`."""

    def ready(self, part: MeasuredPart) -> None:
        """Hear which part is begun next; may raise to stop before it."""

    def draw(self, parts: Iterator[MeasuredPart]) -> Generator[bytes]:
        """Yield the files of parts, with fresh noise, in their order.

        A part that is taken is begun: its noise is drawn at most once, and is lost if its file is not yielded. Several
        may be taken before the first is yielded.
        """

    def done(self, part: MeasuredPart, drawn: bool) -> None:
        """Hear that a part is whole, and whether it was drawn now."""


def run_charged(
    journal: Journal,
    ledger: Ledger,
    parts: Sequence[MeasuredPart],
    spend: Chargeable,
    work: ChargedWork,
    disk: Disk,
) -> None:
    """Bring a measurement to its end from wherever it stands; a second call changes nothing.

    Raises:
        BudgetError: the limit is reached, or the ledger was rolled back.
        CertificateError: committed files are missing or altered.
        DataError: the records differ from those of an earlier attempt (D037), or nobody can tell (D039).

    """
    made = ledger.book.commit_of(journal.id)
    if made is None:
        check_not_rolled_back(journal, parts, ledger.book, ledger.path)
        require_same_records(journal, ledger, parts, work, disk)
        intent = _charge(journal, ledger, parts, spend)
        if intent is not None:
            work.charged(intent)
        exact = work.exact()
        if exact is not None:
            _write_exact(journal, disk, exact)
        _draw_missing(journal, ledger, parts, work)
        made = _commit(journal, ledger, parts, disk)
    publish_committed(journal, ledger, parts, made, disk)


def publish_committed(
    journal: Journal, ledger: Ledger, parts: Sequence[MeasuredPart], made: Commit, disk: Disk
) -> None:
    """Give the parts of a committed measurement the names readers know; harmless if it was done before.

    Raises:
        CertificateError: committed files are missing or altered.

    """
    forget_records(journal, ledger, disk)
    journal.publish(parts, ledger.book, made.files)


def _charge(
    journal: Journal, ledger: Ledger, parts: Sequence[MeasuredPart], spend: Chargeable
) -> Entry | None:
    """Make sure that every part which is not whole has an unused intent; return the intent written, if any.

    The first call of a measurement covers all levels. A later one covers the levels of parts that were begun
    under every intent there is and are not whole.
    """
    short = {
        part.level
        for part in parts
        if journal.find(part, ledger.book) is None and journal.usable(part, ledger.book) is None
    }
    if not short:
        return None
    attempt = 1 + ledger.book.n_attempts(journal.id)
    covers = tuple(level for level in spend.covers if level in short)
    intent = spend.intent(covers, attempt, journal.id)
    return ledger.intent(intent, spend.limit, spend.limit_reason, spend.delta_limit)


def _draw_missing(journal: Journal, ledger: Ledger, parts: Sequence[MeasuredPart], work: ChargedWork) -> None:
    """Draw every part that is not whole, each under an intent it was never begun under; adopt and record the others.

    What stops the next part from being begun is raised once those that are under way are whole.
    """
    under_way: deque[tuple[MeasuredPart, int]] = deque()
    stopped: list[Exception | KeyboardInterrupt] = []

    def begun() -> Iterator[MeasuredPart]:
        try:
            for part in parts:
                if _is_adopted(journal, ledger, part):
                    work.done(part, False)
                    continue
                work.ready(part)
                under_way.append((part, _begin(journal, ledger, part)))
                yield part
        except (Exception, KeyboardInterrupt) as error:
            stopped.append(error)

    with closing(work.draw(begun())) as files:
        for data in files:
            part, seq = under_way.popleft()
            journal.write(part, seq, ledger, data)
            work.done(part, True)
    if stopped:
        raise stopped[0]


def _is_adopted(journal: Journal, ledger: Ledger, part: MeasuredPart) -> bool:
    """Tell whether a part is whole; record it if a crash kept that from the ledger."""
    whole = journal.find(part, ledger.book)
    if whole is not None and (whole[0], part.key) not in ledger.book.drawn:
        ledger.drawn(whole[0], part.key, whole[1])
    return whole is not None


def _begin(journal: Journal, ledger: Ledger, part: MeasuredPart) -> int:
    """Begin a part under an intent that it was never begun under; return the intent's number."""
    seq = journal.usable(part, ledger.book)
    if seq is None:
        raise InternalError(
            f"part {part.key} has no intent to be drawn under", code="X022", fix="run it again"
        )
    journal.begin(part, seq, ledger)
    return seq


def _write_exact(journal: Journal, disk: Disk, data: bytes) -> None:
    """Write exact.json in one step; refuse other values than an earlier attempt wrote (DataError D037)."""
    path = journal.folder / "exact.json"
    there = disk.read(path)
    if there == data:
        return
    if there is not None:
        raise records_changed(path)
    disk.replace(path, data)


def _commit(journal: Journal, ledger: Ledger, parts: Sequence[MeasuredPart], disk: Disk) -> Commit:
    """Record the digest of all files; every part must be recorded as drawn, and its file whole."""
    files = journal.exact()
    for part in parts:
        found = journal.find(part, ledger.book)
        if found is None or (found[0], part.key) not in ledger.book.drawn:
            raise InternalError(f"part {part.key} is not whole after all", code="X022", fix="run it again")
        files[part.path] = found[1]
    intents = tuple(ledger.book.of_journal(journal.id))
    plan_hash = ledger.book.intents[intents[0]].plan_hash
    made = Commit(intents, plan_hash, journal.id, files_digest(files))
    ledger.commit(made)
    return made
