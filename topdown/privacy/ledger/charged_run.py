"""The one charged run: check, charge, draw, commit, publish, in the order that no crash can turn into a second spend.

A measurement, a private choice and a release of group sizes are each a `ChargedWork` that `run_charged` carries out.
It opens and locks the ledger, refuses what the ledger would refuse, lets the work open its records, charges before
the first bit of noise, draws each part once under a charge, commits, and gives the files their names. It goes on
where an interrupted run stopped, holds signals back while a part is drawn, and reports progress.

It knows files and ledger records, no confidential data and no noise. `tests/faults/test_measure_crashes.py` runs it
through every crash of a modelled disk.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from topdown.errors import SPEND_NOTE, BudgetError, CertificateError, ConfigError, InternalError
from topdown.privacy.ledger.book import Book, charged_text, line_hash, read_book
from topdown.privacy.ledger.durable import REAL_DISK, Disk, disk_errors
from topdown.privacy.ledger.journal import (
    Journal,
    MeasuredPart,
    files_digest,
    forget_records,
    open_journal,
    records_changed,
    require_same_records,
    start_journal,
)
from topdown.privacy.ledger.ledger_file import CHARGED_HERE, Ledger, next_line, open_ledger, read_ledger
from topdown.privacy.ledger.ledger_records import Charge, Commit, DrawnLaw, Intent, Limits
from topdown.privacy.ledger.registry import LedgerLocation
from topdown.process import hold_stops, interrupt_between_parts
from topdown.progress import Event, Report, silent

_SPARE_BYTES = 1 << 20


class Chargeable(Protocol):
    """What a run may charge, before it draws."""

    @property
    def covers(self) -> tuple[str, ...]:
        """Names of what it charges for, which its parts are levels of."""

    @property
    def limits(self) -> Limits | None:
        """The most that may ever be charged to the data set, if the run says so; see `Ledger.intent`."""

    def intent(self, covers: tuple[str, ...], attempt: int, journal_id: str) -> Charge:
        """Return the intent that pays for drawing some of it once."""


@dataclass(frozen=True)
class NoiseCharge:
    """What a whole measurement may charge.

    Args:
        release, plan_hash: what it is for.
        laws: what each level draws.
        exact: names of the statistics the release publishes exactly.
        limits: ledger policy of the run file; None: that of the ledger.
        neighbours: relation under which a change moves the counts of `laws`.
    """

    release: str
    plan_hash: str
    laws: dict[str, tuple[DrawnLaw, ...]]
    exact: tuple[str, ...]
    limits: Limits | None
    neighbours: str

    def intent(self, covers: tuple[str, ...], attempt: int, journal_id: str) -> Intent:
        """Return the intent that pays for drawing some levels once."""
        laws = tuple(law for level in covers for law in self.laws[level])
        return Intent(
            self.release, self.plan_hash, laws, self.exact, attempt, covers, journal_id, self.neighbours
        )

    @property
    def covers(self) -> tuple[str, ...]:
        """Names of the levels."""
        return tuple(self.laws)


def with_charge(data: bytes, path: Path, spend: NoiseCharge, journal_id: str) -> tuple[Book, bytes]:
    """Return a ledger as it would be with a charge for all of a measurement, and its lines; nothing is written.

    Args:
        data: of the ledger that lies at `path`.
        spend: what is charged.
        journal_id: for which run.
    """
    book, n_bytes, whole = read_book(data, path)
    limits = book.limits or spend.limits
    intent = replace(spend.intent(spend.covers, 1, journal_id), **({} if limits is None else limits.fields))
    line, time = next_line(intent, book)
    book.add(intent, time, line_hash(line))
    return book, data[:n_bytes] + b"\n" * (not whole) + line


class ChargedWork(Protocol):
    """What is paid for: a measurement, a choice, group sizes; only it knows the records and how parts are made."""

    @property
    def location(self) -> LedgerLocation:
        """The ledger that pays."""

    @property
    def folder(self) -> Path:
        """Folder of the parts."""

    @property
    def binds(self) -> Mapping[str, str]:
        """What the folder remembers of the work, its `plan_hash` first: no other work goes on in it."""

    @property
    def parts(self) -> Sequence[MeasuredPart]:
        """Everything that is drawn, in order."""

    def charge(self, so_far: Fraction) -> Chargeable:
        """Return what may be charged; `so_far`: what this work was charged in this folder before."""

    def open_records(self) -> None:
        """Open the confidential records and refuse those that cannot be drawn from; the ledger would accept the charge.

        Called without the ledger's lock, once, and not at all where everything is committed already.
        """

    def preflight(self, journal: Journal | None, ledger: Ledger) -> None:
        """Try what can fail without noise and is only known now, and write public files; nothing is charged yet.

        Args:
            journal: of the folder; None if nothing was begun in it.
            ledger: open.
        """

    def exact(self) -> bytes | None:
        """Return the content of exact.json, once what it names is on the disk; None if there is no such file."""

    def digest(self, key: bytes) -> str:
        """Return the HMAC-SHA256 of the records under a key, in hexadecimal; see `journal.keyed_digest`."""

    def size(self, part: MeasuredPart) -> PartSize:
        """Return how large a part is."""

    def has_form(self, part: MeasuredPart, data: bytes) -> bool:
        """Tell whether the file of a part has the form that `draw` gives it: another version may have begun the run."""

    def draw(self, parts: Iterator[MeasuredPart], drawn: Callable[[MeasuredPart], bytes]) -> Generator[bytes]:
        """Yield the files of parts, with fresh noise, in their order.

        A part that is taken is begun: its noise is drawn at most once, and is lost if its file is not yielded. Several
        may be taken before the first is yielded.

        Args:
            parts: those that are not whole yet.
            drawn: reads the file of a part that is whole, for work whose later parts are chosen by earlier ones.
        """


@dataclass(frozen=True)
class PartSize:
    """How large a part is.

    Args:
        n_units: for progress, such as nodes.
        n_bytes: the most that it may need on the disk, with those under way; 0: it is not looked whether there is room.
    """

    n_units: int = 1
    n_bytes: int = 0


@dataclass(frozen=True, eq=False)
class Receipt:
    """What a charged run has spent and made.

    Args:
        journal: id under which the ledger knows it.
        commit: the ledger's record of its files.
        charges: every charge for it, all attempts.
        drawn: SHA-256 of the parts drawn in this call, by path; empty if everything was committed before.
        lines: the ledger up to the commit: what later runs add is theirs to publish.
    """

    journal: str
    commit: Commit
    charges: tuple[Charge, ...]
    drawn: Mapping[str, str]
    lines: bytes

    @property
    def loss(self) -> Fraction:
        """Everything charged for it."""
        return sum((charge.loss for charge in self.charges), Fraction(0))


def run_charged(
    work: ChargedWork,
    *,
    again: bool = False,
    resume: bool = True,
    report: Report = silent,
    disk: Disk = REAL_DISK,
) -> Receipt:
    """Bring a work to its end from wherever it stands; a second call after success changes and charges nothing.

    Guarantees: nothing is charged or drawn before ledger, records and folder are checked; a charge is durable before
    the noise it pays for; no noise is drawn twice under one charge, whatever crashes; nothing has a name that readers
    know before the ledger holds the commit.

    Args:
        work: what is paid for.
        again: charge although the ledger holds this release or plan already, in another folder.
        resume: go on with what the folder holds; else that is refused.
        report: told about every charge, part and the commit.
        disk: another model of the disk, for tests.

    Raises:
        BudgetError: the ledger is missing, another one, in use, damaged, rolled back or refuses the loss; or it holds
            this release already and `again` is not given (B013).
        ConfigError: the folder belongs to another plan (C070), is damaged (C071), or holds this run and `resume` is not
            given (C086).
        DataError: the records differ from those of an earlier attempt (D037), or nobody can tell (D039).
        CertificateError: committed files are missing or altered, or parts of an earlier attempt have another version's
            form (V020).
        DataError: D050 the disk is full or may not be written to.
        KeyboardInterrupt: after the parts under way were completed; going on later costs nothing more.
    """
    with disk_errors(work.folder):
        with open_ledger(
            work.location, disk
        ) as ledger:  # what it refuses is refused before the records are read
            journal = _resumed(work, ledger, disk, again=again, resume=resume)
            if journal is not None and ledger.book.commits.get(journal.id) is not None:
                receipt = _publish(work, journal, ledger, disk, {})
                report(Event("ledger", 2, 2, "committed before; nothing is spent again"))
                return receipt
        work.open_records()
        with open_ledger(work.location, disk) as ledger:  # until now, another run could write here
            journal = _resumed(work, ledger, disk, again=again, resume=resume)
            if journal is not None:
                _refuse_other_forms(work, journal, ledger.book)
            work.preflight(journal, ledger)
            disk.make_folder(work.folder)
            journal = journal or start_journal(work.folder, dict(work.binds), disk)
            with interrupt_between_parts() as check:
                check()
                receipt = _finish(work, journal, ledger, _Progress(work, check, report), disk)
            report(Event("ledger", 2, 2, "commit written; the confidential file is closed"))
            return receipt


def is_committed(work: ChargedWork, *, again: bool = False, disk: Disk = REAL_DISK) -> bool:
    """Tell whether everything is drawn and committed; refuse what `run_charged` would refuse without records."""
    with open_ledger(work.location, disk) as ledger:
        journal = _resumed(work, ledger, disk, again=again, resume=True)
        return journal is not None and ledger.book.commits.get(journal.id) is not None


@contextmanager
def spend_note(
    location: LedgerLocation, plan_hash: str, words: Callable[[Fraction], str] | None = None
) -> Iterator[None]:
    """Note on whatever ends the block what this process charged to the ledger for a plan within it.

    Args:
        location: the ledger; it need not exist.
        plan_hash: of the plan, in whatever folder; what another process charges for it meanwhile is not this run's.
        words: say a loss above 0 and how to go on; by default in the ledger's own unit.

    Raises:
        BudgetError: the ledger is damaged before anything is run (B006).
    """
    before = len(_charges_for(location.path, plan_hash))
    try:
        yield
    except BaseException as error:
        if not any(note.startswith(SPEND_NOTE) for note in getattr(error, "__notes__", ())):
            with hold_stops():
                error.add_note(SPEND_NOTE + _spent_words(location, plan_hash, before, words))
        raise


def charged_for(path: Path, plan_hash: str, *, here: bool = False) -> Fraction:
    """Return what a ledger was charged for a plan, in all folders and attempts; 0 if there is no ledger.

    Args:
        path: the ledger. plan_hash: of the plan.
        here: by runs of this process alone.

    Raises:
        BudgetError: damaged (B006).
    """
    charges = _charges_for(path, plan_hash)
    return sum((c.loss for c in charges if not here or c.journal in CHARGED_HERE), Fraction(0))


def _charges_for(path: Path, plan_hash: str) -> list[Charge]:
    return [charge for _, charge in read_ledger(path).charges if charge.plan_hash == plan_hash]


def _spent_words(
    location: LedgerLocation, plan_hash: str, before: int, words: Callable[[Fraction], str] | None
) -> str:
    try:
        charges = _charges_for(location.path, plan_hash)[before:]
    except BudgetError:
        return "unknown: the ledger cannot be read"
    spent = [charge for charge in charges if charge.journal in CHARGED_HERE]
    if not spent:
        return "nothing"
    if words is not None:
        return words(sum((charge.loss for charge in spent), Fraction(0)))
    return f"{charged_text(spent)}; finished noise is kept: go on with --resume"


def _resumed(work: ChargedWork, ledger: Ledger, disk: Disk, *, again: bool, resume: bool) -> Journal | None:
    """Return the journal that the folder holds, if any; refuse a new charge that the ledger would refuse."""
    journal = open_journal(work.folder, dict(work.binds), disk)
    if journal is None:
        charge = work.charge(Fraction(0))
        intent = charge.intent(charge.covers, 1, "new")
        ledger.check_first(intent, again=again)
        ledger.check_affordable(intent, charge.limits)
        return None
    if resume:
        return journal
    spent = charged_text(ledger.book.of_journal(journal.id).values())
    raise ConfigError(
        f"{work.folder.parent} holds a run of this very release, {work.binds['plan_hash'][:8]}",
        code="C086",
        details=(("that run spent", spent or "nothing yet"),),
        fix="run the same command with --resume: its noise is kept; another folder would spend the budget again",
    )


def _refuse_other_forms(work: ChargedWork, journal: Journal, book: Book) -> None:
    """Refuse to charge and draw what is missing where whole parts are there that could not be used with it (V020)."""
    for part in work.parts:
        data = journal.read(part, book)
        if data and not work.has_form(part, data):
            raise CertificateError(
                f"{part.key} in {work.folder} was drawn by another version of topdown, in a form that this one does "
                "not read",
                code="V020",
                file=str(work.folder),
                fix="go on with the version that began this run; nothing was charged or drawn now",
            )


class _Progress:
    """Looks before a part is begun, and reports what is done."""

    def __init__(self, work: ChargedWork, check: Callable[[], None], report: Report) -> None:
        self._work, self._check, self._report = work, check, report
        self._total, self._done = sum(work.size(part).n_units for part in work.parts), 0

    def charged(self, intent: Charge) -> None:
        again = f" again, for {', '.join(intent.covers)}" if intent.attempt > 1 else ""
        self._report(Event("ledger", 1, 2, f"intent {intent.attempt} written{again}"))

    def ready(self, part: MeasuredPart) -> None:
        """Refuse to charge or begin a part after a signal, or without room on the disk: a torn one is charged again."""
        self._check()
        n_bytes, folder = self._work.size(part).n_bytes, self._work.folder
        if n_bytes and folder.is_dir() and shutil.disk_usage(folder).free < n_bytes + _SPARE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))

    def done(self, part: MeasuredPart) -> None:
        self._done += self._work.size(part).n_units
        self._report(Event("measure", self._done, self._total, part.level))


def _finish(work: ChargedWork, journal: Journal, ledger: Ledger, progress: _Progress, disk: Disk) -> Receipt:
    """Charge, draw and commit what is not whole yet, and publish it."""
    drawn: dict[str, str] = {}
    if ledger.book.commits.get(journal.id) is None:
        journal.check_not_rolled_back(work.parts, ledger.book, ledger.path)
        require_same_records(journal, ledger, work.parts, work.digest, disk)
        _charge(work, journal, ledger, progress)
        exact = work.exact()
        if exact is not None:
            _write_exact(journal, disk, exact)
        drawn = _draw_missing(work, journal, ledger, progress)
        _commit(journal, ledger, work.parts)
    return _publish(work, journal, ledger, disk, drawn)


def _publish(
    work: ChargedWork, journal: Journal, ledger: Ledger, disk: Disk, drawn: dict[str, str]
) -> Receipt:
    """Give the parts of a committed run the names readers know; harmless if it was done before."""
    book, commit = ledger.book, ledger.book.commits.get(journal.id)
    if commit is None:
        raise InternalError("the run ended without a commit", code="X022", fix="run it again")
    forget_records(journal, ledger, disk)
    journal.publish(work.parts, book, commit.files)
    n_lines = 1 + next(entry.seq for entry in book.entries if entry.event is commit)
    lines = b"".join((disk.read(ledger.path) or b"").splitlines(keepends=True)[:n_lines])
    return Receipt(journal.id, commit, tuple(book.of_journal(journal.id).values()), drawn, lines)


def _charge(work: ChargedWork, journal: Journal, ledger: Ledger, progress: _Progress) -> None:
    """Make sure that every part which is not whole has an unused intent.

    The first call of a run covers all levels. A later one covers the levels of parts that were begun under every intent
    there is and are not whole.
    """
    book = ledger.book
    missing = [
        part for part in work.parts if journal.find(part, book) is None and journal.usable(part, book) is None
    ]
    if not missing:
        return
    progress.ready(missing[0])
    short = {part.level for part in missing}
    charge = work.charge(sum((charge.loss for charge in book.of_journal(journal.id).values()), Fraction(0)))
    covers = tuple(level for level in charge.covers if level in short)
    intent = charge.intent(covers, 1 + book.n_attempts(journal.id), journal.id)
    ledger.intent(intent, charge.limits)
    progress.charged(intent)


def _draw_missing(work: ChargedWork, journal: Journal, ledger: Ledger, progress: _Progress) -> dict[str, str]:
    """Draw every part that is not whole, each under an intent it was never begun under; adopt and record the others.

    What stops the next part from being begun is raised once those that are under way are whole. Returns the SHA-256 of
    those that were drawn, by path.
    """
    under_way: deque[tuple[MeasuredPart, int]] = deque()
    stopped: list[Exception | KeyboardInterrupt] = []
    hashes: dict[str, str] = {}

    def begun() -> Iterator[MeasuredPart]:
        try:
            for part in work.parts:
                if _is_adopted(journal, ledger, part):
                    progress.done(part)
                    continue
                progress.ready(part)
                under_way.append((part, _begin(journal, ledger, part)))
                yield part
        except (Exception, KeyboardInterrupt) as error:
            stopped.append(error)

    def drawn(part: MeasuredPart) -> bytes:
        return journal.read(part, ledger.book)

    with closing(work.draw(begun(), drawn)) as files:
        for data in files:
            part, seq = under_way.popleft()
            hashes[part.path] = journal.write(part, seq, ledger, data)
            progress.done(part)
    if stopped:
        raise stopped[0]
    return hashes


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


def _commit(journal: Journal, ledger: Ledger, parts: Sequence[MeasuredPart]) -> None:
    """Record the digest of all files; every part must be recorded as drawn, and its file whole."""
    files = journal.exact()
    for part in parts:
        found = journal.find(part, ledger.book)
        if found is None or (found[0], part.key) not in ledger.book.drawn:
            raise InternalError(f"part {part.key} is not whole after all", code="X022", fix="run it again")
        files[part.path] = found[1]
    intents = tuple(ledger.book.of_journal(journal.id))
    plan_hash = ledger.book.intents[intents[0]].plan_hash
    ledger.commit(intents, plan_hash, journal.id, files_digest(files))
