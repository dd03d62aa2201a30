"""Check `digests`: solve.json names the files it was made from and the records that came out."""

from __future__ import annotations

import hashlib

import msgspec

from topdown.publish.verify.check_solver import FILE, Digests, load_solved
from topdown.publish.verify.measurement_files import MEASURED_PLAN, part_paths
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

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
    base = session.base_files if session.plan.doc.base is not None else ()
    first = () if session.plan.doc.measured is None else (MEASURED_PLAN,)
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
