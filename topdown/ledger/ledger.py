"""The ledger of one data set: every privacy loss ever spent on it, in a file that only grows.

An *intent* is durable before the first bit of noise is drawn, and counts from then on, whether or not the
release is ever finished. A *commit* says which files the noise became. A *void* documents, with a witness,
an intent whose noise never left the room. Specification: one sealed line a record (`lines.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from topdown.errors import BudgetError
from topdown.ledger.book import (
    Book,
    Commit,
    Entry,
    Event,
    Intent,
    Opened,
    Void,
    exact_text,
    read_book,
    to_fields,
)
from topdown.ledger.durable import Disk, LockedFile
from topdown.ledger.lines import line_hash, seal

_SIGN = {"rho": "ρ", "epsilon": "ε"}


class Ledger:
    """A ledger open for writing, under an exclusive lock; make one with `open_ledger`.

    Guarantees: a method that returns has written its record durably; one that raises `BudgetError` B004 to
    B009 has written nothing.
    """

    def __init__(self, path: Path, file: LockedFile, book: Book) -> None:
        self.path, self._file, self.book = path, file, book

    def intent(self, intent: Intent, limit: Fraction, limit_reason: str = "") -> Entry:
        """Charge a loss, durably, before noise is drawn under it.

        Args:
            intent: what will be drawn and what it costs.
            limit: the most that may ever be charged to this data set.
            limit_reason: why the limit is what it is, if someone wrote it down.

        Raises:
            BudgetError: over the limit (B004), or the ledger counts in another unit (B007).

        """
        self.check_affordable(intent, limit)
        return self._append(replace(intent, limit=limit, limit_reason=limit_reason))

    def check_affordable(self, intent: Intent, limit: Fraction) -> None:
        """Raise what `intent` would raise, without writing anything."""
        unit = self.book.loss_name
        if unit not in ("", intent.loss_name):
            raise BudgetError(
                f"the ledger of {self.book.data_set!r} counts {unit}, the plan costs {intent.loss_name}; "
                "the two do not add up",
                code="B007",
                file=str(self.path),
                fix=f"use a mechanism that is measured in {unit}, like the releases before",
            )
        left = limit - self.book.charged
        if intent.loss > left:
            raise _over_budget(self.path, self.book, intent, limit, left)

    def commit(self, commit: Commit) -> Entry:
        """Record which files the noise of some intents became, durably.

        Raises:
            BudgetError: an intent is unknown, voided or already committed (B009).

        """
        self._check(commit)
        return self._append(commit)

    def void(self, seq: int, reason: str, witness: str) -> Entry:
        """Take back intent `seq`: its noise was never seen and is destroyed. The record stays.

        Raises:
            BudgetError: no such intent, already voided or committed, or reason or witness missing (B009).

        """
        void = Void(seq, reason.strip(), witness.strip())
        self._check(void)
        return self._append(void)

    def _check(self, event: Event) -> None:
        problem = self.book.problem(event)
        if problem:
            raise BudgetError(
                f"the ledger of {self.book.data_set!r} refuses: {problem}",
                code="B009",
                file=str(self.path),
                fix="look at the records of the ledger; nothing was written",
            )

    def _append(self, event: Event) -> Entry:
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = seal(to_fields(event) | {"time": time}, len(self.book.entries), self.book.head)
        try:
            self._file.append(line)
        except OSError as error:
            self._file.close()
            raise BudgetError(
                f"the ledger {self.path} cannot be written: {error.strerror}",
                code="B006",
                file=str(self.path),
                fix="make room and run the same command again; a record that was not written spends nothing",
            ) from None
        self.book = self.book.plus(event, time, line_hash(line))
        return self.book.entries[-1]


@contextmanager
def open_ledger(path: Path, data_set: str, disk: Disk | None = None) -> Iterator[Ledger]:
    """Lock the ledger of a data set, creating it if there is none, and check all of it.

    An unfinished last line, which a crash can leave, is cut off durably: its record never took effect.

    Raises:
        BudgetError: in use by someone else (B005), damaged or not readable (B006), of another data set
            (B007).

    """
    disk = disk or Disk()
    try:
        disk.make_folder(path.parent)
        file = disk.lock(path)
    except BlockingIOError:
        raise BudgetError(
            f"the ledger {path} is in use by another run",
            code="B005",
            file=str(path),
            fix="wait until that run has ended; one run at a time may spend on a data set",
        ) from None
    except OSError as error:
        raise BudgetError(
            f"the ledger {path} cannot be opened: {error.strerror}",
            code="B006",
            file=str(path),
            fix="give a plain file in a folder you may write to",
        ) from None
    try:
        data = file.read()
        book, n_bytes, whole = read_book(data, path)
        if n_bytes < len(data):
            file.truncate(n_bytes)
        if not whole:
            file.append(b"\n")
        disk.sync_folder(path.parent)
        ledger = Ledger(path, file, book)
        if not book.entries:
            ledger._append(Opened(data_set))
        elif ledger.book.data_set != data_set:
            raise BudgetError(
                f"{path} is the ledger of data set {ledger.book.data_set!r}, not of {data_set!r}",
                code="B007",
                file=str(path),
                fix="give each data set its own ledger.path, or correct release.data_set",
            )
        yield ledger
    finally:
        file.close()


def read_ledger(path: Path) -> Book:
    """Read a ledger without locking or changing it; an unfinished last line is left out.

    Raises:
        BudgetError: damaged (B006).

    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    return read_book(data, path)[0]


def _over_budget(path: Path, book: Book, intent: Intent, limit: Fraction, left: Fraction) -> BudgetError:
    sign = _SIGN.get(intent.loss_name, intent.loss_name)
    left = max(left, Fraction(0))
    details = [
        (str(e.seq), f"{e.time[:10]}  {e.event.plan_hash[:8]}  {decimal_text(e.event.loss, up=True)}")
        for e in book.entries
        if isinstance(e.event, Intent) and e.seq not in book.voided
    ]
    fix = "raise ledger.limit with a reason"
    if left > 0:
        fix = f"lower budget.{intent.loss_name} to {exact_text(left)} or less, or {fix}"
    again = f" (attempt {intent.attempt}, for {', '.join(intent.covers)})" if intent.attempt > 1 else ""
    return BudgetError(
        f"the plan costs {sign} {decimal_text(intent.loss, up=True)}{again}; "
        f'only {decimal_text(left, up=False)} of {exact_text(limit)} is left for "{book.data_set}"',
        code="B004",
        file=str(path),
        details=(("spent", f"{sign} {decimal_text(book.charged, up=True)}"), *details),
        fix=fix,
    )


def decimal_text(value: Fraction, *, up: bool, digits: int = 4) -> str:
    """Write a nonnegative fraction with `digits` decimals, rounded up or down, without trailing zeros."""
    scaled = value * 10**digits
    whole = -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator
    text = f"{whole // 10**digits}.{whole % 10**digits:0{digits}d}"
    return text.rstrip("0").rstrip(".")
