"""What a ledger says when it refuses: what, where, and how to go on."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from topdown.errors import BudgetError
from topdown.ledger.book import Book
from topdown.ledger.choice import Choice
from topdown.ledger.records import Binding, Charge, Opened, exact_text

_SIGN = {"rho": "ρ", "epsilon": "ε", "epsilon_delta": "ε"}
_PAIRS = "epsilon_delta"
_NO_RHO = (
    "; noise of finitely many values costs epsilon and delta: it has no zCDP and no pure epsilon, so no ledger of rho "
    "or epsilon can book it, nor one of epsilon and delta any other noise"
)
_WORDS = {
    "data_set": "data set",
    "neighbours": "neighbour relation",
    "unit": "unit of privacy",
    "loss_name": "loss",
}


def missing(path: Path, data_set: str) -> BudgetError:
    """Return the error for a ledger that does not exist (B011)."""
    return BudgetError(
        f"there is no ledger {path}",
        code="B011",
        file=str(path),
        fix=f"put it where it was; if nothing was ever released from {data_set!r}, make it, once: "
        "topdown ledger new RUN.toml (pgsr ledger new for group sizes)",
    )


def not_in_use(path: Path, error: OSError) -> BudgetError:
    """Return the error for a file that cannot be a ledger (B006)."""
    return BudgetError(
        f"the ledger {path} cannot be opened: {error.strerror}",
        code="B006",
        file=str(path),
        fix="give a plain file in a folder you may write to",
    )


def wrong_ledger(path: Path, opened: Opened, wanted: str, binding: Binding) -> BudgetError:
    """Return the error for a ledger that is another one, or is bound to something else (B007)."""
    fix = "give each data set its own ledger, and use the one that was made for it"
    if not wanted:
        text = f"the run file names no ledger, but there is one at {path}"
        fix = f'if it is the ledger of this data set, add to [ledger]: id = "{opened.ledger}"'
    elif opened.binding != binding:
        there, here = vars(opened.binding), vars(binding)
        key = next(key for key in here if here[key] != there[key])
        text = f"{path} is the ledger of another {_WORDS[key]}: {there[key]!r}, not {here[key]!r}"
        if key == "loss_name" and _PAIRS in (there[key], here[key]):
            text += _NO_RHO
        if key != "data_set":
            fix = f"use the same {_WORDS[key]} as the releases before; losses of two kinds do not add up"
        if key == "loss_name" and there[key] == "rho":
            fix = (
                "give rho in place of epsilon (pgsr: --rho): discrete Gaussian noise; two kinds do not add up"
            )
    else:
        text = f"{path} is ledger {opened.ledger}, but the run file names {wanted}"
    return BudgetError(text, code="B007", file=str(path), fix=fix + "; nothing was spent")


def released_before(path: Path, seq: int, first: Charge) -> BudgetError:
    """Return the error for a release that was measured before (B013)."""
    chosen = isinstance(first, Choice)
    held = "the choice" if chosen else "a measurement of release"
    again = "choosing" if chosen else "measuring"
    drawn = "a new choice from the same records" if chosen else "new noise of the same answers"
    return BudgetError(
        f"the ledger holds {held} {first.release!r} already (record {seq}, plan {first.plan_hash[:8]}); "
        f"{again} again draws {drawn} and is charged in full",
        code="B013",
        file=str(path),
        fix="to go on with it, give its folder and --resume; for a new release give it an id of its own; if two "
        "versions are really meant, add --again. Nothing was spent",
    )


def over_budget(path: Path, book: Book, intent: Charge, limit: Fraction, left: Fraction) -> BudgetError:
    """Return the error for a loss over the limit (B004)."""
    sign = _SIGN[intent.loss_name]
    left = max(left, Fraction(0))
    details = [
        (str(e.seq), f"{e.time[:10]}  {e.event.plan_hash[:8]}  {decimal_text(e.event.loss, up=True)}")
        for e in book.entries
        if isinstance(e.event, Charge) and e.seq not in book.voided
    ]
    fix = "raise ledger.limit with a reason"
    if left > 0:
        if isinstance(intent, Choice):
            fix = f"give a smaller --epsilon, or {fix}"
        else:
            key = "rho" if intent.loss_name == "rho" else "epsilon"
            fix = f"lower budget.{key} to {exact_text(left)} or less, or {fix}"
    again = f" (attempt {intent.attempt}, for {', '.join(intent.covers)})" if intent.attempt > 1 else ""
    what = "choice" if isinstance(intent, Choice) else "plan"
    return BudgetError(
        f"the {what} costs {sign} {decimal_text(intent.loss, up=True)}{again}; "
        f'only {decimal_text(left, up=False)} of {exact_text(limit)} is left for "{book.binding.data_set}"',
        code="B004",
        file=str(path),
        details=(("charged so far", f"{sign} {decimal_text(book.charged, up=True)}"), *details),
        fix=fix,
    )


def over_delta(path: Path, book: Book, intent: Charge, limit: Fraction) -> BudgetError:
    """Return the error for a delta over the limit (B004)."""
    left = max(limit - book.charged_delta, Fraction(0))
    fix = "raise ledger.delta_limit with a reason"
    if left > 0:
        fix = f"lower budget.delta to {exact_text(left)} or less, or {fix}"
    return BudgetError(
        f"the plan costs δ {exact_text(intent.delta)} beside its ε; "
        f'only {exact_text(left)} of {exact_text(limit)} is left for "{book.binding.data_set}"',
        code="B004",
        file=str(path),
        details=(("charged so far", f"δ {exact_text(book.charged_delta)}"),),
        fix=fix,
    )


def decimal_text(value: Fraction, *, up: bool, digits: int = 4) -> str:
    """Write a nonnegative fraction with `digits` decimals, rounded up or down, without trailing zeros."""
    scaled = value * 10**digits
    whole = -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator
    text = f"{whole // 10**digits}.{whole % 10**digits:0{digits}d}"
    return text.rstrip("0").rstrip(".")


def no_ledger(path: Path) -> BudgetError:
    """Return the error of a file that does not begin as a ledger."""
    return BudgetError(
        f"{path} is no ledger: it has no whole first record",
        code="B006",
        file=str(path),
        fix="correct the path, or restore the ledger from a copy if it was in use; one whose creation was interrupted "
        "never was and may be removed",
    )
