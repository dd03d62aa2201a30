"""Checks `solver` and `digests`: what solve.json says of optimality, the tree estimate, its inputs and its records."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from topdown.formats.release_documents import FailsafeUse, Solve, TreeEstimate
from topdown.formats.verify_documents import Finding
from topdown.verify.findings import Findings
from topdown.verify.plan_reader import PlanFile
from topdown.verify.session import MEASURED_PLAN, Session, part_paths
from topdown.verify.strict_reader import canonical_json, check_bytes, read_json, unreadable

FILE = "solve.json"
MOST_PERSONS = 1e-6  # of distance from the normal equations


def _check_estimates(plan: PlanFile, stated: TreeEstimate | UnsetType, out: Findings) -> None:
    """Expect the plan's levels in order, a reason for each that is left to its own measurements, a small residual."""
    if (stated is not UNSET) != plan.fits_tree:
        text = "solve.json and plan.json disagree on whether there is a tree estimate"
        out.add(Finding("V122", text, file=FILE))
    if isinstance(stated, UnsetType):
        return
    covered = any(at.targets == "tree" for at in stated.targets)
    whole = UNSET not in (stated.dense, stated.product, stated.residual_persons)
    names = [at.level for at in stated.targets]
    if names != [level.name for level in plan.doc.levels] or covered != whole:
        out.add(Finding("V122", "solve.json does not say of every level what it was fitted to", file=FILE))
    if any((at.targets == "tree") == bool(at.why) for at in stated.targets):
        out.add(Finding("V122", "solve.json leaves out why a level has its own measurements only", file=FILE))
    far = stated.residual_persons
    if far is not UNSET and not 0 <= far <= MOST_PERSONS:
        out.warnings.append(f"the tree estimate is {far:.1e} persons from its normal equations")


MAX_RESIDUAL_PERSONS = 1e-5
ALLOWED_RESIDUAL_PERSONS = 0.1  # rounding to whole people moves a count by up to 1
MAX_NAMED = 20


def load_solved(session: Session) -> Solve:
    """Return solve.json; NotAvailableError (V120) if it is damaged."""

    def load() -> Solve:
        document = read_json(session.root, FILE, "V120", "topdown.solve")
        if document.get("plan_hash") != session.plan.computed_hash:
            raise unreadable("V120", FILE, "belongs to another plan")
        try:
            found = msgspec.convert(document, Solve, strict=True)
        except (ValueError, TypeError) as error:
            raise unreadable("V120", FILE, f"is not as documented: {str(error)[:120]}") from None
        if not (found.inputs_sha256 and found.records_sha256):
            raise unreadable("V120", FILE, "is not as documented: a digest is missing")
        check_bytes(FILE, canonical_json(document), msgspec.to_builtins(found))
        for level in found.levels:
            if not 0 <= level.max_kkt_residual_persons < math.inf:
                raise unreadable("V120", FILE, f"has an impossible number at {level.level}")
        return found

    return session.once("solved", "solver", load)


def _failsafe_warnings(uses: Sequence[FailsafeUse]) -> list[str]:
    """Name every node the failsafe changed, and the largest changes first."""
    shown = sorted(uses, key=lambda use: -use.distance)[:MAX_NAMED]
    out = [
        f"failsafe at {use.level} {use.node}: table changed by {use.distance:,} (L1)"
        + ("" if use.marginals_kept else ", marginals that no constraint concerns included")
        + (f"; {', '.join(use.constraints)}" if use.constraints else "")
        for use in shown
    ]
    return out + ([f"failsafe at {len(uses) - len(shown):,} more nodes"] if len(uses) > len(shown) else [])


def check_solver(session: Session, out: Findings) -> str:
    """Expect every problem of every level solved, but for less than what rounding changes: that is a warning."""
    plan = session.plan
    solved = load_solved(session)
    levels = solved.levels
    if [level.level for level in levels] != [level.name for level in plan.doc.levels]:
        out.add(Finding("V122", "solve.json does not report the plan's levels in order", file=FILE))
        return "solve.json is not about this plan"
    _check_estimates(plan, solved.statistics, out)
    places = dict(zip(session.tree.names, session.tree.geocodes, strict=True))
    for use in solved.failsafe:
        if use.level not in places or use.node not in places[use.level].to_pylist():
            out.add(Finding("V122", "solve.json reports a failsafe at an unknown place", FILE, node=use.node))
    out.warnings += _failsafe_warnings(solved.failsafe)
    why, fix = (
        "this costs accuracy; privacy and exact statistics do not depend on it",
        "solve again; noise is kept",
    )
    for level in levels:
        out.n_checked += level.n_problems
        if level.n_unconverged and level.max_kkt_residual_persons > ALLOWED_RESIDUAL_PERSONS:
            text = (
                f"{level.n_unconverged:,} of {level.n_problems:,} problems of {level.level} did not converge"
            )
            finding = Finding("V121", text, FILE, None, None, "0", str(level.n_unconverged), why, fix)
            out.add_many(level.n_unconverged, [finding])
        if level.max_kkt_residual_persons > MAX_RESIDUAL_PERSONS:
            out.warnings.append(
                f"largest residual at {level.level} is {level.max_kkt_residual_persons:.1e} persons, "
                f"above {MAX_RESIDUAL_PERSONS:.0e}, in {level.n_unconverged:,} of {level.n_problems:,} problems"
            )
        if level.n_roundings_optimal < level.n_roundings:
            left = level.n_roundings - level.n_roundings_optimal
            out.warnings.append(f"{left:,} roundings of {level.level} are not proved optimal")
    if out.ok:
        worst = max((level.max_kkt_residual_persons for level in levels), default=0.0)
        return f"{out.n_checked:,} problems solved, largest residual {worst:.0e} persons"
    return f"{out.n_failed:,} of {out.n_checked:,} problems did not converge"


INPUTS = ("plan.json", "public/geography.parquet", "public/leaves.parquet", "measurements/exact.json")


def check_digests(session: Session, out: Findings) -> str:
    """Recompute both digests from the files; whether the records follow from the inputs is not looked at here."""
    stated = load_solved(session)
    inputs, records = inputs_sha256(session), records_sha256(session)
    out.n_checked = 2
    if inputs != stated.inputs_sha256:
        text = "the release was not solved from these measurements, public files and plan"
        why = "what the solver reported is about another release"
        out.add(Finding("V170", text, FILE, None, None, inputs[:16], stated.inputs_sha256[:16], why))
    if records != stated.records_sha256:
        text = "the microdata are not the records that the solver reported on"
        why = "somebody changed records after the solve, or solve.json is that of another release"
        out.add(
            Finding("V171", text, session.persons, None, None, records[:16], stated.records_sha256[:16], why)
        )
    if out.ok:
        return f"inputs {inputs[:8]} and records {records[:8]} are those of solve.json"
    return f"{out.n_failed} of 2 digests are not those of solve.json"


def inputs_sha256(session: Session) -> str:
    """Return the digest of the files a solve reads, as sha256sum would print them, sorted by path."""
    base = session.base_files if session.plan.base is not None else ()
    first = () if session.plan.measured is None else (MEASURED_PLAN,)
    paths = sorted([*INPUTS, *first, *base, *part_paths(session)])
    lines = [f"{session.sha256(path)}  {path}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()


def records_sha256(session: Session) -> str:
    """Return the digest of the microdata's rows: how many, then leaf, cell and count of each, little-endian."""
    rows, cuts = session.check_sections("digests", Findings()).rows, session.cuts
    digest = hashlib.sha256(f"records {sum(len(section[0]) for section in rows)}\n".encode())
    for i in range(3):
        for number, section in enumerate(rows):
            first = cuts.span(number, len(session.tree.names) - 1)[0] if i == 0 else 0
            digest.update((section[i].astype("<i8") + first).tobytes())
    return digest.hexdigest()
