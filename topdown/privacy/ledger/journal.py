"""The files of one charged run: which parts are whole, under which intent of the ledger, drawn from which records.

The order that makes a crash harmless:

1. an intent that covers the part's level is durable in the ledger;
2. "part begun under that intent" is durable in the ledger; only then is noise drawn, and no part is ever begun twice
   under one intent;
3. the part is written under a name that contains its own SHA-256, so a torn file is known by itself;
4. "part drawn under that intent", with that hash, is durable in the ledger;
5. when all parts are recorded, the commit with the digest of them all is durable in the ledger;
6. only then do the parts get the names a reader knows.

The folder holds nothing but files and the id under which the ledger knows them. So a folder put back to an earlier
state forgets nothing that counts: a part that the ledger knows and the folder lacks is charged again. A restart
adopts whole parts, draws parts never begun under the intents it has, and charges a new intent for the levels of the
others.

Whether a run goes on with the records it began with is told by a keyed digest, until the commit. A digest alone would
let whoever guesses the records confirm the guess, so it is an HMAC under a random key. The digest lies with the noisy
parts, the key beside the ledger's registry, where the confidential records are; neither says anything without the
other, and both are removed when the run is whole. Nothing of it is published.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from topdown.errors import BudgetError, CertificateError, ConfigError, DataError
from topdown.formats.caps import parse_json
from topdown.privacy.ledger.book import Book, canonical_line
from topdown.privacy.ledger.durable import Disk
from topdown.privacy.ledger.ledger_file import Ledger

JOURNAL_FILE, JOURNAL_TYPE, JOURNAL_VERSION = "journal.json", "topdown.journal", 2
_DRAWN = re.compile(r"(part-[0-9]{3,})\.([0-9]+)\.([0-9a-f]{64})\.drawn")
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class MeasuredPart:
    """Whole nodes of one level, drawn and written together; the final path is `level/name.ending`."""

    level: str
    name: str
    ending: str = "parquet"

    @property
    def key(self) -> str:
        """Path without its ending, relative to the folder of the measurements."""
        return f"{self.level}/{self.name}"

    @property
    def path(self) -> str:
        """Final path, relative to the folder of the measurements."""
        return f"{self.key}.{self.ending}"


class Journal:
    """The parts in `folder`, known to the ledger by the id `id`; make one with `open_journal`."""

    def __init__(self, folder: Path, disk: Disk, journal_id: str) -> None:
        self.folder, self.id, self._disk = folder, journal_id, disk
        self._listed: dict[str, dict[str, list[str]]] = {}
        self._whole: set[Path] = set()  # files that hold what their names state, as seen or written here

    def usable(self, part: MeasuredPart, book: Book) -> int | None:
        """Return the first intent the part may be drawn under: this journal's, for its level, never begun."""
        used = book.begun.get((self.id, part.key), ())
        mine = book.of_journal(self.id).items()
        return next((s for s, i in mine if part.level in i.covers and s not in used), None)

    def find(self, part: MeasuredPart, book: Book) -> tuple[int, str] | None:
        """Return the last intent a part was begun under and the SHA-256 of its file, if the file is whole.

        A part of a voided intent is not whole: its noise was declared destroyed. A file other than the one the ledger
        recorded is not whole either.
        """
        used = book.begun.get((self.id, part.key), ())
        if not used or used[-1] in book.voided:
            return None
        found = self._drawn(part, used[-1])
        if found is None or book.drawn.get((used[-1], part.key), found[1]) != found[1]:
            return None
        return used[-1], found[1]

    def read(self, part: MeasuredPart, book: Book) -> bytes:
        """Return the file of a part that is whole and not published yet; empty if it is not whole."""
        whole = self.find(part, book)
        found = None if whole is None else self._drawn(part, whole[0])
        return b"" if found is None else self._disk.read(found[0]) or b""

    def _drawn(self, part: MeasuredPart, seq: int) -> tuple[Path, str] | None:
        """Return the whole file of a part under an intent, and its SHA-256, which its name states."""
        for name in self._names(part):
            match = _DRAWN.fullmatch(name)
            if match and int(match[2]) == seq:
                path = self.folder / part.level / name
                if path not in self._whole:
                    if hashlib.sha256(self._disk.read(path) or b"").hexdigest() != match[3]:
                        continue
                    self._whole.add(path)
                return path, match[3]
        return None

    def _names(self, part: MeasuredPart) -> list[str]:
        """Return the names of a part's files before the commit; each folder is listed once."""
        if part.level not in self._listed:
            found: dict[str, list[str]] = {}
            for name in self._disk.names(self.folder / part.level):
                if match := _DRAWN.fullmatch(name):
                    found.setdefault(match[1], []).append(name)
            self._listed[part.level] = found
        return self._listed[part.level].setdefault(part.name, [])

    def begin(self, part: MeasuredPart, seq: int, ledger: Ledger) -> None:
        """Record that a part is begun under intent `seq`, named by `usable`; its noise may be drawn now."""
        self._disk.make_folder(self.folder / part.level)
        self._erase(part)
        ledger.begin(seq, part.key)

    def write(self, part: MeasuredPart, seq: int, ledger: Ledger, data: bytes) -> str:
        """Write a part that was begun under intent `seq` durably, and record it; return its SHA-256.

        Args:
            part: the part.
            seq: number of the intent.
            ledger: open; gets the record.
            data: the file, with fresh noise.
        """
        level = self.folder / part.level
        sha256 = hashlib.sha256(data).hexdigest()
        name = f"{part.name}.{seq}.{sha256}.drawn"
        self._disk.write_new(level / name, data)
        self._disk.sync_folder(level)
        self._whole.add(level / name)
        self._names(part).append(name)
        ledger.drawn(seq, part.key, sha256)
        return sha256

    def _erase(self, part: MeasuredPart) -> None:
        for name in self._names(part):
            self._disk.remove(self.folder / part.level / name)
        self._names(part).clear()

    def publish(self, parts: Sequence[MeasuredPart], book: Book, files: str) -> None:
        """Give committed parts the names readers know; harmless if it was done before.

        Args:
            parts: all parts of the plan.
            book: the ledger's records.
            files: digest the ledger committed to.

        Raises:
            CertificateError: the files are not the committed ones; nothing was renamed.
        """
        renames: list[tuple[Path, Path]] = []
        hashes = self.exact()
        for part in parts:
            final = self.folder / part.path
            data = self._disk.read(final)
            charges = book.begun.get((self.id, part.key), ())  # that it was drawn for; the last one counts
            if data is not None:
                hashes[part.path] = hashlib.sha256(data).hexdigest()
            elif charges and (found := self._drawn(part, charges[-1])):
                drawn, hashes[part.path] = found
                renames.append((drawn, final))
        if files_digest(hashes) != files:
            raise CertificateError(
                f"the files in {self.folder} are not the ones the ledger committed to",
                code="V020",
                file=str(self.folder),
                fix="restore the folder from a copy; noise that was committed is never drawn again",
            )
        for source, final in renames:
            self._disk.rename(source, final)
        self._listed.clear()
        for part in parts:
            self._erase(part)  # torn or voided noise that a crash brought back
        for level in dict.fromkeys(part.level for part in parts):
            self._disk.sync_folder(self.folder / level)

    def check_not_rolled_back(self, parts: Sequence[MeasuredPart], book: Book, ledger: Path) -> None:
        """Refuse a ledger without an intent that files were drawn under, or without the commit of published parts.

        Raises:
            BudgetError: the ledger forgets what was spent (B008).
        """
        drawn = {int(m[2]) for part in parts for name in self._names(part) if (m := _DRAWN.fullmatch(name))}
        lost = sorted(drawn - {seq for seq, intent in book.intents.items() if intent.journal == self.id})
        names = {level: set(self._disk.names(self.folder / level)) for level in {p.level for p in parts}}
        # a part gets its final name only after the commit
        is_published = any(f"{part.name}.{part.ending}" in names[part.level] for part in parts)
        if lost or (is_published and book.commits.get(self.id) is None):
            what = f"record {lost[0]}, under which noise" if lost else "the commit under which noise"
            raise BudgetError(
                f"the ledger {ledger} lacks {what} of this release was drawn",
                code="B008",
                file=str(ledger),
                fix="restore the newest copy of the ledger; an older one forgets what was spent",
            )

    def exact(self) -> dict[str, str]:
        """Return the SHA-256 of exact.json by its name; empty if there is no such file."""
        data = self._disk.read(self.folder / "exact.json")
        return {} if data is None else {"exact.json": hashlib.sha256(data).hexdigest()}


def files_digest(hashes: dict[str, str]) -> str:
    """Return the SHA-256 of a list of files: lines "hash  path" as sha256sum writes them, sorted by path."""
    text = "".join(f"{sha256}  {path}\n" for path, sha256 in sorted(hashes.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def start_journal(folder: Path, binds: dict[str, str], disk: Disk) -> Journal:
    """Start a measurement in one durable step, under a new random id; the folder remembers what `binds` it."""
    journal_id = secrets.token_hex(16)
    head = {"type": JOURNAL_TYPE, "version": JOURNAL_VERSION, "journal": journal_id, **binds}
    disk.replace(folder / JOURNAL_FILE, canonical_line(head) + b"\n")
    return Journal(folder, disk, journal_id)


def open_journal(folder: Path, binds: dict[str, str], disk: Disk) -> Journal | None:
    """Look which measurement a folder holds, writing nothing; None if none was started there.

    Raises:
        ConfigError: the folder belongs to another plan (C070) or its journal is damaged (C071).
    """
    path = folder / JOURNAL_FILE
    data = disk.read(path)
    if data is None:
        return None
    try:
        head = parse_json(data)
        kind = (head["type"], head["version"])
        journal_id = head["journal"]
        bound = {key: head[key] for key in binds}
    except (ValueError, KeyError, TypeError):
        raise _journal_damaged(path) from None
    if (
        kind != (JOURNAL_TYPE, JOURNAL_VERSION)
        or not isinstance(journal_id, str)
        or not _ID.fullmatch(journal_id)
    ):
        raise _journal_damaged(path)
    if bound != binds:
        raise ConfigError(
            f"{folder} holds measurements of another plan, or of a version that cuts them otherwise",
            code="C070",
            file=str(path),
            fix="write to another folder; noise of one plan is never used for another",
        )
    return Journal(folder, disk, journal_id)


def _journal_damaged(path: Path) -> ConfigError:
    return ConfigError(
        f"the journal {path} is damaged",
        code="C071",
        file=str(path),
        fix="restore it from a copy, or measure into a new folder, which is charged anew",
    )


DIGEST_FILE, KEY_BYTES = "records.hmac", 32
Digest = Callable[[bytes], str]
"""The HMAC-SHA256 of the records under a key, in hexadecimal; equal records give equal digests."""


def keyed_digest(key: bytes, parts: Iterable[memoryview]) -> str:
    """Return the HMAC-SHA256 of some contiguous arrays under a key, in hexadecimal; their lengths enter too."""
    made = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        made.update(part.nbytes.to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()


def key_path(ledger: Ledger, journal: Journal) -> Path:
    """Return the file of a measurement's key, in the folder of the ledger's registry."""
    return ledger.place.registry_folder / f"measurement-{journal.id}.key"


def require_same_records(
    journal: Journal, ledger: Ledger, parts: Sequence[MeasuredPart], digest: Digest, disk: Disk
) -> None:
    """Remember the records of a measurement, or refuse others than the whole parts there are were drawn from.

    While no part is whole nothing depends on earlier records, and these are remembered.

    Args:
        journal, ledger: of the measurement, which is not committed.
        parts: all parts of the plan.
        digest: of what is measured.
        disk: how files are written.

    Raises:
        DataError: the records were changed (D037), or key or digest are lost, so that it cannot be known (D039).
    """
    key_file, digest_file = key_path(ledger, journal), journal.folder / DIGEST_FILE
    if all(journal.find(part, ledger.book) is None for part in parts):
        key = secrets.token_bytes(KEY_BYTES)
        disk.replace(key_file, key, private=True)
        disk.replace(digest_file, _digest_line(digest, key))
        return
    found, stated = disk.read(key_file), disk.read(digest_file)
    for path, data in ((key_file, found), (digest_file, stated)):
        if data is None:
            raise DataError(
                f"{path} is missing, so nobody can tell whether the records are still those this measurement "
                "began with",
                code="D039",
                file=str(path),
                fix="put the file back, or measure into a new folder, which is charged anew",
            )
    if not hmac.compare_digest(stated or b"", _digest_line(digest, found or b"")):
        raise records_changed(digest_file)


def forget_records(journal: Journal, ledger: Ledger, disk: Disk) -> None:
    """Remove digest and key of a measurement that is whole; harmless if it was done before."""
    for path in (journal.folder / DIGEST_FILE, key_path(ledger, journal)):
        if disk.read(path) is not None:
            disk.remove(path)
            disk.sync_folder(path.parent)


def records_changed(path: Path) -> DataError:
    """Return the refusal of records that were changed meanwhile (D037)."""
    return DataError(
        "the records were changed since this measurement began",
        code="D037",
        file=str(path),
        fix="restore the records, or measure into a new folder, which is charged anew",
    )


def _digest_line(digest: Digest, key: bytes) -> bytes:
    return f"{digest(key)}\n".encode()
