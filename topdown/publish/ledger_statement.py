"""What a whole ledger costs: one exact composition of everything ever released from a data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from topdown.privacy.ledger import Book, Charge, Choice, DrawnLaw, choice_loss, exact_text, losses_by_plan
from topdown.privacy.relation import StatedChange, stated_changes

if TYPE_CHECKING:
    from topdown.privacy.accountant import ComposedLoss, NoiseAndChoices

DELTA = "1e-10"
PAIRS = "epsilon_delta"


def spent_statement(book: Book, deltas: Sequence[str] = (DELTA,), *, anew: bool = False) -> dict[str, Any]:
    """Return what all charges of a ledger cost together, whatever drew the noise; unfinished ones count in full.

    Args:
        book: a ledger that was opened.
        deltas: where epsilon is stated; pure epsilon is stated at 0, which holds for all, pairs at their sum.
        anew: see `loss_numbers`.

    Returns:
        what the ledger is bound to, `charged`, `conditional_on` (names of all statistics that some release published
        exactly), `releases`, `vouched`, and `secrets`: one row for the relation the ledger is bound to, under
        add_remove a second one for a replaced record; none while nothing is charged.
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
            | {"sentence": _sentence(book, change, numbers["right_in_100"], exact)}
        )
    return {
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


def ledger_document(book: Book, deltas: Sequence[str] = (DELTA,)) -> dict[str, Any]:
    """Return the `topdown.audit.ledger` document: `spent_statement` and the history behind it."""
    opened = book.opened
    if opened is None:
        raise ValueError("an empty ledger says nothing")
    live = book.live
    chosen = {intent.plan_hash for intent in book.intents.values() if isinstance(intent, Choice)}
    names = {intent.plan_hash: intent.release for intent in book.intents.values()}
    return {
        "type": "topdown.audit.ledger",
        "version": 1,
        "ledger": opened.ledger,
        "head": book.head,
        **spent_statement(book, deltas, anew=True),
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
        "voided": [{"record": v.intent, "reason": v.reason, "witness": v.witness} for v in book.voids],
        "vouched": [v.reason for v in book.vouched],
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
    from topdown.privacy.accountant.composition import Composition
    from topdown.privacy.accountant.finite_losses import MovedCounts, PairLoss, PureLoss

    if drawn[0].loss_name == PAIRS:  # a ledger knows their promises, not their weights
        return PairLoss(
            tuple(MovedCounts((), law.parameter, law.delta, times * law.coordinates) for law in drawn)
        )
    if drawn[0].loss_name == "epsilon":
        if any(law.shift > 1 for law in drawn):  # its losses have more than two values
            epsilon = times * sum((law.loss for law in drawn), Fraction(0))
            return PureLoss(epsilon, times * sum(law.coordinates for law in drawn))
        return PureLoss.of_geometric((law.parameter, times * law.coordinates) for law in drawn)
    return Composition.of((law.parameter, law.shift, times * law.coordinates) for law in drawn)


def _sentence(book: Book, change: StatedChange, times: int, exact: tuple[str, ...]) -> str:
    bound = book.binding
    published = f"what was published exactly ({', '.join(exact)}) and " if exact else ""
    return (
        f'Someone who reads everything ever released from "{bound.data_set}", knows every other {bound.unit}\'s '
        f"answers, and must tell {change.asked}, {change.fit} {published}the public facts, chooses rightly at most "
        f"{times} times in 100; a coin gives 50."
    )
