"""The ledger of one data set: every privacy loss ever spent on it, in a file that only grows, and its witness.

An *intent* is durable before the first bit of noise is drawn, and counts from then on, whether or not the release is
ever finished. Every part of it is *begun* before it is drawn and recorded as *drawn*, with the hash of its file,
before it may be read. A *commit* says which files the noise became. A *void* documents, with a witness, an intent
whose noise was destroyed unseen. One sealed line a record (`book.py`).

The *witness* of the ledger is a second, small file far from it that knows how long it was when it last counted. A
ledger that was put back to an older copy lacks the record whose hash the witness holds. What it cannot notice is
ledger and witness put back together.
"""

from __future__ import annotations

import errno
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from topdown.errors import BudgetError
from topdown.formats.caps import parse_json
from topdown.privacy.ledger.book import Book, Entry, canonical_line, line_hash, read_book, seal
from topdown.privacy.ledger.durable import Disk, LockedFile, ReplacedError
from topdown.privacy.ledger.ledger_records import (
    LEDGER_VERSION,
    Attested,
    Begun,
    Charge,
    Choice,
    Commit,
    Drawn,
    Event,
    Intent,
    LedgerBinding,
    Opened,
    Refund,
    exact_text,
    to_fields,
)

WITNESS_TYPE, WITNESS_VERSION = "topdown.ledger_witness", 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Witness:
    """How many records a ledger had, and the hash of the last of them."""

    ledger: str
    records: int
    head: str


def witness_path(folder: Path, ledger: str) -> Path:
    """Return the file of a ledger's witness."""
    return folder / f"ledger-{ledger}.witness.json"


def write_witness(path: Path, book: Book, disk: Disk) -> None:
    """Remember where a ledger stands, durably, in one step."""
    if book.opened is None:
        raise ValueError("an empty ledger has no witness")
    stated = {"type": WITNESS_TYPE, "version": WITNESS_VERSION, "ledger": book.opened.ledger}
    disk.replace(path, canonical_line(stated | {"records": len(book.entries), "head": book.head}) + b"\n")


def read_witness(path: Path, disk: Disk) -> Witness | None:
    """Read a witness; None if there is none.

    Raises:
        BudgetError: it is no witness (B012).

    """
    try:
        data = disk.read(path)
    except OSError:
        data = b""
    if data is None:
        return None
    try:
        plain = parse_json(data)
        ledger, records, head = (plain[key] for key in ("ledger", "records", "head"))
        sound = (plain.get("type"), plain.get("version"), len(plain)) == (WITNESS_TYPE, WITNESS_VERSION, 5)
        sound &= type(records) is int and records > 0 and isinstance(ledger, str)
        sound &= isinstance(head, str) and _SHA256.fullmatch(head) is not None
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise BudgetError(
            f"{path} is no witness of a ledger",
            code="B012",
            file=str(path),
            fix="restore it from a copy; if it is lost: topdown ledger attest RUN.toml --reason ... (pgsr ledger "
            "attest for group sizes)",
        )
    return Witness(ledger, records, head)


def check_witness(path: Path, ledger_path: Path, book: Book, disk: Disk) -> None:
    """Refuse a ledger that lacks what its witness saw.

    Raises:
        BudgetError: the ledger was put back to an older copy (B008); the witness is missing, damaged or another
            ledger's (B012).

    """
    found = read_witness(path, disk)
    if found is None and len(book.entries) <= 1:
        return  # a crash between the ledger's creation and its witness: nothing was ever charged
    if found is None or book.opened is None or found.ledger != book.opened.ledger:
        what = "is missing" if found is None else "is another ledger's"
        raise BudgetError(
            f"the witness {path} of the ledger {ledger_path} {what}",
            code="B012",
            file=str(path),
            fix="put it back where it was, or name its folder as ledger.witness; if it is lost, or the records "
            "were moved: topdown ledger attest RUN.toml --reason ... (pgsr ledger attest for group sizes)",
        )
    if found.records > len(book.entries) or book.entries[found.records - 1].sha256 != found.head:
        raise BudgetError(
            f"the ledger {ledger_path} lacks record {found.records} that its witness {path} saw: it is an older "
            "copy, or another one",
            code="B008",
            file=str(ledger_path),
            fix="restore the newest copy of the ledger; an older one forgets what was spent",
        )


@dataclass(frozen=True)
class LedgerLocation:
    """Where a ledger lies and which one it must be.

    Args:
        path: the ledger.
        witness_folder: folder of its witness, beside the confidential records unless somebody says otherwise.
        id: of the ledger, as the run file names it; empty if it names none yet.
        binding: what the losses of the run are about.
    """

    path: Path
    witness_folder: Path
    id: str
    binding: LedgerBinding

    @property
    def witness(self) -> Path:
        """File of the witness."""
        return witness_path(self.witness_folder, self.id)


_SIGN = {"rho": "ρ", "epsilon": "ε", "epsilon_delta": "ε"}
_PAIRS = "epsilon_delta"
_NO_RHO = (
    "; noise of finitely many values costs epsilon and delta: it has no zCDP and no pure epsilon, so no ledger of rho "
    "or epsilon can book it, nor one of epsilon and delta any other noise"
)
_WORDS = {
    "data_set": "data set",
    "neighbours": "neighbour relation",
    "unit": "unit of privacy",
    "loss_name": "loss",
}


def ledger_missing(path: Path, data_set: str) -> BudgetError:
    """Return the error for a ledger that does not exist (B011)."""
    return BudgetError(
        f"there is no ledger {path}",
        code="B011",
        file=str(path),
        fix=f"put it where it was; if nothing was ever released from {data_set!r}, make it, once: "
        "topdown ledger new RUN.toml (pgsr ledger new for group sizes)",
    )


def ledger_unusable(path: Path, error: OSError) -> BudgetError:
    """Return the error for a file that cannot be a ledger (B006)."""
    return BudgetError(
        f"the ledger {path} cannot be opened: {error.strerror}",
        code="B006",
        file=str(path),
        fix="give a plain file in a folder you may write to",
    )


def wrong_ledger(path: Path, opened: Opened, wanted: str, binding: LedgerBinding) -> BudgetError:
    """Return the error for a ledger that is another one, or is bound to something else (B007)."""
    fix = "give each data set its own ledger, and use the one that was made for it"
    if not wanted:
        text = f"the run file names no ledger, but there is one at {path}"
        fix = f'if it is the ledger of this data set, add to [ledger]: id = "{opened.ledger}"'
    elif opened.binding != binding:
        there, here = vars(opened.binding), vars(binding)
        key = next(key for key in here if here[key] != there[key])
        text = f"{path} is the ledger of another {_WORDS[key]}: {there[key]!r}, not {here[key]!r}"
        if key == "loss_name" and _PAIRS in (there[key], here[key]):
            text += _NO_RHO
        if key != "data_set":
            fix = f"use the same {_WORDS[key]} as the releases before; losses of two kinds do not add up"
        if key == "loss_name" and there[key] == "rho":
            fix = (
                "give rho in place of epsilon (pgsr: --rho): discrete Gaussian noise; two kinds do not add up"
            )
    else:
        text = f"{path} is ledger {opened.ledger}, but the run file names {wanted}"
    return BudgetError(text, code="B007", file=str(path), fix=fix + "; nothing was spent")


def released_before(path: Path, seq: int, first: Charge) -> BudgetError:
    """Return the error for a release that was measured before (B013)."""
    chosen = isinstance(first, Choice)
    held = "the choice" if chosen else "a measurement of release"
    again = "choosing" if chosen else "measuring"
    drawn = "a new choice from the same records" if chosen else "new noise of the same answers"
    return BudgetError(
        f"the ledger holds {held} {first.release!r} already (record {seq}, plan {first.plan_hash[:8]}); "
        f"{again} again draws {drawn} and is charged in full",
        code="B013",
        file=str(path),
        fix="to go on with it, give its folder and --resume; for a new release give it an id of its own; if two "
        "versions are really meant, add --again. Nothing was spent",
    )


def over_budget(path: Path, book: Book, intent: Charge, limit: Fraction, left: Fraction) -> BudgetError:
    """Return the error for a loss over the limit (B004)."""
    sign = _SIGN[intent.loss_name]
    left = max(left, Fraction(0))
    details = [
        (str(e.seq), f"{e.time[:10]}  {e.event.plan_hash[:8]}  {decimal_text(e.event.loss, up=True)}")
        for e in book.entries
        if isinstance(e.event, Charge) and e.seq not in book.voided
    ]
    fix = "raise ledger.limit with a reason"
    if left > 0:
        if isinstance(intent, Choice):
            fix = f"give a smaller --epsilon, or {fix}"
        else:
            key = "rho" if intent.loss_name == "rho" else "epsilon"
            fix = f"lower budget.{key} to {exact_text(left)} or less, or {fix}"
    again = f" (attempt {intent.attempt}, for {', '.join(intent.covers)})" if intent.attempt > 1 else ""
    what = "choice" if isinstance(intent, Choice) else "plan"
    return BudgetError(
        f"the {what} costs {sign} {decimal_text(intent.loss, up=True)}{again}; "
        f'only {decimal_text(left, up=False)} of {exact_text(limit)} is left for "{book.binding.data_set}"',
        code="B004",
        file=str(path),
        details=(("charged so far", f"{sign} {decimal_text(book.charged, up=True)}"), *details),
        fix=fix,
    )


def over_delta(path: Path, book: Book, intent: Charge, limit: Fraction) -> BudgetError:
    """Return the error for a delta over the limit (B004)."""
    left = max(limit - book.charged_delta, Fraction(0))
    fix = "raise ledger.delta_limit with a reason"
    if left > 0:
        fix = f"lower budget.delta to {exact_text(left)} or less, or {fix}"
    return BudgetError(
        f"the plan costs δ {exact_text(intent.delta)} beside its ε; "
        f'only {exact_text(left)} of {exact_text(limit)} is left for "{book.binding.data_set}"',
        code="B004",
        file=str(path),
        details=(("charged so far", f"δ {exact_text(book.charged_delta)}"),),
        fix=fix,
    )


def decimal_text(value: Fraction, *, up: bool, digits: int = 4) -> str:
    """Write a nonnegative fraction with `digits` decimals, rounded up or down, without trailing zeros."""
    scaled = value * 10**digits
    whole = -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator
    text = f"{whole // 10**digits}.{whole % 10**digits:0{digits}d}"
    return text.rstrip("0").rstrip(".")


def not_a_ledger(path: Path) -> BudgetError:
    """Return the error of a file that does not begin as a ledger."""
    return BudgetError(
        f"{path} is no ledger: it has no whole first record",
        code="B006",
        file=str(path),
        fix="correct the path, or restore the ledger from a copy if it was in use; one whose creation was interrupted "
        "never was and may be removed",
    )


_NONE = Fraction(0)


class Ledger:
    """A ledger open for writing, under an exclusive lock; make one with `open_ledger`.

    Guarantees: a method that returns has written its record durably, and the witness knows; one that raises
    `BudgetError` B004 to B009 has written nothing. After B014 (the witness cannot be written) the record stands and
    counts, and the ledger takes no further one.
    """

    def __init__(self, place: LedgerLocation, file: LockedFile, book: Book, disk: Disk) -> None:
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
            raise over_budget(self.path, self.book, intent, limit, left)
        if intent.delta > delta_limit - self.book.charged_delta:
            raise over_delta(self.path, self.book, intent, delta_limit)

    def check_first(self, intent: Charge, *, again: bool) -> None:
        """Refuse a release or plan that the ledger holds already, unless two noisy versions are meant (B013)."""
        for seq, other in self.book.live.items():
            same = intent.release == other.release or intent.plan_hash == other.plan_hash
            if same and not again:
                raise released_before(self.path, seq, other)

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
        return self._append(Refund(seq, reason.strip(), witness.strip()))

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


def create_ledger(path: Path, witness_folder: Path, binding: LedgerBinding, disk: Disk | None = None) -> str:
    """Create the ledger of a data set, once; return its random id.

    Raises:
        BudgetError: there is a file already (B015), or the witness cannot be written (B014).

    """
    disk = disk or Disk()
    opened = Opened(secrets.token_hex(8), LEDGER_VERSION, *vars(binding).values())
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
        raise ledger_unusable(path, error) from None
    book = read_book(line, path)[0]
    Ledger(
        LedgerLocation(path, witness_folder, opened.ledger, binding), LockedFile(-1, path), book, disk
    )._tell_witness()
    return opened.ledger


@contextmanager
def open_ledger(place: LedgerLocation, disk: Disk | None = None) -> Iterator[Ledger]:
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
        raise ledger_missing(place.path, place.binding.data_set) from None
    except (BlockingIOError, ReplacedError):
        raise BudgetError(
            f"the ledger {place.path} is in use by another run",
            code="B005",
            file=str(place.path),
            fix="wait until that run has ended; one run at a time may spend on a data set",
        ) from None
    except OSError as error:
        raise ledger_unusable(place.path, error) from None
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


def check_ledger(place: LedgerLocation, book: Book, disk: Disk | None = None) -> None:
    """Refuse a ledger that is not the expected one or not whole (B006, B007, B008, B011, B012); writes nothing."""
    if book.opened is None:
        raise not_a_ledger(place.path)
    if book.opened.ledger != place.id or book.binding != place.binding:
        raise wrong_ledger(place.path, book.opened, place.id, place.binding)
    check_witness(place.witness, place.path, book, disk or Disk())


def attest(place: LedgerLocation, reason: str, disk: Disk | None = None) -> None:
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
        ledger._append(Attested(reason.strip()))


def read_ledger(path: Path) -> Book:
    """Read a ledger without locking or changing it; an unfinished last line is left out. Empty if there is none.

    Raises:
        BudgetError: damaged, without a whole first record, or no plain file (B006).

    """
    try:
        if path.exists() and not path.is_file():
            raise ledger_unusable(path, OSError(errno.EINVAL, "it is no plain file"))
        data = path.read_bytes()
    except FileNotFoundError:
        return Book()
    except OSError as error:
        raise ledger_unusable(path, error) from None
    book = read_book(data, path)[0]
    if book.opened is None:
        raise not_a_ledger(path)
    return book
