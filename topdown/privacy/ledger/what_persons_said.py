"""What persons did to a ledger, for certificates, README files and screens: attestations, limits, refunds."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from topdown.formats.caps import exact_text
from topdown.formats.common import (
    LedgerAttestation,
    LedgerEnd,
    LedgerHistory,
    LedgerLimit,
    LedgerRefund,
    LedgerTakenOver,
)
from topdown.privacy.ledger.book import Book, Entry
from topdown.privacy.ledger.ledger_records import Attested, LimitChange, Limits, Refund, TakenOver

UNNAMED = "somebody whom the ledger does not name"


def ledger_history(book: Book) -> LedgerHistory:
    """Return which ledger it is, its last record and that one's date, and what persons attested or took back."""
    opened, last = book.opened, book.entries[-1]
    attested = [(e, e.event) for e in book.attestations if isinstance(e.event, Attested | TakenOver)]
    refunded = [(e, e.event) for e in book.refunds if isinstance(e.event, Refund)]
    return LedgerHistory(
        ledger="" if opened is None else opened.ledger,
        up_to=LedgerEnd(record=last.seq, date=last.time[:10]),
        limits=[_stated_limit(entry, limits) for entry, limits in book.stated_limits],
        attestations=[
            LedgerAttestation(
                record=e.seq,
                date=e.time[:10],
                by=said.by,
                reason=said.reason,
                taken_over=_stated_taking(said) if isinstance(said, TakenOver) else UNSET,
            )
            for e, said in attested
        ],
        refunds=[
            LedgerRefund(record=e.seq, date=e.time[:10], intent=r.intent, by=r.witness, reason=r.reason)
            for e, r in refunded
        ],
    )


def _stated_limit(entry: Entry, limits: Limits) -> LedgerLimit:
    event = entry.event
    stated: dict[str, Any] = {name: exact_text(one) for name, one in limits.fields.items() if one}
    said = {"by": event.by, "reason": event.reason} if isinstance(event, LimitChange) else {}
    return LedgerLimit(record=entry.seq, date=entry.time[:10], **stated, **said)


def _stated_taking(taken: TakenOver) -> LedgerTakenOver:
    return LedgerTakenOver(
        ledger=taken.ledger,
        format=taken.version,
        data_set=taken.data_set,
        records=taken.records,
        head=taken.head,
        sha256=taken.sha256,
        witness="agrees" if taken.witness == "agrees" else "none",
        attested=taken.attested,
        refunded=taken.refunded,
        n_charges=len(taken.charges),
    )


def history_lines(history: LedgerHistory) -> list[str]:
    """Return a line for every attestation, change of limits and refund of a ledger."""
    lines = [
        f"Attested on {one.date} by {one.by or UNNAMED}: {_what_is_complete(one)} (record {one.record}: {one.reason})."
        for one in history.attestations
    ]
    lines += [
        f"Limit changed on {one.date} by {one.by}: {_limit_words(one)} (record {one.record}: {one.reason})."
        for one in history.limits
        if one.by is not UNSET
    ]
    return lines + [
        f"Taken back on {one.date}: the charge of record {one.intent}, whose noise {one.by} saw destroyed "
        f"({one.reason})."
        for one in history.refunds
    ]


def _limit_words(stated: LedgerLimit) -> str:
    """Write limits as a history states them: "rho 3 and epsilon 2 at delta 1/100000"."""
    found = [] if stated.rho_limit is UNSET else [f"rho {stated.rho_limit}"]
    if stated.epsilon_limit is not UNSET:
        found.append(f"epsilon {stated.epsilon_limit} at delta {stated.delta_limit or 0}")
    return " and ".join(found)


def _what_is_complete(attestation: LedgerAttestation) -> str:
    taken = attestation.taken_over
    if taken is UNSET:
        return "the ledger is complete"
    seen = "its witness agreed" if taken.witness == "agrees" else "no witness of it was found"
    return (
        f'ledger {taken.ledger} of format {taken.format}, data set "{taken.data_set}", is complete and was '
        f"taken over with {taken.n_charges} charges in {taken.records} records; {seen}; {taken.attested} "
        f"times somebody had attested it, {taken.refunded} charges had been taken back; its last line has the "
        f"SHA-256 {taken.head}"
    )
