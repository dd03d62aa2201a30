"""Check `privacy`: the certificate states the plan's loss, and no epsilon below what follows from it."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from topdown.publish.verify.arithmetic import exact_text
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

FILE = "certificate.json"
SLACK = Fraction(1, 10**6)  # a usual epsilon may be rounded up by this much, not more
_CERTIFIED = {"conditional_on", "curve", "epsilon", "secrets", "sentence", "steps"}
_KNOWN = _CERTIFIED | {
    "everything_released",
    "loss",
    "loss_name",
    "loss_with_base",
    "neighbours",
    "unit",
    "unspent",
    "usual",
}
_USUAL = {
    "rho": {"label": "usual formula", "formula": "rho + 2 sqrt(rho ln(1/delta))"},
    "epsilon": {"label": "usual formula", "formula": "epsilon"},
}
_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,400})?")
_DELTA = re.compile(r"1e-([1-9][0-9]{0,2})")
_EVERY_DELTA = "0"


def check_privacy(session: Session, out: Findings) -> str:
    """Compare loss, unit, neighbours and every stated epsilon with what the plan implies."""
    plan, stated = session.plan, session.certificate.get("privacy")
    if not isinstance(stated, dict):
        out.add(Finding("V130", "the certificate states no privacy loss", file=FILE))
        return "the certificate states no privacy loss"
    total = plan.loss
    if session.base is not None:
        total += session.base.plan.loss + sum(older.loss for older in session.older_plans.values())
    _equal(out, "loss", exact_text(plan.loss), stated.get("loss"))
    _equal(out, "loss with its base", exact_text(total), stated.get("loss_with_base"))
    _equal(out, "unit of the loss", plan.loss_name, stated.get("loss_name"))
    _equal(out, "neighbour relation", plan.doc.neighbours, stated.get("neighbours"))
    _equal(out, "unit of privacy", plan.schema.unit, stated.get("unit"))
    for key in sorted(set(stated) - _KNOWN):
        out.add(Finding("V130", f"the certificate's section privacy has the unknown key {key!r}", file=FILE))
    usual = stated.get("usual")
    if (
        not isinstance(usual, dict)
        or {k: usual[k] for k in usual if k != "epsilon"} != _USUAL[plan.loss_name]
    ):
        out.add(Finding("V131", "the certificate does not say which usual formula it states", file=FILE))
    epsilons = usual.get("epsilon") if isinstance(usual, dict) else None
    if not isinstance(epsilons, dict) or "1e-10" not in epsilons:
        out.add(Finding("V131", "the certificate states no usual epsilon at delta 1e-10", file=FILE))
        return "the certificate states no usual epsilon"
    for delta, text in epsilons.items():
        out.n_checked += 1
        _usual(out, plan, total, delta, text)
    certified = stated.get("epsilon")
    if certified is not None:
        _certified(out, plan, total, certified)
    if out.ok:
        loss = exact_text(plan.loss)
        shown = f"{plan.loss_name} {loss}" if len(loss) < 40 else plan.loss_name
        return f"{shown} as planned; epsilon at most {epsilons['1e-10']} at delta 1e-10, usual formula"
    return f"{out.n_failed} of {out.n_checked} statements about privacy do not follow from the plan"


def _equal(out: Findings, what: str, expected: str, found: object) -> None:
    out.n_checked += 1
    if found != expected:
        why = "the certificate would promise something the plan does not"
        text = f"the certificate states another {what} than the plan"
        out.add(Finding("V130", text, FILE, None, None, expected[:80], str(found)[:80], why))


def _usual(out: Findings, plan: PlanFile, loss: Fraction, delta: str, text: Any) -> None:
    try:
        stated, log = _decimal(text), _log_of_inverse(delta)
    except ValueError as error:
        out.add(Finding("V131", f"a usual epsilon is not readable: {error}", file=FILE))
        return
    if plan.loss_name == "epsilon":
        enough, tight = stated >= loss, stated - SLACK <= loss
    else:
        # epsilon >= rho + 2 sqrt(rho L)  <=>  epsilon >= rho and (epsilon - rho)^2 >= 4 rho L
        low, high = log
        enough = stated >= loss and (stated - loss) ** 2 >= 4 * loss * high
        less = stated - SLACK - loss
        tight = less <= 0 or less**2 <= 4 * loss * low
    if not enough or not tight:
        side = "smaller" if not enough else "larger"
        text = f"the usual epsilon at delta {delta} is {side} than the plan's loss implies"
        out.add(Finding("V131", text, FILE, None, None, "", str(stated)[:40], "the privacy claim is wrong"))


def _certified(out: Findings, plan: PlanFile, loss: Fraction, certified: object) -> None:
    if not isinstance(certified, dict):
        out.add(Finding("V132", "the certified epsilons are not a list by delta", file=FILE))
        return
    for delta, pair in certified.items():
        out.n_checked += 1
        try:
            low, high = (_decimal(text) for text in pair)
            sound = low <= high
            if plan.loss_name == "rho":
                # The true epsilon is at most the usual one, so no enclosure may lie above it.
                sound &= low <= loss or (low - loss) ** 2 <= 4 * loss * _log_of_inverse(delta)[1]
            else:
                sound &= low <= loss <= high and delta == _EVERY_DELTA
        except (ValueError, TypeError):
            sound = False
        if not sound:
            text = f"the certified epsilon at delta {delta} is no enclosure that the plan allows"
            out.add(Finding("V132", text, file=FILE, found=str(pair)[:80], why="the privacy claim is wrong"))


def _decimal(text: object) -> Fraction:
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is not a decimal number")
    return Fraction(Decimal(text))


def _log_of_inverse(delta: object) -> tuple[Fraction, Fraction]:
    """Enclose ln(1/delta) = n ln 10 by the series 2 artanh(x) = 2 (x + x^3/3 + ...), 10 = 2^3 * 5/4."""
    match = _DELTA.fullmatch(delta) if isinstance(delta, str) else None
    if match is None:
        raise ValueError(f"{str(delta)[:40]!r} is not a delta like 1e-10")
    low2, high2 = _log(Fraction(1, 3))  # ln 2
    low, high = _log(Fraction(1, 9))  # ln 5/4
    n = int(match.group(1))
    return n * (3 * low2 + low), n * (3 * high2 + high)


def _log(x: Fraction, terms: int = 60) -> tuple[Fraction, Fraction]:
    total = 2 * sum((x ** (2 * k + 1) / (2 * k + 1) for k in range(terms)), Fraction(0))
    rest = 2 * x ** (2 * terms + 1) / ((2 * terms + 1) * (1 - x * x))
    return total, total + rest
