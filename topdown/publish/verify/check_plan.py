"""Check `plan`: its hash, its shares, and every loss and noise parameter re-derived from them."""

from __future__ import annotations

from fractions import Fraction

from topdown.publish.verify.arithmetic import exact_text, fraction
from topdown.publish.verify.check_weights import problem_of
from topdown.publish.verify.plan_doc import LevelDoc
from topdown.publish.verify.plan_file import FILE, PlanFile
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session
from topdown.publish.verify.tree import GEOGRAPHY

_BROKEN = "the noise would not keep the epsilon and delta that were charged for it"


def check_plan(session: Session, out: Findings) -> str:
    """Re-derive everything the plan states from budget, shares, queries and the neighbour relation."""
    plan = session.plan
    _expect(out, "V011", "the plan's hash", plan.computed_hash, plan.doc.plan_hash)
    noise_follows(out, plan)
    tree = session.tree
    _expect(out, "V015", "the hash of the public facts", tree.sha256, plan.doc.public_sha256)
    _expect(out, "V015", "the hash of the geography", tree.geography_sha256, plan.doc.geography_sha256)
    for level, mark in zip(plan.doc.levels, session.marks, strict=True):
        _expect(out, "V016", f"measured nodes of {level.name}", str(int(mark.sum())), str(level.n_measured))
    if out.ok:
        return (
            f"hash {plan.computed_hash[:8]}; shares add up exactly, {out.n_checked} numbers follow from them"
        )
    return f"{out.n_failed} of {out.n_checked} numbers do not follow from budget and shares"


def noise_follows(out: Findings, plan: PlanFile, file: str = FILE) -> None:
    """Re-derive every loss and noise parameter of a plan from budget, shares and the neighbour relation."""
    budget = fraction(plan.doc.budget)
    if budget <= 0:
        out.add(Finding("V012", "the budget is not positive", file=file, found=plan.doc.budget))
    if fraction(plan.doc.delta) >= 1:
        out.add(Finding("V012", "delta is not below 1", file=file, found=plan.doc.delta))
    levels = plan.doc.levels
    shares = {level.name: level.share for level in levels} | dict(plan.doc.unspent)
    _shares(out, file, "levels", list(shares.values()), len(levels) + len(plan.doc.unspent))
    for level in levels:
        parts = [m.share for m in level.measurements]
        _shares(out, file, f"queries of {level.name}", parts, len(level.measurements))
        _level(out, plan, level, budget, file)


def _shares(out: Findings, file: str, what: str, shares: list[str], n: int) -> None:
    out.n_checked += 1
    values = [fraction(text) for text in shares]
    total = sum(values, Fraction(0))
    if total != 1 or min(values) <= 0 or len(values) != n:
        out.add(
            Finding(
                "V012",
                f"the shares of the {what} do not sum to exactly 1, or one is not positive",
                file=file,
                expected="1",
                found=exact_text(total)[:80],
                why="the stated privacy loss would not be the one spent",
            )
        )


def _level(out: Findings, plan: PlanFile, level: LevelDoc, budget: Fraction, file: str) -> None:
    loss = budget * fraction(level.share)
    _expect(out, "V013", f"the loss of {level.name}", exact_text(loss), level.loss, file)
    names = [m.query for m in level.measurements]
    if len(set(names)) != len(names):
        out.add(Finding("V016", f"a query of {level.name} is listed twice", file=file))
    for m in level.measurements:
        query = plan.queries[m.query]
        what = f"{m.query} at {level.name}"
        cost = loss * fraction(m.share)
        _expect(out, "V013", f"the loss of {what}", exact_text(cost), m.loss, file)
        _expect(out, "V016", f"the number of answers of {what}", str(query.n_answers), str(m.n_answers), file)
        _expect(out, "V014", f"the noise law of {what}", plan.law, m.law, file)
        if cost > 0:
            # Discrete Gaussian: rho = S / (2 variance). Two-sided geometric: epsilon = S / scale.
            # Optimal: every count that moves pays its part of epsilon, and of delta.
            moved = plan.sensitivity(query)
            due = {
                "discrete_gaussian": moved / (2 * cost),
                "geometric": moved / cost,
                "optimal": cost / moved,
            }
            _expect(
                out,
                "V014",
                f"the noise parameter of {what}",
                exact_text(due[plan.doc.mechanism]),
                m.parameter,
                file,
            )
            delta = fraction(plan.doc.delta) * cost / budget if budget else Fraction(0)
            _expect(out, "V013", f"the delta of {what}", exact_text(delta), m.delta, file)
            if plan.doc.mechanism == "optimal":
                out.n_checked += 1
                problem = problem_of(m.weights, cost / moved, delta / moved)
                if problem:
                    out.add(Finding("V017", f"the noise law of {what} {problem}", file=file, why=_BROKEN))


def _expect(out: Findings, code: str, what: str, expected: str, found: str, file: str = FILE) -> None:
    out.n_checked += 1
    if expected != found:
        out.add(
            Finding(
                code,
                f"{what} is not what follows from the files",
                file=GEOGRAPHY if code == "V015" else file,
                expected=expected[:80],
                found=found[:80],
                why="the plan or the public facts were altered, or belong to two runs",
            )
        )
