"""What a run has spent: what the ledger says after it, less what it said before."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topdown.plan.prepare import Prepared

SPENT = "this run spent: "  # how a note on an error begins that says what its run has spent


def spent_so_far(prepared: Prepared) -> Fraction:
    """Return what the ledger says this plan has spent, in all folders and attempts."""
    from topdown.api.ledger_view import view_ledger

    view = view_ledger(prepared.ledger_path, prepared.run.ledger.limit)
    return view.spent_on(prepared.context.plan.plan_hash)


def note_spent(prepared: Prepared, error: BaseException, before: Fraction) -> None:
    """Note on an error, once, what this run has spent beyond what was spent before; it is shown with the error."""
    from topdown.screen import figures

    if any(note.startswith(SPENT) for note in getattr(error, "__notes__", ())):
        return
    spent = spent_so_far(prepared) - before
    plan = prepared.context.plan
    loss = figures.loss(plan.loss_name, spent, plan.delta_of(spent))
    error.add_note(f"{SPENT}{loss}; finished noise is kept: --resume" if spent else f"{SPENT}nothing")
