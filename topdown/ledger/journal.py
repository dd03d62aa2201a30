"""The journal of one measurement: which part was begun under which intent, and which parts are whole.

The order that makes a crash harmless (docs: reliability, ledger and journal):

1. an intent that covers the part's level is durable in the ledger;
2. the line "part begun under that intent" is durable in the journal; only then is noise drawn, and no part
   is ever begun twice under one intent;
3. the part is written under a name that contains its own SHA-256, so a torn file is known by itself;
4. when all parts are whole, the commit with the digest of them all is durable in the ledger;
5. only then do the parts get the names a reader knows.

A restart adopts whole parts, draws parts never begun under the intents it has, and charges a new intent for
the levels of parts that were begun and are not whole.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from topdown.errors import BudgetError, CertificateError, ConfigError
from topdown.ledger.book import Book
from topdown.ledger.durable import Disk
from topdown.ledger.lines import ZEROS, line_hash, read_lines, seal

_DRAWN = re.compile(r"(part-[0-9]{3,})\.([0-9]+)\.([0-9a-f]{64})\.drawn")


@dataclass(frozen=True)
class Part:
    """Whole nodes of one level, drawn and written together; the final path is `level/name.parquet`."""

    level: str
    name: str

    @property
    def key(self) -> str:
        """Path without its ending, relative to the folder of the measurements."""
        return f"{self.level}/{self.name}"


class Journal:
    """What has happened to the parts in `folder`; make one with `open_journal`."""

    def __init__(
        self, folder: Path, disk: Disk, journal_id: str, begun: dict[str, list[int]], head: str
    ) -> None:
        self.folder, self.id, self.begun = folder, journal_id, begun
        self._disk, self._head = disk, head
        self._listed: dict[str, dict[str, list[str]]] = {}

    @property
    def _path(self) -> Path:
        return self.folder / "journal.jsonl"

    def usable(self, part: Part, book: Book) -> int | None:
        """Return the first intent the part may be drawn under: this journal's, for its level, never used."""
        used = self.begun.get(part.key, [])
        return next(
            (s for s, i in book.of_journal(self.id).items() if part.level in i.covers and s not in used), None
        )

    def find(self, part: Part, book: Book) -> str | None:
        """Return the SHA-256 of a part that is whole and was drawn under its last intent, else None.

        A part of a voided intent is not whole: its noise was declared destroyed.
        """
        used = self.begun.get(part.key, [])
        if not used or used[-1] not in book.of_journal(self.id):
            return None
        found = self._drawn(part)
        return found[1] if found else None

    def _drawn(self, part: Part) -> tuple[Path, str] | None:
        """Return the file of a whole part under its last intent, and its SHA-256, which its name states."""
        used = self.begun.get(part.key, [])
        for name in self._names(part):
            match = _DRAWN.fullmatch(name)
            if match and used and int(match[2]) == used[-1]:
                path = self.folder / part.level / name
                if hashlib.sha256(self._disk.read(path) or b"").hexdigest() == match[3]:
                    return path, match[3]
        return None

    def _names(self, part: Part) -> list[str]:
        """Return the names of a part's files before the commit; each folder is listed once."""
        if part.level not in self._listed:
            found: dict[str, list[str]] = {}
            for name in self._disk.names(self.folder / part.level):
                if match := _DRAWN.fullmatch(name):
                    found.setdefault(match[1], []).append(name)
            self._listed[part.level] = found
        return self._listed[part.level].setdefault(part.name, [])

    def draw(self, part: Part, seq: int, make: Callable[[], bytes]) -> str:
        """Begin the part under intent `seq`, draw it, write it durably; return its SHA-256.

        Args:
            part: the part; `usable` must have named `seq`.
            seq: number of the intent.
            make: draws the noise and returns the file's bytes.

        """
        level = self.folder / part.level
        self._disk.make_folder(level)
        self._erase(part)
        used = self.begun.setdefault(part.key, [])
        line = seal({"begin": part.key, "intent": seq}, sum(map(len, self.begun.values())) + 1, self._head)
        self._disk.append(self._path, line)
        used.append(seq)
        self._head = line_hash(line)
        data = make()
        sha256 = hashlib.sha256(data).hexdigest()
        name = f"{part.name}.{seq}.{sha256}.drawn"
        self._disk.write_new(level / name, data)
        self._disk.sync_folder(level)
        self._names(part).append(name)
        return sha256

    def _erase(self, part: Part) -> None:
        for name in self._names(part):
            self._disk.remove(self.folder / part.level / name)
        self._names(part).clear()

    def publish(self, parts: Sequence[Part], files: str) -> None:
        """Give committed parts the names readers know; harmless if it was done before.

        Args:
            parts: all parts of the plan.
            files: digest the ledger committed to.

        Raises:
            CertificateError: the files are not the committed ones; nothing was renamed.

        """
        renames: list[tuple[Path, Path]] = []
        hashes: dict[str, str] = {}
        for part in parts:
            final = self._final(part)
            data = self._disk.read(final)
            if data is not None:
                hashes[f"{part.key}.parquet"] = hashlib.sha256(data).hexdigest()
            elif found := self._drawn(part):
                renames.append((found[0], final))
                hashes[f"{part.key}.parquet"] = found[1]
        hashes["exact.json"] = hashlib.sha256(self._disk.read(self.folder / "exact.json") or b"").hexdigest()
        if digest(hashes) != files:
            raise _altered(self.folder)
        for source, final in renames:
            self._disk.rename(source, final)
        self._listed.clear()
        for part in parts:
            self._erase(part)  # torn or voided noise that a crash brought back
        for level in dict.fromkeys(part.level for part in parts):
            self._disk.sync_folder(self.folder / level)

    def is_published(self, parts: Sequence[Part]) -> bool:
        """Tell whether some part has its final name, which it gets only after the commit."""
        names = {level: set(self._disk.names(self.folder / level)) for level in {p.level for p in parts}}
        return any(self._final(part).name in names[part.level] for part in parts)

    def _final(self, part: Part) -> Path:
        return self.folder / part.level / f"{part.name}.parquet"


def digest(hashes: dict[str, str]) -> str:
    """Return the SHA-256 of a list of files: lines "hash  path" as sha256sum writes them, sorted by path."""
    text = "".join(f"{sha256}  {path}\n" for path, sha256 in sorted(hashes.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def start_journal(folder: Path, binds: dict[str, str], disk: Disk) -> Journal:
    """Start the journal of a measurement, durably, under a new random id; it remembers what `binds` it."""
    journal_id = secrets.token_hex(16)
    head = {"type": "topdown.journal", "version": 1, "journal": journal_id, **binds}
    line = seal(head, 0, ZEROS)
    disk.write_new(folder / "journal.jsonl", line)
    disk.sync_folder(folder)
    return Journal(folder, disk, journal_id, {}, line_hash(line))


def open_journal(folder: Path, binds: dict[str, str], disk: Disk) -> Journal | None:
    """Read the journal in `folder`; None if none was started there.

    Raises:
        ConfigError: the folder belongs to another plan (C070) or its journal is damaged (C071).

    """
    path = folder / "journal.jsonl"
    data = disk.read(path) or b""
    try:
        lines, n_bytes, whole = read_lines(data)
    except ValueError as error:
        raise _damaged(path, error.args[0]) from None
    if not lines:
        return None
    head, *marks = lines
    if head.fields.get("type") != "topdown.journal":
        raise _damaged(path, 1)
    if any(head.fields.get(key) != value for key, value in binds.items()):
        raise ConfigError(
            f"{folder} holds measurements of another plan, or of a version that cuts them otherwise",
            code="C070",
            file=str(path),
            fix="write to another folder; noise of one plan is never used for another",
        )
    begun: dict[str, list[int]] = {}
    for number, mark in enumerate(marks, start=2):
        key, seq = mark.fields.get("begin"), mark.fields.get("intent")
        if not isinstance(key, str) or not isinstance(seq, int):
            raise _damaged(path, number)
        begun.setdefault(key, []).append(seq)
    if n_bytes < len(data):
        disk.truncate(path, n_bytes)
    if not whole:
        disk.append(path, b"\n")
    return Journal(folder, disk, str(head.fields["journal"]), begun, lines[-1].sha256)


def check_not_rolled_back(journal: Journal, parts: Sequence[Part], book: Book, ledger: Path) -> None:
    """Refuse a ledger without an intent parts were begun under, or without the commit of published parts.

    Raises:
        BudgetError: the ledger forgets what was spent (B008).

    """
    known = {s for s, i in book.intents.items() if i.journal == journal.id}
    lost = sorted({s for used in journal.begun.values() for s in used} - known)
    if lost or (journal.is_published(parts) and book.commit_of(journal.id) is None):
        what = f"record {lost[0]}, under which noise" if lost else "the commit under which noise"
        raise BudgetError(
            f"the ledger {ledger} lacks {what} of this release was drawn",
            code="B008",
            file=str(ledger),
            fix="restore the newest copy of the ledger; an older one forgets what was spent",
        )


def _damaged(path: Path, line: int) -> ConfigError:
    return ConfigError(
        f"the journal {path} is damaged in line {line}",
        code="C071",
        file=str(path),
        line=line,
        fix="restore it from a copy, or measure into a new folder, which is charged anew",
    )


def _altered(folder: Path) -> CertificateError:
    return CertificateError(
        f"the files in {folder} are not the ones the ledger committed to",
        code="V020",
        file=str(folder),
        fix="restore the folder from a copy; noise that was committed is never drawn again",
    )
