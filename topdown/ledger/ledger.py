"""The ledger of one data set: every privacy loss ever spent on it, in a file that only grows.

An *intent* is durable before the first bit of noise is drawn, and counts from then on, whether or not the
release is ever finished. Every part of it is *begun* before it is drawn and recorded as *drawn*, with the hash of its
file, before it may be read. A *commit* says which files the noise became. A *void* documents, with a witness, an
intent whose noise never left the room. Specification: one sealed line a record (`chained_lines.py`).
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from topdown.errors import BudgetError
from topdown.ledger import refusals
from topdown.ledger.book import Book, Entry, read_book
from topdown.ledger.chained_lines import line_hash, seal
from topdown.ledger.durable import Disk, LockedFile, ReplacedError
from topdown.ledger.place import Place
from topdown.ledger.records import (
    VERSION,
    Begun,
    Binding,
    Charge,
    Commit,
    Drawn,
    Event,
    Intent,
    Opened,
    Void,
    Vouched,
    to_fields,
)
from topdown.ledger.witness import check_witness, read_witness, write_witness

_NONE = Fraction(0)


class Ledger:
    """A ledger open for writing, under an exclusive lock; make one with `open_ledger`.

    Guarantees: a method that returns has written its record durably, and the witness knows; one that raises
    `BudgetError` B004 to B009 has written nothing. After B014 (the witness cannot be written) the record stands and
    counts, and the ledger takes no further one.
    """

    def __init__(self, place: Place, file: LockedFile, book: Book, disk: Disk) -> None:
        self.place, self.path, self.book = place, place.path, book
        self._file, self._disk = file, disk

    def intent(
        self, intent: Charge, limit: Fraction, limit_reason: str = "", delta_limit: Fraction = _NONE
    ) -> Entry:
        """Charge a loss, durably, before noise is drawn under it.

        Args:
            intent: what will be drawn and what it costs.
            limit, limit_reason: the most that may ever be charged to this data set, and why, if someone wrote it down.
            delta_limit: the same of delta, where losses are pairs.

        Raises: BudgetError for a loss over a limit (B004), or in another unit than the ledger's (B009).
        """
        self.check_affordable(intent, limit, delta_limit)
        charged = replace(intent, limit=limit, limit_reason=limit_reason)
        return self._append(
            replace(charged, delta_limit=delta_limit) if isinstance(charged, Intent) else charged
        )

    def check_affordable(self, intent: Charge, limit: Fraction, delta_limit: Fraction = _NONE) -> None:
        """Raise what `intent` would raise, without writing anything."""
        self._check(intent)
        left = limit - self.book.charged
        if intent.loss > left:
            raise refusals.over_budget(self.path, self.book, intent, limit, left)
        if intent.delta > delta_limit - self.book.charged_delta:
            raise refusals.over_delta(self.path, self.book, intent, delta_limit)

    def check_first(self, intent: Charge, *, again: bool) -> None:
        """Refuse a release or plan that the ledger holds already, unless two noisy versions are meant (B013)."""
        for seq, other in self.book.live.items():
            same = intent.release == other.release or intent.plan_hash == other.plan_hash
            if same and not again:
                raise refusals.released_before(self.path, seq, other)

    def begin(self, seq: int, part: str) -> Entry:
        """Record that the noise of a part is about to be drawn under intent `seq`, for the only time (B009)."""
        return self._append(Begun(seq, part))

    def drawn(self, seq: int, part: str, sha256: str) -> Entry:
        """Record the file that a begun part became, before anything may read it (B009)."""
        return self._append(Drawn(seq, part, sha256))

    def commit(self, commit: Commit) -> Entry:
        """Record which files the noise of some intents became, durably.

        Raises:
            BudgetError: an intent is unknown, voided or already committed (B009).

        """
        return self._append(commit)

    def void(self, seq: int, reason: str, witness: str) -> Entry:
        """Take back intent `seq`: its noise was never seen and is destroyed. The record stays.

        Raises:
            BudgetError: no such intent, already voided or committed, or reason or witness missing (B009).

        """
        return self._append(Void(seq, reason.strip(), witness.strip()))

    def _check(self, event: Event) -> None:
        problem = self.book.problem(event)
        if problem:
            raise BudgetError(
                f"the ledger of {self.book.binding.data_set!r} refuses: {problem}",
                code="B009",
                file=str(self.path),
                fix="look at the records of the ledger; nothing was written",
            )

    def _append(self, event: Event) -> Entry:
        self._check(event)
        line, time = next_line(event, self.book)
        try:
            self._file.append(line)
        except ReplacedError:
            self._file.close()
            raise BudgetError(
                f"the ledger {self.path} was replaced by another file while this run had it open",
                code="B005",
                file=str(self.path),
                fix="put the ledger back that the run began with, and run the same command again; the record was "
                "not written",
            ) from None
        except OSError as error:
            self._file.close()
            raise BudgetError(
                f"the ledger {self.path} cannot be written: {error.strerror}",
                code="B006",
                file=str(self.path),
                fix="make room and run the same command again; a record that was not written spends nothing",
            ) from None
        entry = self.book.add(event, time, line_hash(line))
        self._tell_witness()
        return entry

    def _tell_witness(self) -> None:
        try:
            write_witness(self.place.witness, self.book, self._disk)
        except OSError as error:
            self._file.close()
            raise BudgetError(
                f"the witness {self.place.witness} of the ledger cannot be written: {error.strerror}",
                code="B014",
                file=str(self.place.witness),
                fix="make room or correct the rights of its folder, then run the same command again",
            ) from None


def next_line(event: Event, book: Book) -> tuple[bytes, str]:
    """Return the line that a record becomes after those of a book, and its time (UTC); neither is changed."""
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return seal(to_fields(event) | {"time": time}, len(book.entries), book.head), time


def create_ledger(path: Path, witness_folder: Path, binding: Binding, disk: Disk | None = None) -> str:
    """Create the ledger of a data set, once; return its random id.

    Raises:
        BudgetError: there is a file already (B015), or the witness cannot be written (B014).

    """
    disk = disk or Disk()
    opened = Opened(secrets.token_hex(8), VERSION, *vars(binding).values())
    line = next_line(opened, Book())[0]
    try:
        disk.make_folder(path.parent)
        disk.create(path, line)
    except FileExistsError:
        raise BudgetError(
            f"there is a file {path} already",
            code="B015",
            file=str(path),
            fix="a data set has one ledger, made once; use the one that is there, or give another path",
        ) from None
    except OSError as error:
        raise refusals.not_in_use(path, error) from None
    book = read_book(line, path)[0]
    Ledger(
        Place(path, witness_folder, opened.ledger, binding), LockedFile(-1, path), book, disk
    )._tell_witness()
    return opened.ledger


@contextmanager
def open_ledger(place: Place, disk: Disk | None = None) -> Iterator[Ledger]:
    """Lock the ledger of a data set and check all of it; it must exist and be the one that is expected.

    An unfinished last line, which a crash can leave, is cut off durably once everything else is sound: its record
    never took effect.

    Raises:
        BudgetError: there is none, or the run file names none (B011); in use by someone else (B005); damaged or not
            readable (B006); bound to something else (B007); an older copy (B008); its witness is gone (B012).

    """
    disk = disk or Disk()
    try:
        file = disk.lock(place.path)
    except FileNotFoundError:
        raise refusals.missing(place.path, place.binding.data_set) from None
    except (BlockingIOError, ReplacedError):
        raise BudgetError(
            f"the ledger {place.path} is in use by another run",
            code="B005",
            file=str(place.path),
            fix="wait until that run has ended; one run at a time may spend on a data set",
        ) from None
    except OSError as error:
        raise refusals.not_in_use(place.path, error) from None
    try:
        data = file.read()
        book, n_bytes, whole = read_book(data, place.path)
        check_ledger(place, book, disk)
        if n_bytes < len(data):
            file.truncate(n_bytes)
        if not whole:
            file.append(b"\n")
        disk.sync_folder(place.path.parent)
        ledger = Ledger(place, file, book, disk)
        ledger._tell_witness()
        yield ledger
    finally:
        file.close()


def check_ledger(place: Place, book: Book, disk: Disk | None = None) -> None:
    """Refuse a ledger that is not the expected one or not whole (B006, B007, B008, B011, B012); writes nothing."""
    if book.opened is None:
        raise refusals.no_ledger(place.path)
    if book.opened.ledger != place.id or book.binding != place.binding:
        raise refusals.wrong_ledger(place.path, book.opened, place.id, place.binding)
    check_witness(place.witness, place.path, book, disk or Disk())


def vouch(place: Place, reason: str, disk: Disk | None = None) -> None:
    """Write a new witness for a ledger whose witness is lost; the reason stays in the ledger for ever.

    Raises:
        BudgetError: no reason (B009), or what `open_ledger` raises but for the witness.

    """
    disk = disk or Disk()
    if read_witness(place.witness, disk) is None:
        data = disk.read(place.path)
        book = read_book(data or b"", place.path)[0]
        if book.opened is not None and book.opened.ledger == place.id:
            write_witness(place.witness, book, disk)
    with open_ledger(place, disk) as ledger:
        ledger._append(Vouched(reason.strip()))


def read_ledger(path: Path) -> Book:
    """Read a ledger without locking or changing it; an unfinished last line is left out. Empty if there is none.

    Raises:
        BudgetError: damaged, without a whole first record, or no plain file (B006).

    """
    try:
        if path.exists() and not path.is_file():
            raise refusals.not_in_use(path, OSError(errno.EINVAL, "it is no plain file"))
        data = path.read_bytes()
    except FileNotFoundError:
        return Book()
    except OSError as error:
        raise refusals.not_in_use(path, error) from None
    book = read_book(data, path)[0]
    if book.opened is None:
        raise refusals.no_ledger(path)
    return book
