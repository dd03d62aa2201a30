"""Re-derive, from the files alone, every statement of the certificate that follows from them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec

from topdown.publish.verify.arithmetic import exact_text, fraction
from topdown.publish.verify.check_solver import load_solved
from topdown.publish.verify.measurement_files import part_paths
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.session import Session
from topdown.publish.verify.tree import closed_leaves

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
    sections: dict[str, Any] = {} if plan.doc.base is None else {"base": _base(plan)}
    if plan.doc.invariants.no_more_than:
        sections["comparisons"] = _comparisons(session)
    return sections | {
        "release": msgspec.to_builtins(plan.doc.release),
        "plan_hash": plan.computed_hash,
        "stamps": stamps(plan),
        "open_answers": open_answers(plan),
        "summary": _summary(session),
        "invariants": _invariants(session),
        "structural_zeros": _zeros(session),
        "measurements": _measurements(plan),
        "solver": _solver(session),
        "failsafe": load_solved(session)[0].get("failsafe", []),
        "ledger": _ledger(session),
        "checks": [
            {"name": r.name, "ok": r.ok, "text": r.text, "n_checked": r.n_checked, "n_failed": r.n_failed}
            for r in session.results
            if r.name not in ("manifest", "privacy", "certificate", "stamps")
        ],
        "files": _files(session),
    }


def _summary(session: Session) -> dict[str, Any]:
    tree = session.tree
    return {
        "unit": session.plan.schema.unit,
        "records": int(session.population.count.sum()),
        "root": tree.code(0, 0),
        "levels": [{"level": n, "nodes": len(g)} for n, g in zip(tree.names, tree.geocodes, strict=True)],
    }


def _basis(rule: Any) -> dict[str, str]:
    return {
        "legal_basis": rule.basis.legal_basis,
        "decided_by": rule.basis.decided_by,
        "date": rule.basis.date,
    }


def _invariants(session: Session) -> list[dict[str, Any]]:
    tree, rules = session.tree, session.plan.doc.invariants
    sizes = {name: len(geocodes) for name, geocodes in zip(tree.names, tree.geocodes, strict=True)}
    leaf = tree.names[-1]
    out: list[dict[str, Any]] = [
        {
            "kind": "exact",
            "name": e.name,
            "level": e.level,
            "query": e.query,
            "n": sizes[e.level] * session.plan.queries[e.query].n_answers,
        }
        | _basis(e)
        for e in rules.exact
    ]
    out += [
        {"kind": "at_least", "name": b.name, "level": leaf, "n": int((tree.facts[b.column] > 0).sum())}
        | _basis(b)
        for b in rules.at_least
    ]
    out += [
        {
            "kind": "none_where_zero",
            "name": z.name,
            "level": leaf,
            "n": int(closed_leaves(tree, z.columns).sum()),
        }
        | _basis(z)
        for z in rules.none_where_zero
    ]
    out += [
        {"kind": "at_most", "name": b.name, "level": leaf, "n": tree.n_leaves} | _basis(b)
        for b in rules.at_most
    ]
    return out


def _comparisons(session: Session) -> dict[str, Any]:
    rules = session.plan.doc.invariants.no_more_than
    stated = load_solved(session)[0].get("comparisons")
    out = {"rules": [{"name": s.name, "times": s.times} | _basis(s) for s in rules]}
    return out | (stated if isinstance(stated, dict) else {})


def _zeros(session: Session) -> list[dict[str, Any]]:
    schema = session.plan.schema
    return [
        {"name": z.name, "n_cells": schema.n_selected(dict(z.cells))} | _basis(z)
        for z in session.plan.doc.invariants.never
    ]


def _measurements(plan: PlanFile) -> list[dict[str, Any]]:
    return [
        {
            "level": level.name,
            "n_nodes": level.n_nodes,
            "n_measured": level.n_measured,
            "n_numbers": level.n_measured * sum(m.n_answers for m in level.measurements)
            if plan.doc.base is None
            else plan.doc.base.n_numbers[depth],
            "loss": level.loss,
            "queries": [
                {
                    "query": m.query,
                    "n_answers": m.n_answers,
                    "law": m.law,
                    "parameter": m.parameter,
                    "loss": m.loss,
                }
                for m in level.measurements
            ],
        }
        for depth, level in enumerate(plan.doc.levels)
    ]


def _base(plan: PlanFile) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(plan.doc.base)
    del document["n_numbers"]
    return document


def _solver(session: Session) -> dict[str, Any]:
    _, levels = load_solved(session)
    return {
        "n_problems": sum(level.n_problems for level in levels),
        "n_unconverged": sum(level.n_unconverged for level in levels),
        "max_kkt_residual_persons": max((level.max_kkt_residual_persons for level in levels), default=0.0),
        "levels": [
            {"level": x.level, "max_kkt_residual_persons": x.max_kkt_residual_persons} for x in levels
        ],
    }


def _ledger(session: Session) -> dict[str, Any]:
    ledger = session.ledger
    done = {seq for commit in ledger.commits for seq in commit.intents}
    return {
        "lines": len(ledger.lines),
        "head": ledger.head,
        "charged": exact_text(ledger.charged),
        "intents": [
            {
                "seq": seq,
                "release": intent.release,
                "plan_hash": intent.plan_hash,
                "attempt": intent.attempt,
                "covers": list(intent.covers),
                "loss": exact_text(fraction(intent.loss)),
                "state": "void" if seq in ledger.voided else "committed" if seq in done else "open",
            }
            for seq, intent in ledger.intents.items()
        ],
    }


def unspent(plan: PlanFile) -> list[dict[str, str]]:
    """Return the loss left unspent because the geography lacks a level of the settings."""
    budget: Fraction = fraction(plan.doc.budget)
    return [{"level": name, "loss": exact_text(budget * fraction(share))} for name, share in plan.doc.unspent]


def _files(session: Session) -> dict[str, str]:
    paths = ["plan.json", "ledger.jsonl", "solve.json", "public/geography.parquet", "public/leaves.parquet"]
    paths += ["measurements/exact.json", *part_paths(session), "microdata/persons.parquet"]
    paths += session.carried
    return {path: session.sha256(path) for path in sorted(paths)}
