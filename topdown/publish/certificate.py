"""certificate.json: what is exact, what was drawn, what it cost, and what the checks found."""

from __future__ import annotations

import json
import platform
from decimal import ROUND_CEILING, Decimal
from decimal import Context as Rounding
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from topdown import __version__
from topdown.decimals import fixed
from topdown.errors import InternalError
from topdown.ledger.book import Book, read_book
from topdown.model.constraint import AtLeast, AtMost, Basis, Exact, Never, NoMoreThan, NoneWhereZero
from topdown.model.histogram import Histogram
from topdown.plan.base import COPIES, FOLDER, carried
from topdown.plan.document import exact_text
from topdown.plan.plan import LevelPlan, Plan
from topdown.plan.prepare import Context
from topdown.plan.runfile import OPEN
from topdown.plan.secrets import ReleaseChain
from topdown.publish.manifest import sha256
from topdown.publish.spent import spent_statement
from topdown.publish.verify import VerifyResult

CERTIFICATE = "certificate.json"
SOFTWARE = ("numba", "numpy", "ortools", "pyarrow", "scipy")
DELTA_DIGITS = 10
_UP = Rounding(prec=60, rounding=ROUND_CEILING)


def usual_epsilon(total: Fraction, loss_name: str) -> str:
    """Return the usual epsilon at delta 1e-10 of a total loss, rounded up to nine decimals.

    zCDP: rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016, Proposition 1.3). Pure DP: the loss itself.
    """
    loss = _UP.divide(Decimal(total.numerator), Decimal(total.denominator))
    if loss_name == "rho":
        # ln and sqrt round to nearest; one step up makes them upper bounds.
        log = _UP.multiply(DELTA_DIGITS, _UP.ln(Decimal(10)).next_plus(_UP))
        root = _UP.sqrt(_UP.multiply(loss, log)).next_plus(_UP)
        loss = _UP.add(loss, _UP.multiply(Decimal(2), root))
    return fixed(Fraction(loss), 9, up=True)


def open_answers(plan: Plan) -> list[str]:
    """Name the answers that only a person can give and nobody has given yet."""
    release = plan.release
    fields = {
        "id": release.id,
        "title": release.title,
        "data_set": release.data_set,
        "agency": release.agency,
        "contact": release.contact,
    }
    names = [f"release.{name}" for name, value in fields.items() if value == OPEN]
    rules = plan.invariants
    kinds: dict[str, tuple[Exact | AtLeast | AtMost | NoMoreThan | NoneWhereZero | Never, ...]] = {
        "exact": rules.exact,
        "at_least": rules.at_least,
        "none_where_zero": rules.none_where_zero,
        "never": rules.never,
        "at_most": rules.at_most,
        "no_more_than": rules.no_more_than,
    }
    for kind, constraints in kinds.items():
        names += [
            f"invariants.{kind}.{c.name}.legal_basis"
            for c in constraints
            if c.basis.legal_basis.strip() in ("", OPEN)
        ]
    return names


def stamps(plan: Plan) -> list[str]:
    """Return what every reader must see: DEMO, DRAFT (open answers)."""
    demo = plan.release.data_set == "demo" or plan.release.id.startswith("demo-")
    marks = {"DEMO": demo, "DRAFT": bool(open_answers(plan))}
    return [word for word, due in marks.items() if due]


def make_certificate(
    release: Path,
    context: Context,
    leaves: Histogram,
    checked: VerifyResult,
    privacy: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the certificate of a release whose other files are written.

    Args:
        release: folder of the release; its files are read and hashed.
        context: plan and public facts.
        leaves: records of every leaf and cell.
        checked: result of `verify_content`.
        privacy: certified statements to add to the section `privacy` (see `certified_privacy`).

    Raises:
        InternalError: `privacy` would replace a statement that follows from the plan.
    """
    plan = context.plan
    ledger = release / "ledger.jsonl"
    book = read_book(ledger.read_bytes(), ledger)[0]
    solved = json.loads((release / "solve.json").read_text(encoding="utf-8"))
    return _base(plan) | {
        "type": "topdown.certificate",
        "version": 1,
        "engine": __version__,
        "release": {
            "id": plan.release.id,
            "title": plan.release.title,
            "data_set": plan.release.data_set,
            "agency": plan.release.agency,
            "contact": plan.release.contact,
        },
        "plan_hash": plan.plan_hash,
        "stamps": stamps(plan),
        "open_answers": open_answers(plan),
        "summary": {
            "unit": plan.schema.unit,
            "records": leaves.n_records,
            "root": context.geography.root.codes[0],
            "levels": [{"level": x.name, "nodes": len(x)} for x in context.geography.levels],
        },
        "privacy": _privacy(context.policy, privacy or {}) | {"everything_released": spent_statement(book)},
        "invariants": _invariants(context),
        "structural_zeros": [
            {"name": z.name, "n_cells": plan.schema.n_selected(dict(z.cells))} | _basis(z.basis)
            for z in plan.invariants.never
        ],
        "measurements": [_measured(level, plan.numbers_at(i)) for i, level in enumerate(plan.levels)],
        "solver": _solver(solved),
        "failsafe": solved.get("failsafe", []),
        **_comparisons(plan, solved),
        "ledger": _ledger(book),
        "checks": [
            {"name": c.name, "ok": c.ok, "text": c.text, "n_checked": c.n_checked, "n_failed": c.n_failed}
            for c in checked.checks
        ],
        "software": software(),
        "files": {path: sha256(release / path) for path in sorted(certified_files(release, context))},
    }


def certified_files(release: Path, context: Context) -> list[str]:
    """Return the files that decide the release: plan, public facts, ledger, measurements, microdata."""
    plan = context.plan
    paths = ["plan.json", "ledger.jsonl", "solve.json", "public/geography.parquet", "public/leaves.parquet"]
    paths += ["measurements/exact.json", "microdata/persons.parquet"]
    paths += [] if plan.base is None else [f"{FOLDER}/{name}" for name in COPIES]
    paths += {path for depth in range(len(context.bases)) for path in carried(depth + 1)} - set(paths)
    for level in plan.levels:
        parts = (release / "measurements" / level.name).glob("part-*.parquet")
        paths += [path.relative_to(release).as_posix() for path in parts]
    return paths


def software() -> dict[str, str]:
    """Return the versions of what computed the release."""
    versions = {"python": platform.python_version(), "topdown": __version__}
    for name in SOFTWARE:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _privacy(policy: ReleaseChain, certified: dict[str, Any]) -> dict[str, Any]:
    plan = policy.plan
    stated = {
        "unit": plan.schema.unit,
        "neighbours": plan.neighbours,
        "loss_name": plan.loss_name,
        "loss": exact_text(plan.loss),
        "loss_with_base": exact_text(policy.loss),
        "unspent": [{"level": name, "loss": exact_text(plan.budget * share)} for name, share in plan.unspent],
        "usual": {
            "label": "usual formula",
            "formula": "rho + 2 sqrt(rho ln(1/delta))" if plan.loss_name == "rho" else "epsilon",
            "epsilon": {f"1e-{DELTA_DIGITS}": usual_epsilon(policy.loss, plan.loss_name)},
        },
    }
    twice = sorted(set(stated) & set(certified))
    if twice:
        raise InternalError(f"privacy.{twice[0]} follows from the plan and cannot be given", code="X032")
    return {"epsilon": None} | certified | stated


def _basis(basis: Basis) -> dict[str, str]:
    return {"legal_basis": basis.legal_basis, "decided_by": basis.decided_by, "date": basis.date}


def _invariants(context: Context) -> list[dict[str, Any]]:
    geography, rules, plan = context.geography, context.plan.invariants, context.plan
    out: list[dict[str, Any]] = []
    for e in rules.exact:
        n = len(geography.levels[geography.index(e.level)]) * plan.query(e.query).n_answers
        out.append(
            {"kind": "exact", "name": e.name, "level": e.level, "query": e.query, "n": n} | _basis(e.basis)
        )
    leaf = geography.leaves.name
    others: tuple[AtLeast | NoneWhereZero, ...] = (*rules.at_least, *rules.none_where_zero)
    for rule in others:
        n = _n_leaves(context, rule)
        kind = "at_least" if isinstance(rule, AtLeast) else "none_where_zero"
        out.append({"kind": kind, "name": rule.name, "level": leaf, "n": n} | _basis(rule.basis))
    n = len(geography.leaves)
    out += [
        {"kind": "at_most", "name": b.name, "level": leaf, "n": n} | _basis(b.basis) for b in rules.at_most
    ]
    return out


def _comparisons(plan: Plan, solved: dict[str, Any]) -> dict[str, Any]:
    """Return the soft rules of the plan and how they were kept; no section where there are none."""
    rules = [{"name": s.name, "times": s.times} | _basis(s.basis) for s in plan.invariants.no_more_than]
    return {"comparisons": {"rules": rules} | solved["comparisons"]} if rules else {}


def _n_leaves(context: Context, rule: AtLeast | NoneWhereZero) -> int:
    """Count the leaves where a rule says something: a bound above zero, or public facts that are all zero."""
    facts = context.facts.columns
    if isinstance(rule, AtLeast):
        return int((facts[rule.column] > 0).sum())
    empty = np.ones(len(context.geography.leaves), dtype=bool)
    for name in rule.columns:
        empty &= facts[name] == 0
    return int(empty.sum())


def _base(plan: Plan) -> dict[str, Any]:
    if plan.base is None:
        return {}
    stated = {"release": plan.base.release, "plan_hash": plan.base.plan_hash}
    stated |= {"manifest_sha256": plan.base.manifest_sha256, "table_sha256": plan.base.table_sha256}
    return {"base": stated | {"map": [list(pair) for pair in plan.base.map]}}


def _measured(level: LevelPlan, n_numbers: int) -> dict[str, Any]:
    return {
        "level": level.name,
        "n_nodes": level.n_nodes,
        "n_measured": level.n_measured,
        "n_numbers": n_numbers,
        "loss": exact_text(level.loss),
        "queries": [
            {
                "query": m.query,
                "n_answers": m.n_answers,
                "law": m.law,
                "parameter": exact_text(m.parameter),
                "loss": exact_text(m.loss),
            }
            for m in level.measurements
        ],
    }


def _solver(solved: dict[str, Any]) -> dict[str, Any]:
    residual = "max_kkt_residual_persons"
    return {
        "n_problems": sum(x["n_problems"] for x in solved["levels"]),
        "n_unconverged": sum(x["n_unconverged"] for x in solved["levels"]),
        residual: max((x[residual] for x in solved["levels"]), default=0.0),
        "levels": [{"level": x["level"], residual: x[residual]} for x in solved["levels"]],
    }


def _ledger(book: Book) -> dict[str, Any]:
    def state(seq: int) -> str:
        return "void" if seq in book.voided else "committed" if seq in book.committed else "open"

    intents = [
        {
            "seq": seq,
            "release": i.release,
            "plan_hash": i.plan_hash,
            "attempt": i.attempt,
            "covers": list(i.covers),
            "loss": exact_text(i.loss),
            "state": state(seq),
        }
        for seq, i in book.intents.items()
    ]
    return {
        "lines": len(book.entries),
        "head": book.head,
        "charged": exact_text(book.charged),
        "intents": intents,
    }
