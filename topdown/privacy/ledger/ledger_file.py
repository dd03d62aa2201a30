"""The ledger of one data set: every privacy loss ever spent on it, in a file that only grows.

An *intent* is durable before the first bit of noise is drawn, and counts from then on, whether or not the release is
ever finished. Every part of it is *begun* before it is drawn and recorded as *drawn*, with the hash of its file,
before it may be read. A *commit* says which files the noise became. A *refund* documents, with the person who saw to
it, an intent whose noise was destroyed unseen. One sealed line a record (`book.py`).

The *registry* of the data set (`registry.py`) is a second, small file that names the ledger and says how far it has
come; without it the ledger is not accepted, and an older copy of the ledger is refused.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from topdown.errors import BudgetError
from topdown.privacy.ledger.book import (
    Book,
    Entry,
    line_hash,
    other_limits,
    other_relation,
    over_budget,
    read_book,
    relation_problem,
    seal,
    time_text,
)
from topdown.privacy.ledger.durable import REAL_DISK, Disk, LockedFile, ReplacedError
from topdown.privacy.ledger.ledger_records import (
    LEDGER_VERSION,
    Attested,
    Begun,
    Charge,
    Choice,
    Commit,
    Drawn,
    Event,
    LedgerBinding,
    LimitChange,
    Limits,
    Opened,
    Refund,
    TakenOver,
    to_fields,
)
from topdown.privacy.ledger.registry import (
    LedgerLocation,
    Registry,
    elsewhere,
    new_registry,
    other_registries,
    read_registry,
    registry_of,
    registry_path,
    second_ledger,
    write_registry,
)

_WORDS = {"data_set": "data set", "unit": "unit of privacy"}
CHARGED_HERE: set[str] = set()  # journals of the runs for which this process charged, or tried to


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
    elif opened.ledger == wanted:
        there, here = vars(opened.binding), vars(binding)
        key = next(key for key in _WORDS if here[key] != there[key])
        text = f"{path} is the ledger of another {_WORDS[key]}: {there[key]!r}, not {here[key]!r}"
        if key != "data_set":
            fix = f"use the same {_WORDS[key]} as the releases before"
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


def not_a_ledger(path: Path) -> BudgetError:
    """Return the error of a file that does not begin as a ledger."""
    return BudgetError(
        f"{path} is no ledger: it has no whole first record",
        code="B006",
        file=str(path),
        fix="correct the path, or restore the ledger from a copy if it was in use; one whose creation was interrupted "
        "never was and may be removed",
    )


class Ledger:
    """A ledger open for writing, under an exclusive lock; make one with `open_ledger`.

    Guarantees: a method that returns has written its record durably, and the registry knows; one that raises
    `BudgetError` B004 to B009 or B018 has written nothing. After B019 (the registry cannot be written) the record
    stands and counts, and the ledger takes no further one.
    """

    def __init__(
        self, place: LedgerLocation, file: LockedFile, book: Book, registry: Registry, disk: Disk
    ) -> None:
        self.place, self.path, self.book, self.registry = place, place.path, book, registry
        self._file, self._disk = file, disk

    def intent(self, intent: Charge, asked: Limits | None) -> Entry:
        """Charge a loss, durably, before noise is drawn under it.

        Args:
            intent: what will be drawn and what it costs.
            asked: limits of the run file, checked on the composition of everything; they must be those of the ledger.
                None: those of the ledger, or of this measurement alone.

        Raises: BudgetError for a loss over a limit (B004), one that a limited kind of loss cannot bound (B023), other
            limits than the ledger's (B066), or a relation that does not follow from the ledger's (B021).
        """
        self.check_affordable(intent, asked)
        CHARGED_HERE.add(intent.journal)
        limits = self.book.limits or asked
        if limits is None:
            return self._append(intent)
        return self._append(
            replace(intent, **limits.fields, limit_reason="" if asked is None else asked.reason)
        )

    def check_affordable(self, intent: Charge, asked: Limits | None) -> None:
        """Raise what `intent` would raise, without writing anything."""
        problem = relation_problem(self.book.binding, intent)
        if problem:
            raise other_relation(self.path, problem)
        self._check(intent)
        self._refuse_elsewhere()
        over = over_budget(self.path, self.book, intent, asked)
        if over is not None:
            raise over

    def check_first(self, intent: Charge, *, again: bool) -> None:
        """Refuse a release or plan that the ledger holds already, unless two noisy versions are meant (B013)."""
        for seq, other in self.book.charges:
            same = intent.release == other.release or intent.plan_hash == other.plan_hash
            if same and not again:
                raise released_before(self.path, seq, other)

    def begin(self, seq: int, part: str) -> Entry:
        """Record that the noise of a part is about to be drawn under intent `seq`, for the only time (B009)."""
        return self._append(Begun(seq, part))

    def drawn(self, seq: int, part: str, sha256: str) -> Entry:
        """Record the file that a begun part became, before anything may read it (B009)."""
        return self._append(Drawn(seq, part, sha256))

    def commit(self, seqs: tuple[int, ...], plan_hash: str, journal: str, sha256: str) -> Entry:
        """Record that the noise of intents `seqs` became the files of this digest, durably.

        Raises:
            BudgetError: an intent is unknown, voided or already committed (B009).
        """
        return self._append(Commit(seqs, plan_hash, journal, sha256))

    def void(self, seq: int, reason: str, witness: str) -> Entry:
        """Take back intent `seq`: its noise was never seen and is destroyed. The record stays.

        Raises:
            BudgetError: no such intent, already voided or committed, or reason or witness missing (B009), or one with
                line breaks (B062).
        """
        return self._append(Refund(seq, _one_line(reason), _one_line(witness)))

    def _check(self, event: Event) -> None:
        problem = self.book.problem(event)
        if problem:
            raise BudgetError(
                f"the ledger of {self.book.binding.data_set!r} refuses: {problem}",
                code="B009",
                file=str(self.path),
                fix="look at the records of the ledger; nothing was written",
            )

    def attest(self, by: str, reason: str) -> Entry:
        """Record that a person attests that the ledger is complete (BudgetError B062: no name or reason)."""
        by, reason = person_and_reason(by, reason)
        return self._append(Attested(reason=reason, by=by))

    def change_limits(self, limits: Limits, by: str, reason: str) -> Entry:
        """Record that everything may cost another amount together from now on (BudgetError B062: no name or reason)."""
        return self._append(LimitChange(*person_and_reason(by, reason), **limits.fields))

    def take_over(self, taken: TakenOver) -> Entry:
        """Count everything that a former ledger holds (B021: of a relation that says nothing of this one's)."""
        problems = (relation_problem(self.book.binding, past.charge) for past in taken.charges)
        problem = next(filter(None, problems), "")
        if problem:
            raise other_relation(self.path, problem)
        return self._append(taken)

    def _refuse_elsewhere(self) -> None:
        if not self.registry.names(self.path):
            raise elsewhere(self.registry, self.path)

    def _append(self, event: Event) -> Entry:
        self._check(event)
        self._refuse_elsewhere()
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
                fix="make room and run the same command again, with --resume where a run was begun; a record that was "
                "not written spends nothing",
            ) from None
        entry = self.book.add(event, time, line_hash(line))
        self._tell_registry(self.registry.of_book(self.book, self.place.records))
        return entry

    def _tell_registry(self, registry: Registry) -> None:
        try:
            write_registry(registry, self._disk)
        except BudgetError:
            self._file.close()
            raise
        self.registry = registry


def person_and_reason(by: str, reason: str) -> tuple[str, str]:
    """Return who says what of a ledger, without blanks around it (BudgetError B062: no name or reason)."""
    said = _one_line(by), _one_line(reason)
    if not all(said):
        raise _unnamed()
    return said


def _one_line(text: str) -> str:
    """Return what a person says without blanks around it; it is published, in a line of its own."""
    if not text.strip().isprintable():
        raise _unnamed()
    return text.strip()


def _unnamed() -> BudgetError:
    return BudgetError(
        "whoever attests that a ledger is complete, takes one over, changes its limit or takes a charge back gives a "
        "name and a reason, each one line",
        code="B062",
        fix='add --by "NAME" --reason "WHY"; both are published with every later release',
    )


def next_line(event: Event, book: Book) -> tuple[bytes, str]:
    """Return the line that a record becomes after those of a book, and its time (UTC); neither is changed."""
    time = time_text()
    return seal(to_fields(event) | {"time": time}, len(book.entries), book.head), time


def _binding_in(ledger: bytes | None) -> LedgerBinding | None:
    """Return what a ledger is bound to; None if it is not there or damaged."""
    try:
        opened = read_book(ledger or b"", Path())[0].opened
    except BudgetError:
        return None
    return None if opened is None else opened.binding


def refuse_another_ledger(place: LedgerLocation) -> None:
    """Refuse a ledger of a data set that has one already (B017), before anything is made; looks only."""
    disk = Disk()
    for other in other_registries(place, disk):
        _refuse_if_begun(other, place, disk)


def _refuse_if_begun(other: Registry, place: LedgerLocation, disk: Disk) -> None:
    """Refuse a second ledger (B017), unless the registry is all that a crash left of making this one."""
    first = disk.read(other.ledger_path)
    if other.mark.records > 1 or first is not None or not other.names(place.path):
        raise second_ledger(other, place, _binding_in(first))


def create_ledger(
    place: LedgerLocation,
    disk: Disk = REAL_DISK,
    *,
    limits: Limits | None = None,
    instead_of: str = "",
) -> LedgerLocation:
    """Create the ledger of a data set and its registry, once; return its place with its random id.

    Args:
        place: where they will lie; its id is empty.
        disk: another model of the disk, for tests.
        limits: the most that everything may cost together; None: they are those of the first charge.
        instead_of: id of a former ledger of the same data set, which will be taken over.

    Raises:
        BudgetError: the data set, or the file of its records, has a ledger (B017); there is a file already (B015); the
            registry is damaged (B060) or cannot be written (B019), or another run makes one there (B005).
    """
    stated = {} if limits is None else limits.fields
    opened = Opened(secrets.token_hex(8), LEDGER_VERSION, *vars(place.binding).values(), **stated)
    line, made = next_line(opened, Book())[0], replace(place, id=opened.ledger)
    with _folder_held(place.registry_folder, disk):
        for other in other_registries(place, disk):
            if other.first.ledger == instead_of:
                continue
            _refuse_if_begun(other, place, disk)
            disk.remove(other.path)
            disk.sync_folder(other.folder)
        if disk.read(place.path) is not None:
            raise _file_exists(place.path)
        write_registry(new_registry(place, opened.ledger, read_book(line, place.path)[0]), disk)
        try:
            disk.make_folder(place.path.parent)
        except OSError as error:
            raise ledger_unusable(place.path, error) from None
        if place.path.parent.resolve() == place.registry_folder.resolve():
            _write_first(made, line, disk)
        else:
            with _folder_held(place.path.parent, disk):
                _write_first(made, line, disk)
    return made


def make_or_find_ledger(
    place: LedgerLocation, limits: Limits | None, disk: Disk = REAL_DISK, *, instead_of: str = ""
) -> LedgerLocation:
    """Return the place of the ledger of a data set with its id: of the one that is there, else of one that is made.

    Args:
        place: where it lies; with an id if one is named already.
        limits, disk, instead_of: as `create_ledger` takes them.

    Raises:
        BudgetError: the ledger that is there is another one, or bound to something else (B007), damaged (B006), at
            odds with its registry (B008, B016), or has another limit (B066); the named one is not there (B011); as
            `create_ledger` where it is made.
    """
    there = read_ledger(place.path)
    if there.opened is None:
        if place.id:
            raise BudgetError(
                f"ledger {place.id} of {place.binding.data_set!r} is named, but there is none at {place.path}",
                code="B011",
                file=str(place.path),
                fix="put the ledger back where it was; a data set has one ledger, made once",
            )
        return create_ledger(place, disk, limits=limits, instead_of=instead_of)
    found = replace(place, id=place.id or there.opened.ledger)
    check_ledger(found, there)
    other = other_limits(place.path, there, limits)
    if other is not None:
        raise other
    return found


def _write_first(place: LedgerLocation, line: bytes, disk: Disk) -> None:
    """Write the first line of a ledger in one step, whole or not at all; its folder is held."""
    try:
        if disk.read(place.path) is not None:
            raise _file_exists(place.path)
        disk.replace(place.path, line)
    except OSError as error:
        raise ledger_unusable(place.path, error) from None


def _file_exists(path: Path) -> BudgetError:
    return BudgetError(
        f"there is a file {path} already",
        code="B015",
        file=str(path),
        fix="a data set has one ledger, made once; use the one that is there, or give another path",
    )


@contextmanager
def _folder_held(folder: Path, disk: Disk) -> Iterator[None]:
    """Hold a folder while a ledger or its registry is made in it."""
    try:
        lock = disk.lock_folder(folder)
    except (BlockingIOError, ReplacedError):
        raise BudgetError(
            f"another run makes a ledger in {folder}",
            code="B005",
            file=str(folder),
            fix="wait until it has ended, and run the same command again",
        ) from None
    except OSError as error:
        raise BudgetError(
            f"there is no folder {folder} for the ledger or its registry: {error.strerror}",
            code="B019",
            file=str(folder),
            fix="make it, or mount its disk, and run the same command again",
        ) from None
    try:
        yield
    finally:
        lock.close()


@contextmanager
def open_ledger(place: LedgerLocation, disk: Disk = REAL_DISK) -> Iterator[Ledger]:
    """Lock the ledger of a data set and check all of it; it must exist and be the one that is expected.

    An unfinished last line, which a crash can leave, is cut off durably once everything else is sound: its record
    never took effect.

    Raises:
        BudgetError: there is none, or the run file names none (B011); in use by someone else (B005); damaged or not
            readable (B006), or of another format (B022); of another data set or unit (B007), or of a relation from
            which that of the run does not follow (B021); an older copy (B008); its registry is gone (B016) or damaged
            (B060).
    """
    with _locked_ledger(place, lambda book: _checked_registry(place, book, disk), disk) as ledger:
        yield ledger


def _checked_registry(place: LedgerLocation, book: Book, disk: Disk) -> Registry:
    found = registry_of(place, disk)
    found.check(book, place.path)
    return found


@contextmanager
def _locked_ledger(
    place: LedgerLocation, registry_for: Callable[[Book], Registry], disk: Disk
) -> Iterator[Ledger]:
    """Lock a ledger and check it, then see what its registry is."""
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
        _check_identity(place, book)
        registry = registry_for(book)
        if n_bytes < len(data):
            file.truncate(n_bytes)
        if not whole:
            file.append(b"\n")
        disk.sync_folder(place.path.parent)
        ledger = Ledger(place, file, book, registry, disk)
        if 0 < registry.mark.records < len(book.entries):  # a crash came between the two
            ledger._tell_registry(registry.of_book(book))
        yield ledger
    finally:
        file.close()


def check_ledger(place: LedgerLocation, book: Book, disk: Disk = REAL_DISK) -> None:
    """Refuse a ledger that could not be charged, whatever the loss (B006, B007, B008, B016, B018, B060)."""
    _check_identity(place, book)
    registry = _checked_registry(place, book, disk)
    if not registry.names(place.path):
        raise elsewhere(registry, place.path)


def _check_identity(place: LedgerLocation, book: Book) -> None:
    if book.opened is None:
        raise not_a_ledger(place.path)
    bound, mine = book.binding, place.binding
    if book.opened.ledger != place.id or (bound.data_set, bound.unit) != (mine.data_set, mine.unit):
        raise wrong_ledger(place.path, book.opened, place.id, mine)
    problem = relation_problem(bound, mine)
    if problem:
        raise other_relation(place.path, problem)


def attest(place: LedgerLocation, by: str, reason: str, disk: Disk = REAL_DISK) -> None:
    """Record that a person attests that a ledger is complete; make its registry if that is lost.

    Args:
        place: the ledger.
        by: name of the person.
        reason: why it has to be attested.
        disk: another model of the disk, for tests.

    Raises:
        BudgetError: no name or reason, or one with line breaks (B062); another ledger serves the data set (B017); or
            what `open_ledger` raises but for a missing registry.
    """
    if read_registry(place.registry, disk) is not None:
        with open_ledger(place, disk) as ledger:
            ledger.attest(by, reason)
        return
    with (
        _folder_held(place.registry_folder, disk),
        _locked_ledger(place, lambda book: new_registry(place, place.id, book), disk) as ledger,
    ):
        _refuse_second(place, disk)
        ledger.attest(by, reason)


def _refuse_second(place: LedgerLocation, disk: Disk) -> None:
    for other in other_registries(place, disk):
        raise second_ledger(other, place, _binding_in(disk.read(other.ledger_path)))


def move_ledger(place: LedgerLocation, before: Path | None = None, disk: Disk = REAL_DISK) -> Registry:
    """Write down that ledger, records or registry lie elsewhere now.

    Args:
        place: where they lie now.
        before: folder of the registry, if it is not at its new place yet.
        disk: another model of the disk, for tests.

    Returns: the registry as it is now.

    Raises:
        BudgetError: no registry is there (B016); the ledger is still where it was, too (B018); it is
            an older copy (B008); or another ledger serves the data set (B017).
    """
    folders = (place.registry_folder, *((before,) if before is not None else ()))
    found = next(filter(None, (read_registry(registry_path(f, place.id), disk) for f in folders)), None)

    def registry_for(book: Book) -> Registry:
        known = found or registry_of(place, disk)  # which says that it is missing
        known.check(book, place.path)
        return known

    with _folder_held(place.registry_folder, disk), _locked_ledger(place, registry_for, disk) as ledger:
        _refuse_second(place, disk)
        here, registry = place.registry, ledger.registry
        if not registry.names(place.path) and _holds_ledger(registry.ledger_path, place.id, disk):
            raise elsewhere(registry, place.path)
        moved = registry.with_ledger(place.path).moved_to(place.registry_folder)
        ledger._tell_registry(moved.of_book(ledger.book, place.records))
        for path in (registry_path(folder, place.id) for folder in folders):
            if path.resolve() != here.resolve() and disk.read(path) is not None:
                disk.remove(path)
                disk.sync_folder(path.parent)
        return ledger.registry


def _holds_ledger(path: Path, ledger: str, disk: Disk) -> bool:
    try:
        opened = read_book(disk.read(path) or b"", path)[0].opened
    except (OSError, BudgetError):
        return True  # whatever it is, a person must look at it
    return opened is not None and opened.ledger == ledger


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
