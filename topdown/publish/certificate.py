"""certificate.json: what the release costs, what the checks found, and the files that decide it."""

from __future__ import annotations

import platform
from dataclasses import asdict
from decimal import ROUND_CEILING, Decimal
from decimal import Context as Rounding
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

from topdown import __version__
from topdown.decimals import fixed
from topdown.errors import InternalError
from topdown.laws import law_of_mechanism
from topdown.ledger.book import Book, read_book
from topdown.model.constraint import AtLeast, AtMost, Exact, Never, NoMoreThan, NoneWhereZero
from topdown.model.sections import sections_of
from topdown.plan.base import BaseFiles, carried
from topdown.plan.document import exact_text
from topdown.plan.plan import MEASURED_PLAN, Plan
from topdown.plan.prepare import Context
from topdown.plan.runfile import OPEN
from topdown.plan.secrets import ReleaseChain
from topdown.publish.manifest import Hashes
from topdown.publish.microdata import PERSONS
from topdown.publish.spent import spent_statement
from topdown.publish.verify import VerifyResult

CERTIFICATE = "certificate.json"
SOFTWARE = ("numba", "numpy", "ortools", "pyarrow", "scipy")
DELTA_DIGITS = 10
_UP = Rounding(prec=60, rounding=ROUND_CEILING)


def usual_epsilon(total: Fraction, loss_name: str) -> str:
    """Return the usual epsilon at delta 1e-10 of a total loss, rounded up to nine decimals.

    zCDP: rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016, Proposition 1.3). Pure DP: the loss itself, and that of
    pairs, at their own delta.
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
    checked: VerifyResult,
    privacy: dict[str, Any] | None = None,
    hashes: Hashes | None = None,
) -> dict[str, Any]:
    """Return the certificate of a release whose other files are written.

    It repeats nothing that a file whose hash it states holds: the plan, the ledger and solve.json speak for themselves.

    Args:
        release: folder of the release; its files are read and hashed.
        context: plan and public facts.
        checked: result of `verify_content`.
        privacy: certified statements to add to the section `privacy` (see `certified_privacy`).
        hashes: of its files, those that are known.

    Raises:
        InternalError: `privacy` would replace a statement that follows from the plan.
    """
    plan = context.plan
    measured = {} if plan.measured is None else {"measured": asdict(plan.measured)}
    ledger, hashes = release / "ledger.jsonl", hashes or Hashes(release)
    book = read_book(ledger.read_bytes(), ledger)[0]
    return {
        "type": "topdown.certificate",
        "version": 1,
        "engine": __version__,
        "plan_hash": plan.plan_hash,
        "stamps": stamps(plan),
        "open_answers": open_answers(plan),
        "privacy": stated_privacy(context.policy, privacy or {}, book),
        "checks": [
            {"name": c.name, "ok": c.ok, "text": c.text, "n_checked": c.n_checked, "n_failed": c.n_failed}
            for c in checked.checks
        ],
        "software": software(),
        "files": {path: hashes.of(path) for path in sorted(certified_files(release, context))},
    } | measured


def certified_files(release: Path, context: Context) -> list[str]:
    """Return the files that decide the release: plan, public facts, ledger, measurements, microdata."""
    plan = context.plan
    paths = ["plan.json", "ledger.jsonl", "solve.json", "public/geography.parquet", "public/leaves.parquet"]
    paths += ["measurements/exact.json", *sections_of(context.geography).paths(PERSONS, len(plan.levels) - 1)]
    paths += [] if plan.base is None else list(BaseFiles.of_extension(release).copies)
    paths += {path for depth in range(len(context.bases)) for path in carried(depth + 1)} - set(paths)
    paths += [] if plan.measured is None else [MEASURED_PLAN]
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


def stated_privacy(policy: ReleaseChain, certified: dict[str, Any], book: Book) -> dict[str, Any]:
    """Return the section `privacy` of a certificate.

    Args:
        policy: of the release.
        certified: statements to add (see `certified_privacy`).
        book: ledger that is charged for the release.

    Raises:
        InternalError: X032 `certified` would replace a statement that follows from the plan.
    """
    plan = policy.plan
    stated = {
        "unit": plan.schema.unit,
        "neighbours": plan.neighbours,
        "loss_name": plan.loss_name,
        "loss": exact_text(plan.loss),
        "loss_with_base": exact_text(policy.loss),
        "unspent": [
            {"level": name, "loss": exact_text(plan.budget * share)} | _delta(plan, plan.budget * share)
            for name, share in plan.unspent
        ],
        "usual": {
            "label": "usual formula",
            "formula": law_of_mechanism(plan.mechanism).usual,
            "epsilon": {
                exact_text(plan.delta_of(plan.loss)) if plan.delta else f"1e-{DELTA_DIGITS}": usual_epsilon(
                    policy.loss, plan.loss_name
                )
            },
        },
    }
    if plan.delta:
        stated |= {"delta": exact_text(plan.delta_of(plan.loss))}
    twice = sorted(set(stated) & set(certified))
    if twice:
        raise InternalError(f"privacy.{twice[0]} follows from the plan and cannot be given", code="X032")
    return {"epsilon": None} | certified | stated | {"everything_released": spent_statement(book)}


def _delta(plan: Plan, loss: Fraction) -> dict[str, str]:
    """Return the delta beside a part of the budget, where losses are pairs."""
    return {"delta": exact_text(plan.delta_of(loss))} if plan.delta else {}
