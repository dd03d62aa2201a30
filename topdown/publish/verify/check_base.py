"""Check `base`: the carried files are those of the base release, and its table is kept at every leaf."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from topdown.publish.verify.arithmetic import differences, tally, value_at
from topdown.publish.verify.base_file import (
    LEAVES,
    MANIFEST,
    PLAN,
    TABLE,
    BaseTable,
    leaves_of,
    tables_of_base,
)
from topdown.publish.verify.check_plan import noise_follows
from topdown.publish.verify.plan_doc import BaseDoc
from topdown.publish.verify.population import PERSONS, answer_label
from topdown.publish.verify.reader import parse_json, read_bytes
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session


def check_base(session: Session, out: Findings) -> str:
    """Compare hashes along the chain plan, base manifest, base files; then the tables, cell by cell."""
    plan, base = session.plan, session.base
    stated = plan.doc.base
    if base is None or stated is None:
        return "extends nothing"
    _files(session, out, stated, base)
    _same_data_set(session, out, base)
    for path, older in session.plans_below.items():
        noise_follows(out, older, path)
    population, n_base = session.population, base.plan.schema.n_cells
    ours = tally(population.leaf * n_base + base.of_cell[population.cell], population.count)
    theirs = tally(base.population.leaf * n_base + base.population.cell, base.population.count)
    out.n_checked += len(theirs[0])
    wrong = differences(*ours, *theirs)
    detailed = base.plan.queries["detailed"]
    findings = []
    for key in wrong[:MAX_FINDINGS].tolist():
        code = session.tree.code(-1, key // n_base)
        text = f"{code} has another count than the base release ({answer_label(detailed, key % n_base)})"
        why = "an extension must not change what was published before"
        expected, found = str(value_at(*theirs, key)[0]), str(value_at(*ours, key)[0])
        findings.append(Finding("V163", text, session.persons, None, code, expected, found, why))
    out.add_many(len(wrong), findings, len(wrong))
    if out.ok:
        n_people, n_leaves = int(theirs[1].sum()), len(np.unique(theirs[0] // n_base))
        return (
            f"{stated.release}, plan {stated.plan_hash[:8]}: {n_people:,} records in {len(theirs[0]):,} cells of "
            f"{n_leaves:,} {session.tree.names[-1]} areas are the same"
        )
    return f"{out.n_failed:,} differences from the base release"


def _files(session: Session, out: Findings, stated: BaseDoc, base: BaseTable) -> None:
    manifest: dict[str, Any] = parse_json(read_bytes(session.root, MANIFEST, "V160"), "V160", MANIFEST)
    entries = manifest.get("files")
    listed = (
        {e.get("path"): e.get("sha256") for e in entries if isinstance(e, dict)}
        if isinstance(entries, list)
        else {}
    )
    for what, file, expected, found in (
        ("manifest of the base release", MANIFEST, stated.manifest_sha256, session.sha256(MANIFEST)),
        ("microdata of the base release", TABLE, stated.table_sha256, _table_sha256(session)),
        *_tables(session, listed),
        (
            "public facts in the base's manifest",
            MANIFEST,
            session.sha256(leaves_of(PLAN)),
            listed.get(LEAVES),
        ),
        ("plan in the base's manifest", MANIFEST, session.sha256(PLAN), listed.get("plan.json")),
        ("plan hash of the base's manifest", MANIFEST, stated.plan_hash, manifest.get("plan_hash")),
        ("plan hash of the base release", PLAN, stated.plan_hash, base.plan.computed_hash),
        ("plan hash stated in the base's plan", PLAN, stated.plan_hash, base.plan.doc.plan_hash),
        ("id of the base release", PLAN, stated.release, base.plan.doc.release.id),
        *_older(session, base),
        *_facts(session),
    ):
        out.n_checked += 1
        if expected != found:
            text = f"the {what} is not the one this release extends"
            out.add(Finding("V161", text, file, None, None, str(expected)[:16], str(found)[:16]))


def _table_sha256(session: Session) -> str:
    """Return the hash of the base's microdata: of the file, or of the list of its parts as sha256sum prints it."""
    paths = tables_of_base(session.tree, session.cuts)
    if paths == [TABLE]:
        return session.sha256(TABLE)
    lines = [f"{session.sha256(path)}  {path.rpartition('/')[2]}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()


def _tables(session: Session, listed: dict[Any, Any]) -> list[tuple[str, str, str, Any]]:
    """Return what the base's manifest says of its microdata, and what they are."""
    own = session.cuts.paths(PERSONS, len(session.tree.names) - 1)
    pairs = zip(tables_of_base(session.tree, session.cuts), own, strict=True)
    return [
        ("microdata in the base's manifest", MANIFEST, session.sha256(copy), listed.get(path))
        for copy, path in pairs
    ]


def _older(session: Session, base: BaseTable) -> list[tuple[str, str, str, str]]:
    """Return what each plan says of the one below it, and what that one is."""
    out = []
    above = base.plan
    for path, plan in session.older_plans.items():
        named = above.doc.base
        if named is not None:
            out.append(("plan that the base extends", path, named.plan_hash, plan.computed_hash))
        out.append(("plan hash stated in it", path, plan.computed_hash, plan.doc.plan_hash))
        above = plan
    return out


def _facts(session: Session) -> list[tuple[str, str, str, str]]:
    """Return which public facts each plan below names, and which are carried."""
    facts, plans = session.facts_below, session.plans_below
    return [
        (f"public facts of {plan.doc.release.id}", leaves_of(path), plan.doc.public_sha256, found.sha256)
        for path, plan in plans.items()
        for found in (replace(session.tree, facts=facts[path]),)
    ]


def _same_data_set(session: Session, out: Findings, base: BaseTable) -> None:
    ours = session.plan.doc
    every = [base.plan.doc, *(plan.doc for plan in session.older_plans.values())]
    for what, mine, other in (
        row
        for theirs in every
        for row in (
            ("data set", ours.release.data_set, theirs.release.data_set),
            ("neighbour relation", ours.neighbours, theirs.neighbours),
            ("mechanism", ours.mechanism, theirs.mechanism),
            ("geography", ours.geography_sha256, theirs.geography_sha256),
        )
    ):
        out.n_checked += 1
        if mine != other:
            why = "the losses of both releases would not add up in one ledger"
            out.add(
                Finding("V162", f"the base release has another {what}", PLAN, None, None, mine, other, why)
            )
    out.n_checked += 1
    if not any(c.plan_hash == base.plan.computed_hash for c in session.ledger.commits):
        text = "the ledger does not hold the commit of the base release"
        out.add(Finding("V162", text, "ledger.jsonl", why="the loss of the base release is not counted"))
