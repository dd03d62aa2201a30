"""The registry of a data set: which ledger serves it, how far that ledger has come, and who attested what.

A small file of sealed lines, `ledger-ID.registry`, beside the confidential records or where the run file says. A
ledger that a run file names is accepted with its registry only. The last line, the mark, says how many records the
ledger has and what the last of them hashes to. The lines before it say which data set it is, where the ledger lies and
lay, which files hold the records, and every attestation. Each is written in one durable step that replaces the file.

The records are known by path and inode. A digest of their content would let whoever guesses them confirm the guess. A
key that makes it useless must lie elsewhere, and where a second ledger is being made nobody knows where; and either
digest would take the corrected file of the same people for another data set. So a file that is renamed or linked is
known again, a copy is not.

Why no crash and no restored copy spends twice. A ledger is always written first, its registry after, both durably,
under the exclusive lock of the ledger, and noise is drawn only after both (`Ledger.intent`, `begin`).

* A crash between the two leaves the ledger one record ahead. The next run finds the record that the mark names, goes
  on from the ledger, which has the charge, and moves the mark. Nothing was drawn for the record that is ahead; so it
  may even be lost with the ledger's last line, which then counts for nothing.
* A ledger behind the mark, or one that has another line where the mark points, is an older copy: refused.
* A registry put back alone is behind, like after a crash; the ledger lacks nothing, and the next run moves the mark.
* Two operators: one holds the lock of the ledger. A copy of the ledger has a lock of its own, but only the file at the
  place that the registry names is written to.
* A new ledger: the registry is written first, under the lock of its folder. One whose mark is 1 and whose ledger is
  not there is of a creation that a crash ended, or of a ledger that was never charged: it may be made anew, at the same
  place. Elsewhere it may not: seen from where an old copy of a registry was put, the ledger may seem to be gone.
* An attestation of a ledger without registry: the ledger first. A crash leaves it without registry, and attested twice
  later; never with a registry and not attested.

What nobody can notice: ledger and registry put back together, and copies of the records with a ledger of their own.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from topdown.errors import BudgetError, quoted
from topdown.privacy.ledger.book import ZEROS, Book, line_hash, read_lines, seal, time_text
from topdown.privacy.ledger.durable import REAL_DISK, Disk
from topdown.privacy.ledger.ledger_records import Attested, LedgerBinding, from_fields, to_fields

REGISTRY_VERSION = 1
_NAME = re.compile(r"ledger-[0-9a-f]{16}\.registry")


@dataclass(frozen=True)
class RecordsFile:
    """The file that holds the confidential records, and the table in it, if it is a database."""

    path: Path
    table: str = ""


@dataclass(frozen=True)
class LedgerLocation:
    """Where a ledger lies and which one it must be.

    Args:
        path: the ledger.
        registry_folder: folder of the registry, beside the confidential records unless somebody says otherwise.
        id: of the ledger, as the run file names it; empty if it names none yet.
        binding: what the losses of the run are about.
        records: the confidential records; None if they are in memory.
    """

    path: Path
    registry_folder: Path
    id: str
    binding: LedgerBinding
    records: RecordsFile | None = None

    @property
    def registry(self) -> Path:
        """File of the registry."""
        return registry_path(self.registry_folder, self.id)


def registry_path(folder: Path, ledger: str) -> Path:
    """Return the file of a ledger's registry."""
    return folder / f"ledger-{ledger}.registry"


@dataclass(frozen=True)
class Registered:
    """First line: the data set, and the id of the one ledger that serves it."""

    version: int
    data_set: str
    ledger: str


@dataclass(frozen=True)
class LedgerPlace:
    """Where the ledger lies from now on, relative to the folder of the registry."""

    path: str


@dataclass(frozen=True)
class RecordsPlace:
    """A file that holds the records, relative to the folder of the registry; inode 0 if it was not there."""

    path: str
    table: str
    inode: int


@dataclass(frozen=True)
class RegisteredAttestation:
    """Somebody attested that the ledger is complete; `record` is its number in the ledger."""

    record: int
    by: str
    reason: str


@dataclass(frozen=True)
class Mark:
    """Last line: how many records the ledger has, and the SHA-256 of the last of them."""

    records: int
    head: str


RegistryEvent = Registered | LedgerPlace | RecordsPlace | RegisteredAttestation | Mark
_KINDS: dict[str, type[RegistryEvent]] = {
    "registered": Registered,
    "ledger": LedgerPlace,
    "records": RecordsPlace,
    "attested": RegisteredAttestation,
    "mark": Mark,
}


@dataclass(frozen=True)
class Registry:
    """A registry as read or to be written.

    Args:
        folder: where it lies.
        events: every line but the mark, with its time (UTC).
        mark: how far the ledger has come.
        head, marked: SHA-256 and time of the last line as read; empty if it was not read.
    """

    folder: Path
    events: tuple[tuple[RegistryEvent, str], ...]
    mark: Mark
    head: str = ""
    marked: str = ""

    @property
    def first(self) -> Registered:
        """Data set and ledger."""
        event = self.events[0][0]
        if not isinstance(event, Registered):
            raise TypeError("a registry begins with what it is of")
        return event

    @property
    def path(self) -> Path:
        """Its file."""
        return registry_path(self.folder, self.first.ledger)

    @property
    def ledger_path(self) -> Path:
        """Where the ledger lies."""
        return _resolved(self.folder / [e.path for e, _ in self.events if isinstance(e, LedgerPlace)][-1])

    @property
    def moves(self) -> list[tuple[str, str]]:
        """(time, path) of every place that the ledger had, the first one included."""
        return [(time, event.path) for event, time in self.events if isinstance(event, LedgerPlace)]

    def serves(self, place: LedgerLocation) -> bool:
        """Tell whether it is of the same data set, by name, or by the file of the records."""
        return self.first.data_set == place.binding.data_set or self._holds(place.records)

    def _holds(self, records: RecordsFile | None) -> bool:
        if records is None:
            return False
        path, inode = Path(os.path.realpath(records.path)), _inode(records.path, self.folder)
        known = [event for event, _ in self.events if isinstance(event, RecordsPlace)]
        return any(
            one.table == records.table
            and (path == Path(os.path.realpath(self.folder / one.path)) or 0 != inode == one.inode)
            for one in known
        )

    def of_book(self, book: Book, records: RecordsFile | None = None) -> Registry:
        """Return it with its mark at the end of a ledger, attestations since its mark, and a file of records."""
        made = self
        for entry in book.entries[self.mark.records :]:
            if isinstance(entry.event, Attested):
                said = RegisteredAttestation(entry.seq, entry.event.by, entry.event.reason)
                made = made.with_event(said)
        mark = Mark(len(book.entries), book.head)
        return replace(made._with_records(records), mark=mark)

    def _with_records(self, records: RecordsFile | None) -> Registry:
        if records is None:
            return self
        relative = os.path.relpath(os.path.realpath(records.path), os.path.realpath(self.folder))
        inode = _inode(records.path, records.path.parent)
        known = [event for event, _ in self.events if isinstance(event, RecordsPlace)]
        same = [one for one in known if (one.path, one.table) == (relative, records.table)]
        if same and inode in (0, same[-1].inode):
            return self
        return self.with_event(RecordsPlace(relative, records.table, inode))

    def with_event(self, event: RegistryEvent) -> Registry:
        """Return it with one more line."""
        return replace(self, events=(*self.events, (event, time_text())))

    def with_ledger(self, path: Path) -> Registry:
        """Return it with the ledger at another place, if it is another."""
        if self.names(path):
            return self
        return self.with_event(LedgerPlace(os.path.relpath(_resolved(path), os.path.realpath(self.folder))))

    def names(self, path: Path) -> bool:
        """Tell whether a ledger lies where the registry says."""
        if not any(isinstance(event, LedgerPlace) for event, _ in self.events):
            return False
        there = self.ledger_path
        with suppress(OSError):
            return there == _resolved(path) or there.samefile(path)
        return False

    def moved_to(self, folder: Path) -> Registry:
        """Return it for another folder, its last paths relative to that."""
        made = replace(self, folder=folder)
        if folder.resolve() == self.folder.resolve():
            return made
        places = [event for event, _ in self.events if isinstance(event, RecordsPlace)]
        made = made.with_event(LedgerPlace(os.path.relpath(self.ledger_path, os.path.realpath(folder))))
        for one in places[-1:]:
            path = os.path.relpath(os.path.realpath(self.folder / one.path), os.path.realpath(folder))
            made = made.with_event(replace(one, path=path))
        return made

    def check(self, book: Book, ledger_path: Path) -> None:
        """Refuse a ledger that lacks what the registry has seen (B008)."""
        n = self.mark.records
        if n > len(book.entries) or book.entries[n - 1].sha256 != self.mark.head:
            raise BudgetError(
                f"the ledger {ledger_path} lacks record {n - 1}, which its registry {self.path} has seen: it is an "
                "older copy, or another one",
                code="B008",
                file=str(ledger_path),
                fix="restore the newest copy of the ledger; an older one forgets what was spent",
            )

    def data(self) -> bytes:
        """Return its lines."""
        lines, previous = [], ZEROS
        for number, (event, time) in enumerate((*self.events, (self.mark, time_text()))):
            lines.append(seal(to_fields(event, _KINDS) | {"time": time}, number, previous))
            previous = line_hash(lines[-1])
        return b"".join(lines)


def new_registry(place: LedgerLocation, ledger: str, book: Book) -> Registry:
    """Return the registry of a ledger that has none, for the place where it lies."""
    first = Registered(REGISTRY_VERSION, place.binding.data_set, ledger)
    empty = Registry(place.registry_folder, ((first, time_text()),), Mark(0, ZEROS))
    return empty.with_ledger(place.path).of_book(book, place.records)


def write_registry(registry: Registry, disk: Disk) -> None:
    """Write a registry durably, in one step.

    Raises:
        BudgetError: B019 it cannot be written.
    """
    try:
        disk.replace(registry.path, registry.data())
    except OSError as error:
        raise BudgetError(
            f"the registry {registry.path} of the ledger cannot be written: {error.strerror}",
            code="B019",
            file=str(registry.path),
            fix="make room, make its folder or correct its rights, then run the same command again, with --resume "
            "where a run was begun",
        ) from None


def read_registry(path: Path, disk: Disk) -> Registry | None:
    """Read a registry; None if there is none.

    Raises:
        BudgetError: it is damaged, or no registry (B060).
    """
    try:
        data = disk.read(path)
        if data is None:
            return None
        lines, _, whole = read_lines(data)
        *events, (mark, marked) = [from_fields(line.fields, _KINDS) for line in lines]
        first = events[0][0] if events else None
        sound = whole and isinstance(mark, Mark) and mark.records > 0
        named = path.name.removeprefix("ledger-").removesuffix(".registry")
        sound &= isinstance(first, Registered) and (first.version, first.ledger) == (REGISTRY_VERSION, named)
        sound &= any(isinstance(event, LedgerPlace) for event, _ in events)
        sound &= not any(isinstance(event, Registered | Mark) for event, _ in events[1:])
    except (OSError, ValueError, TypeError):
        sound = False
    if not sound:
        raise BudgetError(
            f"{path} is no registry of a ledger, or is damaged",
            code="B060",
            file=str(path),
            fix="restore it from a copy, which may be older than the ledger; if it is lost, remove the file and "
            "attest the ledger: topdown ledger attest RUN.toml --by NAME --reason ... (or pgsr ledger attest)",
        )
    return Registry(path.parent, tuple(events), mark, lines[-1].sha256, marked)


def registry_of(place: LedgerLocation, disk: Disk) -> Registry:
    """Return the registry of a ledger that a run file names.

    Raises:
        BudgetError: it is missing (B016) or damaged (B060), or is of another data set (B016).
    """
    found = read_registry(place.registry, disk)
    if found is None or found.first.data_set != place.binding.data_set:
        what = "is missing" if found is None else f"is that of {found.first.data_set!r}"
        raise BudgetError(
            f"the registry {place.registry} of the ledger {place.path} {what}",
            code="B016",
            file=str(place.registry),
            fix="put it back where it was, or name its folder as ledger.registry; if the records or the registry were "
            "moved: topdown ledger move RUN.toml --from FOLDER; if it is lost: topdown ledger attest RUN.toml --by "
            "NAME --reason ... (pgsr ledger move, pgsr ledger attest for group sizes)",
        )
    return found


def other_registries(place: LedgerLocation, disk: Disk) -> list[Registry]:
    """Return the registries of other ledgers for the same data set: its name, or the file of its records."""
    folders = [place.registry_folder, *([] if place.records is None else [place.records.path.parent])]
    paths = (f / name for f in dict.fromkeys(folders) for name in disk.names(f) if _NAME.fullmatch(name))
    found = [read_registry(path, disk) for path in paths]
    return [one for one in found if one and one.serves(place) and one.first.ledger != place.id]


def second_ledger(other: Registry, place: LedgerLocation, bound: LedgerBinding | None) -> BudgetError:
    """Return the refusal of a second ledger for one data set (B017).

    Args:
        other: registry of the first. place: where a second one was asked for.
        bound: what the first one is bound to; None if it cannot be read.
    """
    first = other.first
    same = first.data_set == place.binding.data_set
    named = "" if same else f", as {first.data_set!r}"
    use = f'under [ledger] of the run file, path = "{other.ledger_path}" and id = "{first.ledger}"'
    mine = place.binding
    if bound is not None and (bound.neighbours, bound.unit) != (mine.neighbours, mine.unit):
        use += f"; it protects one {bound.unit} under {bound.neighbours}"
    return BudgetError(
        f"the data set {place.binding.data_set!r} has a ledger already{named}: {other.ledger_path}",
        code="B017",
        file=str(other.ledger_path),
        details=(("its id", first.ledger), ("by its registry", str(other.path))),
        fix=f"use it: {use}; if the records are of other people, give them another file and another name. Nothing was "
        "spent",
    )


def elsewhere(registry: Registry, path: Path) -> BudgetError:
    """Return the refusal to write to a ledger that does not lie where its registry says (B018)."""
    return BudgetError(
        f"the ledger {path} is not at its place: its registry {registry.path} names {registry.ledger_path}",
        code="B018",
        file=str(path),
        fix="use the one at its place, since two copies would spend twice; if it was moved, say so once: topdown "
        "ledger move RUN.toml (pgsr ledger move for group sizes)",
    )


def is_newest(path: Path, book: Book, folder: Path | None = None, disk: Disk = REAL_DISK) -> bool:
    """Tell whether the registry of a ledger confirms that no newer one is known; False if there is no registry.

    Args:
        path, book: file and content of the ledger, or of a copy; it was opened.
        folder: of the registry; looked for beside the ledger and one folder above if None.
        disk: another model of the disk, for tests.

    Raises:
        BudgetError: B061 the registry knows a newer ledger, B016 the named folder has none, B060 it is damaged.
    """
    ledger = "" if book.opened is None else book.opened.ledger
    near = path.absolute().parent
    for one in (near, near.parent) if folder is None else (folder,):
        found = read_registry(registry_path(one, ledger), disk)
        if found is None:
            continue
        try:
            found.check(book, path)
        except BudgetError:
            raise BudgetError(
                f"{path} ends at record {len(book.entries) - 1}, but the registry {found.path} of ledger {ledger} "
                f"knows record {found.mark.records - 1}: what would be stated leaves out what was charged since",
                code="B061",
                file=str(path),
                fix=f"use the ledger itself: --ledger {quoted(found.ledger_path)}",
            ) from None
        return True
    if folder is not None:
        raise BudgetError(
            f"there is no registry of ledger {ledger} in {folder}",
            code="B016",
            file=str(registry_path(folder, ledger)),
            fix="give its folder, that of the confidential records unless the run file names another",
        )
    return False


def _resolved(path: Path) -> Path:
    """Return a path without links in its folder; the file itself may be none."""
    return Path(os.path.realpath(path.parent)) / path.name


def _inode(path: Path, beside: Path) -> int:
    """Return the inode of a file on the disk of a folder; 0 if it is not there."""
    try:
        found = path.stat()
        return found.st_ino if found.st_dev == beside.stat().st_dev else 0
    except OSError:
        return 0
