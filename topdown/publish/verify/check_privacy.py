"""Check `privacy`: every statement about privacy, derived anew from plans, public files and ledger."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from topdown.publish.verify.arithmetic import exact_text
from topdown.publish.verify.ledger_file import Choice, LedgerFile, Opened
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.privacy.chain import Own, own_statements
from topdown.publish.verify.privacy.choices import with_choices
from topdown.publish.verify.privacy.compare import FILE, Comparison, Row, shown
from topdown.publish.verify.privacy.decimals import ROUNDED, digits_of, number, usual_formula
from topdown.publish.verify.privacy.losses import Loss, loss_of
from topdown.publish.verify.privacy.words import disclosed_by, ledger_sentence, named, sentence
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

SLACK = Fraction(1, 10**6)  # a usual epsilon may be rounded up by this much, not more
_KEYS = (
    "conditional_on",
    "curve",
    "epsilon",
    "everything_released",
    "loss",
    "loss_name",
    "loss_with_base",
    "neighbours",
    "secrets",
    "sentence",
    "steps",
    "unit",
    "unspent",
    "usual",
)
_LEDGER_KEYS = ("charged", "conditional_on", "data_set", "loss_name", "neighbours", "secrets", "unit")
_USUAL = {
    "rho": {"label": "usual formula", "formula": "rho + 2 sqrt(rho ln(1/delta))"},
    "epsilon": {"label": "usual formula", "formula": "epsilon"},
}


def check_privacy(session: Session, out: Findings) -> str:
    """Refuse every number, secret, sentence or step that does not follow from the files, or was left out."""
    plan, stated = session.plan, session.certificate.get("privacy")
    if not isinstance(stated, dict):
        out.add(Finding("V130", "the certificate states no privacy loss", file=FILE))
        return "the certificate states no privacy loss"
    compare = Comparison(out)
    compare.same("V130", "privacy: its keys", list(_KEYS), sorted(stated))
    below = session.plans_below
    total = plan.loss + sum(base.loss for base in below.values())
    for key, expected in (
        ("loss", exact_text(plan.loss)),
        ("loss_with_base", exact_text(total)),
        ("loss_name", plan.loss_name),
        ("neighbours", plan.doc.neighbours),
        ("unit", plan.schema.unit),
    ):
        compare.same("V130", f"privacy.{key}", expected, stated.get(key))
    with compare.reading("V131", "privacy.usual"):
        _usual(compare, plan, total, stated["usual"])
    own = _own(session)
    _secrets(compare, plan, own, stated)
    with compare.reading("V136", "privacy.everything_released"):
        everything_released(compare, session.ledger, stated["everything_released"])
    if not out.ok:
        return f"{out.n_failed} of {out.n_checked} statements about privacy do not follow from the files"
    open_rows = sum(change.status != "disclosed" for change in own.changes)
    loss = exact_text(plan.loss)
    said = f"{plan.loss_name} {loss}" if len(loss) < 40 else plan.loss_name
    return (
        f"{said} as planned; {open_rows} of {len(own.changes)} secrets have a loss, the first at most "
        f"{stated['secrets'][0]['right_in_100']} right choices in 100, computed anew"
    )


def check_statements(session: Session, stated: dict[str, Any], out: Findings) -> str:
    """Refuse secrets, curve, steps and sentences that do not follow from plans and public files, without a ledger."""
    _secrets(Comparison(out), session.plan, _own(session), stated)
    return f"{out.n_failed} of {out.n_checked} statements about privacy do not follow from the files"


def _own(session: Session) -> Own:
    plans, facts = session.plans_below, session.facts_below
    return own_statements(session.plan, {p: (plans[p], facts[p]) for p in plans}, session.tree)


def _usual(compare: Comparison, plan: PlanFile, loss: Fraction, stated: dict[str, Any]) -> None:
    literal = {key: stated[key] for key in stated if key != "epsilon"}
    compare.same("V131", "privacy.usual", _USUAL[plan.loss_name], literal)
    if "1e-10" not in stated["epsilon"]:
        raise ValueError("it states no epsilon at delta 1e-10")
    for delta, text in stated["epsilon"].items():
        digits = digits_of(delta)
        true = loss if plan.loss_name == "epsilon" else usual_formula(loss, digits)
        if not true * (1 - ROUNDED) <= number(text) <= true + SLACK:
            compare.wrong(
                "V131", f"privacy.usual at {delta}", "is not what the plan's loss implies", shown(true), text
            )


def _secrets(compare: Comparison, plan: PlanFile, own: Own, stated: dict[str, Any]) -> None:
    compare.same("V133", "privacy.conditional_on", list(own.conditional_on), stated.get("conditional_on"))
    compare.read_deltas(stated.get("secrets"), pure=plan.loss_name == "epsilon")
    if own.losses[0] is None:
        compare.wrong("V133", "privacy", "speaks of neighbours that no two data sets can be")
        return
    whole = "chain" if len(own.steps) > 1 else "release"
    compare.rows("V133", "privacy.secrets", stated.get("secrets"), _rows(plan, own, own.losses, whole))
    with compare.reading("V132", "privacy.secrets[0]"):
        first = stated["secrets"][0]
        compare.same("V132", "privacy.epsilon", first["epsilon"], stated.get("epsilon"))
        compare.same("V134", "privacy.sentence", first["sentence"], stated.get("sentence"))
        compare.curve(stated.get("curve"), own.losses[0], first["method"])
    with compare.reading("V135", "privacy.steps"):
        steps = own.steps if len(own.steps) > 1 else ()
        heads = [{"release": release, "plan_hash": plan_hash} for release, plan_hash, _ in steps]
        found = [{key: step[key] for key in step if key != "secrets"} for step in stated["steps"]]
        if compare.same("V135", "privacy.steps", heads, found):
            for i, (_, _, losses) in enumerate(steps):
                rows = stated["steps"][i].get("secrets")
                compare.rows("V135", f"privacy.steps[{i}].secrets", rows, _rows(plan, own, losses, "step"))


def _rows(plan: PlanFile, own: Own, losses: tuple[Loss | None, ...], reads: str) -> list[Row]:
    unit, out = plan.schema.unit, []
    for change, loss in zip(own.changes, losses, strict=True):
        head = {
            "name": named(change.kind, change.of, unit),
            "kind": change.kind,
            "status": change.status,
            "exact": list(change.exact),
        }
        exact = change.exact if change.status == "conditional" else ()
        say = partial(
            sentence, change.kind, change.of, unit, exact, public_facts=own.public_facts, reads=reads
        )
        out.append(Row(head, loss, say if loss is not None else partial(_disclosed, change.exact)))
    return out


def _disclosed(names: tuple[str, ...], _: int) -> str:
    return disclosed_by(names)


def everything_released(
    compare: Comparison,
    ledger: LedgerFile,
    stated: dict[str, Any],
    place: str = "privacy.everything_released",
) -> None:
    """Refuse what is stated of a whole ledger and does not follow from it.

    Args:
        compare: collects findings.
        ledger: as read.
        stated: the section of a certificate.
        place: its name there.
    """
    first = next(line for line in ledger.lines if isinstance(line, Opened))
    live = [intent for seq, intent in ledger.intents.items() if seq not in ledger.voided]
    exact = list(dict.fromkeys(name for intent in live for name in intent.exact))
    compare.same("V136", f"{place}: its keys", list(_LEDGER_KEYS), sorted(stated))
    for key, expected in (
        ("data_set", first.data_set),
        ("neighbours", first.neighbours),
        ("unit", first.unit),
        ("loss_name", first.loss_name),
        ("charged", exact_text(ledger.charged)),
        ("conditional_on", exact),
    ):
        compare.same("V136", f"{place}.{key}", expected, stated.get(key))
    kinds = (("presence", 1), ("everything", 2)) if first.neighbours == "add_remove" else (("everything", 1),)
    laws = [drawn for intent in live for drawn in intent.laws]
    law = "discrete_gaussian" if first.loss_name == "rho" else "two_sided_geometric"
    rows = [
        Row(
            {"name": named(kind, "", first.unit), "kind": kind},
            with_choices(
                loss_of(law, ((x.scale, x.shift, times * x.coordinates) for x in laws)),
                [choice.charge(times) for choice in live if isinstance(choice, Choice)],
            ),
            partial(ledger_sentence, kind, first.data_set, first.unit, exact),
        )
        for kind, times in kinds
    ]
    compare.rows("V136", f"{place}.secrets", stated.get("secrets"), rows if live else [])
