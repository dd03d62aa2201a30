"""Re-derive, from the files alone, every statement of the certificate that follows from them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec

from topdown.publish.verify.arithmetic import exact_text, fraction
from topdown.publish.verify.ledger_file import LedgerFile, Opened
from topdown.publish.verify.measurement_files import MEASURED_PLAN, part_paths
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.population import PERSONS
from topdown.publish.verify.session import Session

OPEN = "?"


def is_open(answer: str) -> bool:
    """Tell whether an answer that only a person can give has not been given."""
    return answer.strip() in ("", OPEN)


def open_answers(plan: PlanFile) -> list[str]:
    """Name the answers that only a person can give and nobody has given."""
    fields = msgspec.to_builtins(plan.doc.release)
    names = [f"release.{key}" for key, value in fields.items() if value == OPEN]
    rules = plan.doc.invariants
    for kind in ("exact", "at_least", "none_where_zero", "never", "at_most", "no_more_than"):
        names += [
            f"invariants.{kind}.{rule.name}.legal_basis"
            for rule in getattr(rules, kind)
            if is_open(rule.basis.legal_basis)
        ]
    return names


def stamps(plan: PlanFile) -> list[str]:
    """Return the words every reader must see: DEMO, DRAFT."""
    release = plan.doc.release
    out = ["DEMO"] if release.data_set == "demo" or release.id.startswith("demo-") else []
    return out + (["DRAFT"] if open_answers(plan) else [])


def expected_sections(session: Session) -> dict[str, Any]:
    """Return the sections of the certificate that the files determine, as JSON values."""
    plan = session.plan
    return {
        "plan_hash": plan.computed_hash,
        "stamps": stamps(plan),
        "open_answers": open_answers(plan),
        "checks": [
            {"name": r.name, "ok": r.ok, "text": r.text, "n_checked": r.n_checked, "n_failed": r.n_failed}
            for r in session.results
            if r.name not in ("manifest", "privacy", "certificate", "stamps")
        ],
        "files": _files(session),
    } | ({} if plan.doc.measured is None else {"measured": msgspec.to_builtins(plan.doc.measured)})


def _delta(plan: PlanFile, loss: Fraction) -> dict[str, str]:
    """Return the delta beside a part of the budget, where losses are pairs."""
    total = fraction(plan.doc.delta)
    return {"delta": exact_text(total * loss / fraction(plan.doc.budget))} if total else {}


def delta_charged(ledger: LedgerFile) -> dict[str, str]:
    """Return what of delta is charged to a ledger, where losses are pairs."""
    pairs = any(isinstance(line, Opened) and line.loss_name == "epsilon_delta" for line in ledger.lines)
    return {"charged_delta": exact_text(ledger.charged_delta)} if pairs else {}


def unspent(plan: PlanFile) -> list[dict[str, str]]:
    """Return the loss left unspent because the geography lacks a level of the settings."""
    budget: Fraction = fraction(plan.doc.budget)
    return [
        {"level": name, "loss": exact_text(budget * fraction(share))} | _delta(plan, budget * fraction(share))
        for name, share in plan.doc.unspent
    ]


def _files(session: Session) -> dict[str, str]:
    paths = ["plan.json", "ledger.jsonl", "solve.json", "public/geography.parquet", "public/leaves.parquet"]
    paths += ["measurements/exact.json", *part_paths(session)]
    paths += session.cuts.paths(PERSONS, len(session.tree.names) - 1)
    paths += session.carried
    paths += [] if session.plan.doc.measured is None else [MEASURED_PLAN]
    return {path: session.sha256(path) for path in sorted(paths)}
