"""What a whole ledger costs: one exact composition of everything charged to a data set, up to a named record."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from msgspec import UNSET, structs

from topdown.formats.common import EverythingReleased
from topdown.formats.privacy_documents import AuditLedger, PaidRelease
from topdown.formats.strict_toml import exact_text
from topdown.privacy.ledger import UNNAMED, Book, Charge, Choice, charged_fields, ledger_history
from topdown.privacy.relation import stated_changes
from topdown.privacy.statement import loss_numbers

DELTA = "1e-10"


def spent_statement(
    book: Book, deltas: Sequence[str] = (DELTA,), *, newest: bool = True, anew: bool = False
) -> EverythingReleased:
    """Return what all charges of a ledger cost together, whatever drew them; unfinished ones count in full.

    Args:
        book: a ledger that was opened.
        deltas: where epsilon is stated; see `loss_numbers`.
        newest: false of a copy that may be older than the ledger; the sentences say so.
        anew: see `loss_numbers`.

    Returns:
        `ledger_history`, what the ledger is bound to, `charged` by kind, `conditional_on` (names of all statistics that
        some release published exactly), and `secrets`: one row for the relation the ledger is bound to, under
        add_remove a second one for a replaced record where every charge says something of it; none while nothing is
        charged.
    """
    bound, live = book.binding, book.charges
    exact = tuple(dict.fromkeys(name for _, charge in live for name in charge.exact))
    facts = (f"what was published exactly ({', '.join(exact)}) and " if exact else "") + "the public facts"
    rows = []
    for change in stated_changes(bound.neighbours, bound.unit) if live else ():
        loss = book.composed(change.neighbours)
        if loss is None:
            continue
        numbers = loss_numbers(loss, deltas, anew=anew)
        said = change.sentence(_readers(book, newest=newest), bound.unit, facts, numbers["right_in_100"])
        rows.append({"name": change.name, "kind": change.kind} | numbers | {"sentence": said})
    return EverythingReleased(
        **structs.asdict(ledger_history(book)),
        data_set=bound.data_set,
        neighbours=bound.neighbours,
        unit=bound.unit,
        **charged_fields(book),
        conditional_on=list(exact),
        secrets=rows,
    )


def ledger_document(book: Book, deltas: Sequence[str] = (DELTA,), *, newest: bool = False) -> AuditLedger:
    """Return what a whole ledger costs, and the releases behind it."""
    by_plan: dict[str, list[tuple[int, Charge]]] = {}
    for seq, charge in book.charges:
        by_plan.setdefault(charge.plan_hash, []).append((seq, charge))
    rows, unfinished = [], book.unfinished
    for plan_hash, charges in by_plan.items():
        first, delta = charges[0][1], sum((one.delta for _, one in charges), Fraction(0))
        rows.append(
            PaidRelease(
                release=first.release,
                what="choice" if isinstance(first, Choice) else "release",
                plan_hash=plan_hash,
                loss_name=first.loss_name,
                loss=exact_text(sum((one.loss for _, one in charges), Fraction(0))),
                delta=exact_text(delta) if delta else UNSET,
                neighbours=first.neighbours,
                n_charges=len(charges),
                n_unfinished=sum((seq, one.journal) in unfinished for seq, one in charges),
            )
        )
    return AuditLedger(
        **structs.asdict(spent_statement(book, deltas, newest=newest, anew=True)),
        head=book.head,
        newest=newest,
        releases=rows,
    )


def _readers(book: Book, *, newest: bool) -> str:
    """Return who a sentence is about: somebody who reads what a ledger was charged for, up to its last record."""
    history, data_set = ledger_history(book), book.binding.data_set
    up_to = f"record {history.up_to.record} of {history.up_to.date}"
    some = "Someone" if newest else f"According to a copy that ends at {up_to}, someone"
    end = f" up to {up_to}" if newest else ""
    if not history.attestations:
        return f'{some} who reads everything charged to data set "{data_set}" in ledger {history.ledger}{end}'
    last = history.attestations[-1]
    return (
        f'{some} who reads everything in ledger {history.ledger} of data set "{data_set}"{end}, which '
        f"{last.by or UNNAMED} attested on {last.date} to be complete"
    )
