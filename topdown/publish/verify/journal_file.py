"""Compare measurements/journal.jsonl, if it is there, with the ledger: no part was begun without a charge."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from topdown.publish.verify.ledger_file import sealed
from topdown.publish.verify.reader import UnreadableError, read_bytes
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

JOURNAL = "measurements/journal.jsonl"
_PART = re.compile(r"(?P<level>[^/]+)/part-[0-9]{3,}")
_SEAL = {"hash", "prev", "seq"}


def check_journal(session: Session, out: Findings) -> None:
    """Follow the journal's chain; every part must be begun under an intent that covers its level."""
    if not os.path.lexists(session.root / JOURNAL):
        return
    try:
        lines = read_bytes(session.root, JOURNAL, "V026").splitlines()
    except UnreadableError as error:
        out.add(error.finding)
        return
    previous, journal = "0" * 64, ""
    for row, raw in enumerate(lines, start=1):
        line = sealed(raw) or {}
        chained = (line.get("seq"), line.get("prev")) == (row - 1, previous)
        sound = _is_head(session, line) if row == 1 else _is_charged(session, line, journal)
        if not chained or not sound:
            why = "noise may have been drawn that the ledger was not charged for"
            out.add(Finding("V026", "the journal does not agree with the ledger", JOURNAL, row, why=why))
            return
        journal = journal or str(line.get("journal"))
        previous = hashlib.sha256(raw).hexdigest()


def _is_head(session: Session, line: dict[str, Any]) -> bool:
    plain = all(isinstance(value, str | int) and len(str(value)) <= 200 for value in line.values())
    right = (line.get("type"), line.get("version")) == ("topdown.journal", 1)
    return plain and right and line.get("plan_hash") == session.plan.computed_hash


def _is_charged(session: Session, line: dict[str, Any], journal: str) -> bool:
    begin, seq = line.get("begin"), line.get("intent")
    part = _PART.fullmatch(begin) if isinstance(begin, str) else None
    if set(line) != _SEAL | {"begin", "intent"} or part is None or not isinstance(seq, int):
        return False
    intent = session.ledger.intents.get(seq)
    return intent is not None and intent.journal == journal and part["level"] in intent.covers
