"""What a charge would leave behind, before it is made: the ledger with it, and what a certificate would say then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from topdown.canonical import json_bytes
from topdown.ledger.book import read_book
from topdown.ledger.chained_lines import line_hash
from topdown.ledger.ledger import next_line
from topdown.measure.run_ledger import place_of, spend_of
from topdown.plan.prepare import Prepared
from topdown.publish.certificate import CERTIFICATE, stated_privacy
from topdown.publish.publish import LEDGER
from topdown.rehearse import JOURNAL


def write_as_charged(prepared: Prepared, privacy: dict[str, Any], folder: Path) -> None:
    """Write a copy of the ledger with the charge of a run, and a certificate with its section `privacy` alone.

    Args:
        prepared: of the run; its ledger is only read.
        privacy: certified statements for the certificate (see `certified_privacy`).
        folder: of the copy.

    Cost: a few milliseconds, and for a ledger that holds other releases what the certificate takes anyway: the numbers
    of all of them together, which are kept for it.
    """
    path, spend = place_of(prepared).path, spend_of(prepared)
    data = path.read_bytes()
    book, n_bytes, whole = read_book(data, path)
    intent = replace(
        spend.intent(spend.covers, 1, JOURNAL),
        limit=spend.limit,
        limit_reason=spend.limit_reason,
        delta_limit=spend.delta_limit,
    )
    line, time = next_line(intent, book)
    book.add(intent, time, line_hash(line))
    (folder / LEDGER).write_bytes(data[:n_bytes] + b"\n" * (not whole) + line)
    stated = stated_privacy(prepared.context.policy, privacy, book)
    document = {"type": "topdown.certificate", "version": 1, "privacy": stated}
    (folder / CERTIFICATE).write_bytes(json_bytes(document))
