"""The witness: a second, small file far from the ledger that knows how long it was when it last counted.

A ledger that was put back to an older copy lacks the record whose hash the witness holds. What it cannot notice is
ledger and witness put back together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from topdown.caps import parse_json
from topdown.errors import BudgetError
from topdown.ledger.book import Book
from topdown.ledger.chained_lines import canonical
from topdown.ledger.durable import Disk

TYPE, VERSION = "topdown.ledger_witness", 1
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
    stated = {"type": TYPE, "version": VERSION, "ledger": book.opened.ledger}
    disk.replace(path, canonical(stated | {"records": len(book.entries), "head": book.head}) + b"\n")


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
        sound = (plain.get("type"), plain.get("version"), len(plain)) == (TYPE, VERSION, 5)
        sound &= type(records) is int and records > 0 and isinstance(ledger, str)
        sound &= isinstance(head, str) and _SHA256.fullmatch(head) is not None
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise BudgetError(
            f"{path} is no witness of a ledger",
            code="B012",
            file=str(path),
            fix="restore it from a copy; if it is lost: topdown ledger vouch RUN.toml --reason ... (pgsr ledger "
            "vouch for group sizes)",
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
            "were moved: topdown ledger vouch RUN.toml --reason ... (pgsr ledger vouch for group sizes)",
        )
    if found.records > len(book.entries) or book.entries[found.records - 1].sha256 != found.head:
        raise BudgetError(
            f"the ledger {ledger_path} lacks record {found.records} that its witness {path} saw: it is an older "
            "copy, or another one",
            code="B008",
            file=str(ledger_path),
            fix="restore the newest copy of the ledger; an older one forgets what was spent",
        )
