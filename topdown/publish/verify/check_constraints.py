"""Checks `exact statistics`, `zeros` and `bounds`: what public knowledge demands of the microdata."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from topdown.publish.verify.arithmetic import Whole
from topdown.publish.verify.population import PERSONS, Population, answer_label
from topdown.publish.verify.reader import read_json, unreadable
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session
from topdown.publish.verify.tree import Tree, closed_leaves, lower_bounds

EXACT = "measurements/exact.json"


class ExactValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One statistic that is exact by policy, at every node of its level."""

    name: str
    level: str
    query: str
    nodes: tuple[str, ...]
    answers: tuple[tuple[int, ...], ...]


def load_exact(session: Session) -> tuple[ExactValues, ...]:
    """Read exact.json; UnreadableError (V105) if it is damaged."""
    document = read_json(session.root, EXACT, "V105", "topdown.exact")
    if document.get("plan_hash", session.plan.measured_hash) != session.plan.measured_hash:
        raise unreadable("V105", EXACT, "belongs to another plan")
    try:
        values = msgspec.convert(document.get("values"), tuple[ExactValues, ...], strict=True)
    except (ValueError, TypeError) as error:
        raise unreadable("V105", EXACT, f"is not as documented: {str(error)[:120]}") from None
    return values


def check_exact(session: Session, out: Findings) -> str:
    """Compare each exact statistic with the microdata: reproduced or not; files can show no more."""
    plan, tree, population = session.plan, session.tree, session.population
    values = session.once("exact", "exact statistics", lambda: load_exact(session))
    stated = [(v.name, v.level, v.query) for v in values]
    wanted = [(e.name, e.level, e.query) for e in plan.doc.invariants.exact]
    if stated != wanted:
        text = "exact.json does not hold the plan's exact statistics, in order"
        shown = (", ".join(n for n, _, _ in wanted)[:200], ", ".join(n for n, _, _ in stated)[:200])
        out.add(Finding("V105", text, EXACT, None, None, *shown))
        return "the exact statistics are not those of the plan"
    marks = session.marks
    for value in values:
        level = tree.names.index(value.level)
        query = plan.queries[value.query]
        place = {code: i for i, code in enumerate(tree.geocodes[level].to_pylist())}
        nodes = np.array([place.get(code, -1) for code in value.nodes], dtype=np.int64)
        missing = np.setdiff1d(np.flatnonzero(marks[level]), nodes)
        lengths = {len(a) for a in value.answers} - {query.n_answers}
        if (
            len(nodes) != len(value.answers)
            or (np.diff(nodes, prepend=-1) <= 0).any()
            or len(missing)
            or lengths
        ):
            text = (
                f"{value.name!r} does not list every node of {value.level} once, in order, with its answers"
            )
            out.add(Finding("V105", text, file=EXACT))
            continue
        key, count = population.answers(tree, query, level)
        found = dict(zip(key.tolist(), count.tolist(), strict=True))
        for node, answers in zip(nodes.tolist(), value.answers, strict=True):
            out.n_checked += len(answers)
            for i, answer in enumerate(answers):
                here = found.get(node * query.n_answers + i, 0)
                if here != answer:
                    _differs(out, value.name, tree.code(level, node), answer_label(query, i), answer, here)
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} reproduced"
    return f"{out.n_failed:,} of {out.n_checked:,} not reproduced"


def _differs(out: Findings, name: str, node: str, label: str, expected: int, found: int) -> None:
    text = f"{name!r} is not reproduced in {node} ({label})"
    why = "the microdata do not add up to a statistic that was promised to be exact"
    out.add(Finding("V105", text, PERSONS, None, node, str(expected), str(found), why))


def check_zeros(session: Session, out: Findings) -> str:
    """Find records where public facts, or definitions, allow none."""
    plan, tree, population = session.plan, session.tree, session.population
    rules: list[tuple[Any, NDArray[np.bool_]]] = [
        (rule, closed_leaves(tree, rule.columns)) for rule in plan.doc.invariants.none_where_zero
    ]
    rules += [(rule, np.ones(tree.n_leaves, dtype=bool)) for rule in plan.doc.invariants.never]
    for rule, closed in rules:
        out.n_checked += int(closed.sum())
        cells = plan.schema.select(dict(rule.cells))
        rows = np.flatnonzero(cells[population.cell] & closed[population.leaf])
        findings = [_forbidden(tree, population, rule.name, int(row)) for row in rows[:MAX_FINDINGS]]
        out.add_many(len(rows), findings, len(rows))
    if out.ok:
        return f"nobody in {out.n_checked:,} places and kinds of cells that must be empty"
    return f"{out.n_failed:,} rows where nobody can be"


def _forbidden(tree: Tree, population: Population, name: str, row: int) -> Finding:
    node = tree.code(-1, int(population.leaf[row]))
    found = str(int(population.count[row]))
    text = f"{node} has records that {name!r} rules out"
    return Finding(
        "V106", text, PERSONS, row + 1, node, "0", found, "public facts leave no room for these records"
    )


def check_bounds(session: Session, out: Findings) -> str:
    """Compare every bound with the microdata, at the leaves and at every inner node."""
    plan, tree, population = session.plan, session.tree, session.population
    for rule in plan.doc.invariants.at_least:
        cells = plan.schema.select(dict(rule.cells))
        bounds = lower_bounds(tree, rule.column, rule.per)
        if bounds is None:
            out.add(Finding("V110", f"the bounds of {rule.name!r} are too large to add up", file="plan.json"))
            continue
        for level, least in enumerate(bounds):
            out.n_checked += len(least)
            have = population.totals(tree, level, cells)
            nodes = np.flatnonzero(have < least)
            findings = [_too_few(tree, level, rule.name, int(i), least, have) for i in nodes[:MAX_FINDINGS]]
            out.add_many(len(nodes), findings, len(nodes))
    kind = "bounds" if plan.doc.invariants.at_most else "lower bounds"
    for cap in plan.doc.invariants.at_most:
        cells = plan.schema.select(dict(cap.cells))
        bounds = lower_bounds(tree, cap.column, cap.per)
        if bounds is None:
            out.add(Finding("V110", f"the bounds of {cap.name!r} are too large to add up", file="plan.json"))
            continue
        for level, most in enumerate(bounds):
            out.n_checked += len(most)
            have = population.totals(tree, level, cells)
            nodes = np.flatnonzero(have > most)
            findings = [_too_many(tree, level, cap.name, int(i), most, have) for i in nodes[:MAX_FINDINGS]]
            out.add_many(len(nodes), findings, len(nodes))
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} {kind} met"
    return f"{out.n_failed:,} of {out.n_checked:,} {kind} broken"


def _too_few(tree: Tree, level: int, name: str, node: int, least: Whole, have: Whole) -> Finding:
    code = tree.code(level, node)
    text = f"{tree.names[level]} {code} has fewer records than {name!r} demands"
    shown = (f"at least {int(least[node])}", str(int(have[node])))
    return Finding("V107", text, PERSONS, None, code, *shown, "public facts demand more records here")


def _too_many(tree: Tree, level: int, name: str, node: int, most: Whole, have: Whole) -> Finding:
    code = tree.code(level, node)
    text = f"{tree.names[level]} {code} has more records than {name!r} allows"
    shown = (f"at most {int(most[node])}", str(int(have[node])))
    return Finding("V107", text, PERSONS, None, code, *shown, "public facts leave less room for records here")
