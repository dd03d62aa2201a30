"""What a whole ledger costs: one exact composition of everything charged to a data set, up to a named record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from topdown.privacy.ledger import (
    UNNAMED,
    Book,
    Charge,
    Choice,
    DrawnLaw,
    choice_loss,
    exact_text,
    ledger_history,
    losses_by_plan,
)
from topdown.privacy.relation import StatedChange, stated_changes

if TYPE_CHECKING:
    from topdown.privacy.accountant import ComposedLoss, NoiseAndChoices

DELTA = "1e-10"
PAIRS = "epsilon_delta"


def spent_statement(
    book: Book, deltas: Sequence[str] = (DELTA,), *, newest: bool = True, anew: bool = False
) -> dict[str, Any]:
    """Return what all charges of a ledger cost together, whatever drew the noise; unfinished ones count in full.

    Args:
        book: a ledger that was opened.
        deltas: where epsilon is stated; pure epsilon is stated at 0, which holds for all, pairs at their sum.
        newest: false of a copy that may be older than the ledger; the sentences say so.
        anew: see `loss_numbers`.

    Returns:
        `ledger_history`, what the ledger is bound to, `charged`, `conditional_on` (names of all statistics that some
        release published exactly), and `secrets`: one row for the relation the ledger is bound to, under add_remove a
        second one for a replaced record; none while nothing is charged.
    """
    from topdown.privacy.statement import loss_numbers

    bound, live = book.binding, book.live
    exact = tuple(dict.fromkeys(name for intent in live.values() for name in intent.exact))
    rows = []
    for change in stated_changes(bound.neighbours, bound.unit) if live else ():
        numbers = loss_numbers(_loss(live.values(), change.n_charges), deltas, anew=anew)
        rows.append(
            {"name": change.name, "kind": change.kind}
            | numbers
            | {"sentence": _sentence(book, change, numbers["right_in_100"], exact, newest=newest)}
        )
    return ledger_history(book) | {
        "data_set": bound.data_set,
        "neighbours": bound.neighbours,
        "unit": bound.unit,
        "loss_name": bound.loss_name,
        "charged": exact_text(book.charged),
        **delta_charged(book),
        "conditional_on": list(exact),
        "secrets": rows,
    }


def delta_charged(book: Book) -> dict[str, str]:
    """Return what of delta is charged, for a ledger of pairs; nothing for another."""
    return {"charged_delta": exact_text(book.charged_delta)} if book.binding.loss_name == PAIRS else {}


def ledger_document(book: Book, deltas: Sequence[str] = (DELTA,), *, newest: bool = False) -> dict[str, Any]:
    """Return the `topdown.audit.ledger` document: `spent_statement` and the releases behind it."""
    live = book.live
    chosen = {intent.plan_hash for intent in book.intents.values() if isinstance(intent, Choice)}
    names = {intent.plan_hash: intent.release for intent in book.intents.values()}
    return {
        "type": "topdown.audit.ledger",
        "version": 2,
        "head": book.head,
        "newest": newest,
        **spent_statement(book, deltas, newest=newest, anew=True),
        "releases": [
            {
                "release": names[plan],
                "what": "choice" if plan in chosen else "release",
                "plan_hash": plan,
                "loss": exact_text(loss),
                **_delta_of(plan, live.values()),
                "n_charges": sum(i.plan_hash == plan for i in live.values()),
                "n_unfinished": sum(
                    i.plan_hash == plan and seq not in book.committed for seq, i in live.items()
                ),
            }
            for plan, loss in losses_by_plan(live.values()).items()
        ],
    }


def _delta_of(plan_hash: str, intents: Iterable[Charge]) -> dict[str, str]:
    total = sum((i.delta for i in intents if i.plan_hash == plan_hash), Fraction(0))
    return {"delta": exact_text(total)} if total else {}


def _loss(intents: Iterable[Charge], times: int) -> ComposedLoss | NoiseAndChoices:
    """Return the loss of all charges to somebody whose counts they move so many times."""
    from topdown.privacy.accountant.finite_losses import NoiseAndChoices, PairLoss

    charged = list(intents)
    laws = [law for intent in charged for law in intent.laws]
    choices = [intent for intent in charged if isinstance(intent, Choice)]
    noise = _noise(laws, times) if laws else None
    if noise is not None and not choices:
        return noise
    if isinstance(noise, PairLoss):
        raise TypeError("a ledger of pairs takes no choices")
    rhos = (choice_loss("rho", times * c.epsilon, c.exp_epsilon**times) for c in choices)
    rho = sum(rhos, Fraction(0)) if choices[0].loss_name == "rho" else Fraction(0)
    return NoiseAndChoices(noise, times * sum((c.epsilon for c in choices), Fraction(0)), rho)


def _noise(drawn: Sequence[DrawnLaw], times: int) -> ComposedLoss:
    from topdown.privacy.accountant.finite_losses import NoisyCounts, compose_noise

    rows = (NoisyCounts(x.law, x.parameter, times * x.coordinates, x.shift, x.delta) for x in drawn)
    return compose_noise(rows, drawn[0].loss_name)


def _readers(book: Book, *, newest: bool) -> str:
    """Return who a sentence is about: somebody who reads what a ledger was charged for, up to its last record."""
    history, data_set = ledger_history(book), book.binding.data_set
    up_to = f"record {history['up_to']['record']} of {history['up_to']['date']}"
    some = "Someone" if newest else f"According to a copy that ends at {up_to}, someone"
    end = f" up to {up_to}" if newest else ""
    if not history["attestations"]:
        return (
            f'{some} who reads everything charged to data set "{data_set}" in ledger {history["ledger"]}{end}'
        )
    last = history["attestations"][-1]
    return (
        f'{some} who reads everything in ledger {history["ledger"]} of data set "{data_set}"{end}, which '
        f"{last['by'] or UNNAMED} attested on {last['date']} to be complete"
    )


def _sentence(book: Book, change: StatedChange, times: int, exact: tuple[str, ...], *, newest: bool) -> str:
    bound = book.binding
    published = f"what was published exactly ({', '.join(exact)}) and " if exact else ""
    return (
        f"{_readers(book, newest=newest)}, knows every other {bound.unit}'s answers, and must "
        f"tell {change.asked}, {change.fit} {published}the public facts, chooses rightly at most {times} times in "
        "100; a coin gives 50."
    )
