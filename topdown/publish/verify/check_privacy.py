"""Check `privacy`: every statement about privacy, derived anew from plans, public files and ledger."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from topdown.publish.verify.arithmetic import exact_text, fraction
from topdown.publish.verify.expected_certificate import delta_charged
from topdown.publish.verify.ledger_file import Choice, LedgerFile, Opened
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.privacy.chain import Own, own_statements
from topdown.publish.verify.privacy.choices import with_choices
from topdown.publish.verify.privacy.compare import FILE, Comparison, Row, shown
from topdown.publish.verify.privacy.composed import delta_between
from topdown.publish.verify.privacy.decimals import ROUNDED, digits_of, number, usual_formula
from topdown.publish.verify.privacy.losses import Loss, Moved, loss_of
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
_LAWS = {"rho": "discrete_gaussian", "epsilon": "two_sided_geometric", "epsilon_delta": "optimal_integer"}
_USUAL = {
    "rho": {"label": "usual formula", "formula": "rho + 2 sqrt(rho ln(1/delta))"},
    "epsilon": {"label": "usual formula", "formula": "epsilon"},
    "epsilon_delta": {"label": "usual formula", "formula": "sums of epsilon and delta"},
}
_OF_PAIRS = ("composed", "delta")
QUARTERS = tuple(Fraction(n, 4) for n in (1, 2, 3, 4))


def check_privacy(session: Session, out: Findings) -> str:
    """Refuse every number, secret, sentence or step that does not follow from the files, or was left out."""
    plan, stated = session.plan, session.certificate.get("privacy")
    if not isinstance(stated, dict):
        out.add(Finding("V130", "the certificate states no privacy loss", file=FILE))
        return "the certificate states no privacy loss"
    compare = Comparison(out)
    pairs = plan.loss_name == "epsilon_delta"
    compare.same("V130", "privacy: its keys", sorted((*_KEYS, *(_OF_PAIRS * pairs))), sorted(stated))
    if pairs:
        compare.same("V130", "privacy.delta", exact_text(plan.delta), stated.get("delta"))
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
    if pairs:
        said = "epsilon and delta"
    return (
        f"{said} as planned; {open_rows} of {len(own.changes)} secrets have a loss, the first at most "
        f"{stated['secrets'][0]['right_in_100']} right choices in 100, computed anew"
    )


def _own(session: Session) -> Own:
    plans, facts = session.plans_below, session.facts_below
    return own_statements(session.plan, {p: (plans[p], facts[p]) for p in plans}, session.tree)


def _usual(compare: Comparison, plan: PlanFile, loss: Fraction, stated: dict[str, Any]) -> None:
    literal = {key: stated[key] for key in stated if key != "epsilon"}
    compare.same("V131", "privacy.usual", _USUAL[plan.loss_name], literal)
    at = exact_text(plan.delta) if plan.loss_name == "epsilon_delta" else "1e-10"
    if at not in stated["epsilon"] or (at != "1e-10" and len(stated["epsilon"]) > 1):
        raise ValueError(f"it states no epsilon at delta {at}, or at others")
    for delta, text in stated["epsilon"].items():
        true = usual_formula(loss, digits_of(delta)) if plan.loss_name == "rho" else loss
        if not true * (1 - ROUNDED) <= number(text) <= true + SLACK:
            compare.wrong(
                "V131", f"privacy.usual at {delta}", "is not what the plan's loss implies", shown(true), text
            )


def _secrets(compare: Comparison, plan: PlanFile, own: Own, stated: dict[str, Any]) -> None:
    compare.same("V133", "privacy.conditional_on", list(own.conditional_on), stated.get("conditional_on"))
    compare.read_deltas(stated.get("secrets"), pure=plan.loss_name != "rho")
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
    if plan.loss_name == "epsilon_delta":
        with compare.reading("V132", "privacy.composed"):
            _composed(compare, own, stated["composed"])
    with compare.reading("V135", "privacy.steps"):
        steps = own.steps if len(own.steps) > 1 else ()
        heads = [{"release": release, "plan_hash": plan_hash} for release, plan_hash, _ in steps]
        found = [{key: step[key] for key in step if key != "secrets"} for step in stated["steps"]]
        if compare.same("V135", "privacy.steps", heads, found):
            for i, (_, _, losses) in enumerate(steps):
                rows = stated["steps"][i].get("secrets")
                compare.rows("V135", f"privacy.steps[{i}].secrets", rows, _rows(plan, own, losses, "step"))


def _composed(compare: Comparison, own: Own, stated: list[dict[str, str]]) -> None:
    """Refuse deltas at quarters of epsilon that composed losses do not give: too small ones, and vague ones."""
    total = sum((epsilon * count for _, epsilon, count in own.first), Fraction(0))
    points = [total * quarter for quarter in QUARTERS]
    heads = [{key: one[key] for key in one if key != "delta"} for one in stated]
    if not compare.same(
        "V132", "privacy.composed: its epsilons", [{"epsilon": exact_text(p)} for p in points], heads
    ):
        return
    parts = [(weights, count) for weights, _, count in own.first]
    shares = [epsilon / total for _, epsilon, _ in own.first]
    for point, one in zip(points, stated, strict=True):
        low, high = delta_between(parts, shares, total, point)
        compare.out.n_checked += 1
        if not low <= float(number(one["delta"])) <= high:
            line = "is not between the sums found here"
            compare.wrong(
                "V132",
                f"privacy.composed at {exact_text(point)}",
                line,
                f"{low:.6g} .. {high:.6g}",
                one["delta"],
            )


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
    more = delta_charged(ledger)
    compare.same("V136", f"{place}: its keys", sorted((*_LEDGER_KEYS, *more)), sorted(stated))
    for key, value in more.items():
        compare.same("V136", f"{place}.{key}", value, stated.get(key))
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
    law = _LAWS.get(first.loss_name, "")
    if strange := sorted({x.law for x in laws} - {law}):
        text = f"is of noise that is not added up in a ledger of {first.loss_name}"
        compare.wrong("V136", f"{place}.secrets", text, law, strange[0])
        return
    rows = [
        Row(
            {"name": named(kind, "", first.unit), "kind": kind},
            with_choices(
                loss_of(
                    law, (Moved(x.scale, x.shift, times * x.coordinates, fraction(x.delta)) for x in laws)
                ),
                [choice.charge(times) for choice in live if isinstance(choice, Choice)],
            ),
            partial(ledger_sentence, kind, first.data_set, first.unit, exact),
        )
        for kind, times in kinds
    ]
    compare.rows("V136", f"{place}.secrets", stated.get("secrets"), rows if live else [])
