"""Compare measurements/journal.json and the parts with the ledger: every part was begun and recorded under a charge."""

from __future__ import annotations

from topdown.publish.verify.ledger_file import Commit
from topdown.publish.verify.measurement_files import part_paths
from topdown.publish.verify.plan_file import canonical
from topdown.publish.verify.reader import UnreadableError, parse_json, read_bytes
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

JOURNAL = "measurements/journal.json"
_KEYS = {"journal", "layout", "plan_hash", "type", "version"}


def named_journal(session: Session, path: str = JOURNAL) -> object:
    """Return the journal that a folder says is its own; None if its file cannot be read, which is checked later."""
    try:
        return parse_json(read_bytes(session.root, path, "V026"), "V026", path).get("journal")
    except UnreadableError:
        return None


def check_journal(session: Session, commit: Commit | None, out: Findings) -> None:
    """Check that the folder names the measurement that the ledger committed to, in canonical JSON."""
    try:
        data = read_bytes(session.root, JOURNAL, "V026")
        head = parse_json(data, "V026", JOURNAL)
    except UnreadableError as error:
        out.add(error.finding)
        return
    plain = all(isinstance(value, str | int) and len(str(value)) <= 200 for value in head.values())
    right = (head.get("type"), head.get("version")) == ("topdown.journal", 2) and set(head) == _KEYS
    mine = head.get("plan_hash") == session.plan.measured_hash
    mine &= commit is None or head.get("journal") == commit.journal
    if not (plain and right and mine and canonical(head) + b"\n" == data):
        why = "noise may have been drawn that the ledger was not charged for"
        out.add(Finding("V026", "the journal does not agree with the ledger", JOURNAL, why=why))


def check_drawn(session: Session, commit: Commit, out: Findings) -> None:
    """Check that each part is the file that the ledger recorded under the last intent it was begun under."""
    ledger = session.ledger
    begun, drawn = ledger.begun, ledger.drawn
    for path in part_paths(session):
        out.n_checked += 1
        part = path.removeprefix("measurements/").removesuffix(".parquet")
        used = begun.get((commit.journal, part), [])
        paid = ledger.intents[used[-1]] if used and used[-1] in commit.intents else None
        covered = paid is not None and part.rpartition("/")[0] in paid.covers
        if not covered or drawn.get((used[-1], part)) != session.sha256(path):
            text = "a part is not the one that the ledger recorded when it was drawn"
            out.add(Finding("V026", text, path, why="noise may have been drawn that was not charged for"))
