"""Checks `plan` and `base`: hashes, shares, losses and noise re-derived; an extension keeps the table of its base."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from topdown.formats.release_documents import PlanBase, PlanLevel
from topdown.formats.verify_documents import Finding
from topdown.verify.exact_arithmetic import differences, exact_text, fraction, tally, value_at
from topdown.verify.findings import Findings
from topdown.verify.noise_laws import law_problem
from topdown.verify.plan_reader import FILE, PlanFile
from topdown.verify.public_tree import GEOGRAPHY
from topdown.verify.released_records import (
    LEAVES,
    MANIFEST,
    PERSONS,
    PLAN,
    TABLE,
    BaseTable,
    answer_label,
    base_leaves_path,
    base_table_paths,
)
from topdown.verify.session import Session
from topdown.verify.strict_reader import read_json

_BROKEN = "the noise would not keep the epsilon and delta that were charged for it"


def check_plan(session: Session, out: Findings) -> str:
    """Re-derive everything the plan states from budget, shares, queries and the neighbour relation."""
    plan = session.plan
    _expect_value(out, "V011", "the plan's hash", plan.computed_hash, plan.doc.plan_hash)
    check_noise_parameters(out, plan)
    tree = session.tree
    _expect_value(out, "V015", "the hash of the public facts", tree.sha256, plan.doc.public_sha256)
    _expect_value(out, "V015", "the hash of the geography", tree.geography_sha256, plan.doc.geography_sha256)
    for level, mark in zip(plan.doc.levels, session.is_measured, strict=True):
        _expect_value(
            out, "V016", f"measured nodes of {level.name}", str(int(mark.sum())), str(level.n_measured)
        )
    if out.ok:
        return (
            f"hash {plan.computed_hash[:8]}; shares add up exactly, {out.n_checked} numbers follow from them"
        )
    return f"{out.n_failed} of {out.n_checked} numbers do not follow from budget and shares"


def check_noise_parameters(out: Findings, plan: PlanFile, file: str = FILE) -> None:
    """Re-derive every loss and noise parameter of a plan from budget, shares and the neighbour relation."""
    budget = fraction(plan.doc.budget)
    if budget <= 0:
        out.add(Finding("V012", "the budget is not positive", file=file, found=plan.doc.budget))
    if plan.whole_delta >= 1:
        out.add(Finding("V012", "delta is not below 1", file=file, found=exact_text(plan.whole_delta)))
    levels = plan.doc.levels
    shares = {level.name: level.share for level in levels} | dict(plan.doc.unspent)
    _check_shares(out, file, "levels", list(shares.values()), len(levels) + len(plan.doc.unspent))
    for level in levels:
        parts = [m.share for m in level.measurements]
        _check_shares(out, file, f"queries of {level.name}", parts, len(level.measurements))
        _check_level_noise(out, plan, level, budget, file)


def _check_shares(out: Findings, file: str, what: str, shares: list[str], n: int) -> None:
    out.n_checked += 1
    values = [fraction(text) for text in shares]
    total = sum(values, Fraction(0))
    if total != 1 or min(values) <= 0 or len(values) != n:
        text = f"the shares of the {what} do not sum to exactly 1, or one is not positive"
        why = "the stated privacy loss would not be the one spent"
        out.add(Finding("V012", text, file, None, None, "1", exact_text(total)[:80], why))


def _check_level_noise(out: Findings, plan: PlanFile, level: PlanLevel, budget: Fraction, file: str) -> None:
    loss = budget * fraction(level.share)
    _expect_value(out, "V013", f"the loss of {level.name}", exact_text(loss), level.loss, file)
    names = [m.query for m in level.measurements]
    if len(set(names)) != len(names):
        out.add(Finding("V016", f"a query of {level.name} is listed twice", file=file))
    for m in level.measurements:
        query = plan.queries[m.query]
        what = f"{m.query} at {level.name}"
        cost = loss * fraction(m.share)
        _expect_value(out, "V013", f"the loss of {what}", exact_text(cost), m.loss, file)
        said = f"the number of answers of {what}"
        _expect_value(out, "V016", said, str(query.n_answers), str(m.n_answers), file)
        _expect_value(out, "V014", f"the noise law of {what}", plan.law, m.law, file)
        if cost > 0:
            moved, squared = plan.sensitivities(query)
            due = exact_text(plan.noise.parameter(cost, moved, squared))
            _expect_value(out, "V014", f"the noise parameter of {what}", due, m.parameter, file)
            delta = plan.whole_delta * cost / budget if budget else Fraction(0)
            _expect_value(out, "V013", f"the delta of {what}", exact_text(delta), m.delta or "0", file)
            if plan.noise.has_delta:
                out.n_checked += 1
                problem = law_problem(m.weights or (), cost / moved, delta / moved, plan.noise.is_due)
                if problem:
                    out.add(Finding("V017", f"the noise law of {what} {problem}", file=file, why=_BROKEN))


def _expect_value(out: Findings, code: str, what: str, expected: str, found: str, file: str = FILE) -> None:
    out.n_checked += 1
    if expected != found:
        text, named = f"{what} is not what follows from the files", GEOGRAPHY if code == "V015" else file
        why = "the plan or the public facts were altered, or belong to two runs"
        out.add(Finding(code, text, named, None, None, expected[:80], found[:80], why))


def check_base(session: Session, out: Findings) -> str:
    """Compare hashes along the chain plan, base manifest, base files; then the tables, cell by cell."""
    plan, base = session.plan, session.base
    stated = plan.base
    if base is None or stated is None:
        return "extends nothing"
    _check_base_files(session, out, stated, base)
    _check_same_data_set(session, out, base)
    for path, older in session.plans_below.items():
        check_noise_parameters(out, older, path)
    population, n_base = session.population, base.plan.schema.n_cells
    ours = tally(population.leaf * n_base + base.of_cell[population.cell], population.count)
    theirs = tally(base.population.leaf * n_base + base.population.cell, base.population.count)
    out.n_checked += len(theirs[0])
    detailed = base.plan.queries["detailed"]
    for key in out.failures(differences(*ours, *theirs)):
        code = session.tree.code(-1, key // n_base)
        text = f"{code} has another count than the base release ({answer_label(detailed, key % n_base)})"
        why = "an extension must not change what was published before"
        expected, found = str(value_at(*theirs, key)[0]), str(value_at(*ours, key)[0])
        out.kept.append(Finding("V163", text, session.persons, None, code, expected, found, why))
    if out.ok:
        n_people, n_leaves = int(theirs[1].sum()), len(np.unique(theirs[0] // n_base))
        return (
            f"{stated.release}, plan {stated.plan_hash[:8]}: {n_people:,} records in {len(theirs[0]):,} cells of "
            f"{n_leaves:,} {session.tree.names[-1]} areas are the same"
        )
    return f"{out.n_failed:,} differences from the base release"


def _check_base_files(session: Session, out: Findings, stated: PlanBase, base: BaseTable) -> None:
    manifest: dict[str, Any] = read_json(session.root, MANIFEST, "V160", "topdown.manifest")
    entries = manifest.get("files") if isinstance(manifest.get("files"), list) else []
    listed = {e.get("path"): e.get("sha256") for e in entries or () if isinstance(e, dict)}
    own = session.cuts.paths(PERSONS, len(session.tree.names) - 1)
    facts, plans = session.facts_below, session.plans_below
    for what, file, expected, found in (
        ("manifest of the base release", MANIFEST, stated.manifest_sha256, session.sha256(MANIFEST)),
        ("microdata of the base release", TABLE, stated.table_sha256, _table_sha256(session)),
        *(
            ("microdata in the base's manifest", MANIFEST, session.sha256(copy), listed.get(path))
            for copy, path in zip(base_table_paths(session.tree, session.cuts), own, strict=True)
        ),
        (
            "public facts in the base's manifest",
            MANIFEST,
            session.sha256(base_leaves_path(PLAN)),
            listed.get(LEAVES),
        ),
        ("plan in the base's manifest", MANIFEST, session.sha256(PLAN), listed.get("plan.json")),
        ("plan hash of the base's manifest", MANIFEST, stated.plan_hash, manifest.get("plan_hash")),
        ("plan hash of the base release", PLAN, stated.plan_hash, base.plan.computed_hash),
        ("plan hash stated in the base's plan", PLAN, stated.plan_hash, base.plan.doc.plan_hash),
        ("id of the base release", PLAN, stated.release, base.plan.doc.release.id),
        *_older_plans(session, base),
        *[
            (
                f"public facts of {plan.doc.release.id}",
                base_leaves_path(path),
                plan.doc.public_sha256,
                found.sha256,
            )
            for path, plan in plans.items()
            for found in (replace(session.tree, facts=facts[path]),)
        ],
    ):
        out.n_checked += 1
        if expected != found:
            text = f"the {what} is not the one this release extends"
            out.add(Finding("V161", text, file, None, None, str(expected)[:16], str(found)[:16]))


def _table_sha256(session: Session) -> str:
    """Return the hash of the base's microdata: of the file, or of the list of its parts as sha256sum prints it."""
    paths = base_table_paths(session.tree, session.cuts)
    if paths == [TABLE]:
        return session.sha256(TABLE)
    lines = [f"{session.sha256(path)}  {path.rpartition('/')[2]}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()


def _older_plans(session: Session, base: BaseTable) -> list[tuple[str, str, str, str]]:
    """Return what each plan says of the one below it, and what that one is."""
    out = []
    above = base.plan
    for path, plan in session.older_plans.items():
        named = above.base
        if named is not None:
            out.append(("plan that the base extends", path, named.plan_hash, plan.computed_hash))
        out.append(("plan hash stated in it", path, plan.computed_hash, plan.doc.plan_hash))
        above = plan
    return out


def _check_same_data_set(session: Session, out: Findings, base: BaseTable) -> None:
    ours = session.plan.doc
    every = [base.plan.doc, *(plan.doc for plan in session.older_plans.values())]
    for what, mine, other in (
        row
        for theirs in every
        for row in (
            ("data set", ours.release.data_set, theirs.release.data_set),
            ("privacy unit", ours.schema.unit, theirs.schema.unit),
            ("neighbour relation", ours.neighbours, theirs.neighbours),
            ("mechanism", ours.mechanism, theirs.mechanism),
            ("geography", ours.geography_sha256, theirs.geography_sha256),
        )
    ):
        out.n_checked += 1
        if mine != other:
            why = "the losses of both releases would not add up in one ledger"
            text = f"the base release has another {what}"
            out.add(Finding("V162", text, PLAN, None, None, mine, other, why))
    out.n_checked += 1
    if not any(c.plan_hash == base.plan.computed_hash for c in session.ledger.commits):
        text = "the ledger does not hold the commit of the base release"
        out.add(Finding("V162", text, "ledger.jsonl", why="the loss of the base release is not counted"))
