"""Whether a measurement goes on with the records it began with: a keyed digest, until the commit.

A digest alone would let whoever guesses the records confirm the guess, so it is an HMAC under a random key. The digest
lies with the noisy parts, the key beside the ledger's witness, where the confidential records are; neither says
anything without the other, and both are removed when the measurement is whole. Nothing of it is published.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from topdown.errors import DataError
from topdown.ledger.durable import Disk
from topdown.ledger.journal import Journal, MeasuredPart
from topdown.ledger.ledger import Ledger

DIGEST, KEY_BYTES = "records.hmac", 32


class Digested(Protocol):
    """What knows the records."""

    def digest(self, key: bytes) -> str:
        """Return the HMAC-SHA256 of the records under a key, in hexadecimal; equal records give equal digests."""


def keyed_digest(key: bytes, parts: Iterable[memoryview]) -> str:
    """Return the HMAC-SHA256 of some contiguous arrays under a key, in hexadecimal; their lengths enter too."""
    made = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        made.update(part.nbytes.to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()


def key_path(ledger: Ledger, journal: Journal) -> Path:
    """Return the file of a measurement's key, in the folder of the ledger's witness."""
    return ledger.place.witness_folder / f"measurement-{journal.id}.key"


def hold_to_records(
    journal: Journal, ledger: Ledger, parts: Sequence[MeasuredPart], records: Digested, disk: Disk
) -> None:
    """Remember the records of a measurement, or refuse others than the whole parts there are were drawn from.

    While no part is whole nothing depends on earlier records, and these are remembered.

    Args:
        journal, ledger: of the measurement, which is not committed.
        parts: all parts of the plan.
        records: what is measured.
        disk: how files are written.

    Raises:
        DataError: the records were changed (D037), or key or digest are lost, so that it cannot be known (D039).

    """
    key_file, digest_file = key_path(ledger, journal), journal.folder / DIGEST
    if all(journal.find(part, ledger.book) is None for part in parts):
        key = secrets.token_bytes(KEY_BYTES)
        disk.replace(key_file, key, private=True)
        disk.replace(digest_file, _line(records, key))
        return
    found, stated = disk.read(key_file), disk.read(digest_file)
    for path, data in ((key_file, found), (digest_file, stated)):
        if data is None:
            raise _unknown(path)
    if not hmac.compare_digest(stated or b"", _line(records, found or b"")):
        raise changed(digest_file)


def forget_records(journal: Journal, ledger: Ledger, disk: Disk) -> None:
    """Remove digest and key of a measurement that is whole; harmless if it was done before."""
    for path in (journal.folder / DIGEST, key_path(ledger, journal)):
        if disk.read(path) is not None:
            disk.remove(path)
            disk.sync_folder(path.parent)


def changed(path: Path) -> DataError:
    """Return the refusal of records that were changed meanwhile (D037)."""
    return DataError(
        "the records were changed since this measurement began",
        code="D037",
        file=str(path),
        fix="restore the records, or measure into a new folder, which is charged anew",
    )


def _line(records: Digested, key: bytes) -> bytes:
    return f"{records.digest(key)}\n".encode()


def _unknown(path: Path) -> DataError:
    return DataError(
        f"{path} is missing, so nobody can tell whether the records are still those this measurement began with",
        code="D039",
        file=str(path),
        fix="put the file back, or measure into a new folder, which is charged anew",
    )
