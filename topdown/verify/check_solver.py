"""Checks `solver` and `digests`: what solve.json says of optimality, the tree estimate, its inputs and its records."""

from __future__ import annotations

import hashlib
import math
from typing import Annotated, Any, Literal

import msgspec

from topdown.formats.release_documents import Solve
from topdown.verify.findings import Finding, Findings
from topdown.verify.session import MEASURED_PLAN, Session, part_paths
from topdown.verify.strict_reader import canonical_json, check_bytes, read_json, unreadable

FILE = "solve.json"
MOST_PERSONS = 1e-6  # of distance from the normal equations


class StatedTargets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the splits into one level were fitted to."""

    level: str
    targets: Literal["own", "tree"]
    why: str


class StatedEstimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tree estimate; the last three only where it covers a level."""

    targets: tuple[StatedTargets, ...]
    dense: tuple[str, ...] | None = None
    product: tuple[str, ...] | None = None
    residual_persons: float | None = None


def check_estimates(session: Session, document: dict[str, Any], out: Findings) -> None:
    """Expect the plan's levels in order, a reason for each that is left to its own measurements, and a small residual.

    Raises:
        UnreadableError: V120 the part of solve.json is not as documented.
    """
    plan, stated = session.plan, document.get("statistics")
    if (stated is not None) != plan.fits_tree:
        out.add(
            Finding(
                "V122", "solve.json and plan.json disagree on whether there is a tree estimate", file=FILE
            )
        )
    if stated is None:
        return
    try:
        found = msgspec.convert(stated, StatedEstimate, strict=True)
    except (ValueError, TypeError) as error:
        raise unreadable("V120", FILE, f"is not as documented: {str(error)[:120]}") from None
    covered = any(at.targets == "tree" for at in found.targets)
    whole = all(part is not None for part in (found.dense, found.product, found.residual_persons))
    names = tuple(at.level for at in found.targets)
    if names != tuple(level.name for level in plan.doc.levels) or covered != whole:
        out.add(Finding("V122", "solve.json does not say of every level what it was fitted to", file=FILE))
    if any((at.targets == "tree") == bool(at.why) for at in found.targets):
        out.add(Finding("V122", "solve.json leaves out why a level has its own measurements only", file=FILE))
    far = found.residual_persons
    if far is not None and not 0 <= far <= MOST_PERSONS:
        out.warnings.append(f"the tree estimate is {far:.1e} persons from its normal equations")


MAX_RESIDUAL_PERSONS = 1e-5
ALLOWED_RESIDUAL_PERSONS = 0.1  # rounding to whole people moves a count by up to 1
MAX_NAMED = 20
SHA256 = "^[0-9a-f]{64}$"


class SolvedLevel(msgspec.Struct, frozen=True):
    """What the solver reports of one level."""

    level: str
    n_problems: int
    n_variables: int
    n_unconverged: int
    max_iterations: int
    max_kkt_residual_persons: float
    n_roundings: int
    n_roundings_optimal: int
    n_milp: int


class FailsafeUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node whose table had to be changed before it could be split."""

    node: str
    level: str
    distance: int
    marginals_kept: bool
    constraints: tuple[str, ...]
    smallest: bool


class Digests(msgspec.Struct, frozen=True):
    """What the solve was made from and what came out, SHA-256 in hex."""

    inputs_sha256: Annotated[str, msgspec.Meta(pattern=SHA256)]
    records_sha256: Annotated[str, msgspec.Meta(pattern=SHA256)]


def load_solved(session: Session) -> tuple[dict[str, Any], tuple[SolvedLevel, ...]]:
    """Read solve.json; UnreadableError (V120) if it is damaged."""
    document = read_json(session.root, FILE, "V120", "topdown.solve")
    if document.get("plan_hash") != session.plan.computed_hash:
        raise unreadable("V120", FILE, "belongs to another plan")
    try:
        levels = msgspec.convert(document.get("levels"), tuple[SolvedLevel, ...], strict=True)
        msgspec.convert(document, Digests, strict=True)
        check_bytes(FILE, canonical_json(document), msgspec.to_builtins(msgspec.convert(document, Solve)))
    except (ValueError, TypeError) as error:
        raise unreadable("V120", FILE, f"is not as documented: {str(error)[:120]}") from None
    _load_failsafe(document)
    for level in levels:
        numbers = [value for value in msgspec.structs.astuple(level) if not isinstance(value, str)]
        if any(value < 0 for value in numbers) or not math.isfinite(level.max_kkt_residual_persons):
            raise unreadable("V120", FILE, f"has an impossible number at {level.level}")
    return document, levels


def _load_failsafe(document: dict[str, Any]) -> tuple[FailsafeUse, ...]:
    try:
        uses = msgspec.convert(document.get("failsafe"), tuple[FailsafeUse, ...], strict=True)
    except (ValueError, TypeError) as error:
        raise unreadable("V120", FILE, f"is not as documented: {str(error)[:120]}") from None
    if any(use.distance < 1 for use in uses):
        raise unreadable("V120", FILE, "has a failsafe that changed nothing")
    return uses


def _failsafe_warnings(uses: tuple[FailsafeUse, ...]) -> list[str]:
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
    document, levels = session.once("solved", "solver", lambda: load_solved(session))
    names = tuple(level.level for level in levels)
    if names != tuple(level.name for level in plan.doc.levels):
        out.add(Finding("V122", "solve.json does not report the plan's levels in order", file=FILE))
        return "solve.json is not about this plan"
    check_estimates(session, document, out)
    places = dict(zip(session.tree.names, session.tree.geocodes, strict=True))
    uses = _load_failsafe(document)
    for use in uses:
        if use.level not in places or use.node not in places[use.level].to_pylist():
            out.add(Finding("V122", "solve.json reports a failsafe at an unknown place", FILE, node=use.node))
    out.warnings += _failsafe_warnings(uses)
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
    document, _ = session.once("solved", "solver", lambda: load_solved(session))
    stated = msgspec.convert(document, Digests)
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
    rows, cuts = session.looked("digests", Findings()).rows, session.cuts
    digest = hashlib.sha256(f"records {sum(len(section[0]) for section in rows)}\n".encode())
    for i in range(3):
        for number, section in enumerate(rows):
            first = cuts.span(number, len(session.tree.names) - 1)[0] if i == 0 else 0
            digest.update((section[i].astype("<i8") + first).tobytes())
    return digest.hexdigest()
