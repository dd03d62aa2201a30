"""Checks `exact statistics`, `zeros` and `bounds`: what public knowledge demands of the microdata."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import AtLeast, AtMost
from topdown.publish.verify.areas import Areas
from topdown.publish.verify.arithmetic import Whole, values_at
from topdown.publish.verify.exact_values import EXACT, exact_values, stated_exact
from topdown.publish.verify.population import answer_label
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session
from topdown.publish.verify.tree import closed_leaves, lower_bounds

ANSWERS_AT_ONCE = 1 << 20


def check_exact(session: Session, out: Findings) -> str:
    """Compare each exact statistic with the microdata: reproduced or not; files can show no more."""
    values = stated_exact(session)
    stated = [(v.name, v.level, v.query) for v in values]
    wanted = [(e.name, e.level, e.query) for e in session.plan.doc.invariants.exact]
    if stated != wanted:
        text = "exact.json does not hold the plan's exact statistics, in order"
        shown = (", ".join(n for n, _, _ in wanted)[:200], ", ".join(n for n, _, _ in stated)[:200])
        out.add(Finding("V105", text, EXACT, None, None, *shown))
        return "the exact statistics are not those of the plan"
    listed = exact_values(session)
    for value in values:
        if not any(at.stated is value for at in listed):
            text = (
                f"{value.name!r} does not list every node of {value.level} once, in order, with its answers"
            )
            out.add(Finding("V105", text, file=EXACT))
    session.looked("exact statistics", out)
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} reproduced"
    return f"{out.n_failed:,} of {out.n_checked:,} not reproduced"


def exact_of(session: Session, areas: Areas, out: Findings) -> None:
    """Compare exact statistics of some areas with their records."""
    for at in exact_values(session):
        level = at.level - areas.top
        if not 0 <= level < areas.n_levels:
            continue
        query, first = areas.plan.queries[at.stated.query], areas.first[level]
        p, q = np.searchsorted(at.nodes, (first, first + len(areas.tree.geocodes[level])))
        keys, counts = areas.population.answers(areas.tree, query, level)
        step = max(ANSWERS_AT_ONCE // query.n_answers, 1)
        for start in range(int(p), int(q), step):
            here = slice(start, min(start + step, int(q)))
            key = (at.nodes[here, None] - first) * query.n_answers + np.arange(query.n_answers)
            found = values_at(keys, counts, key)
            out.n_checked += key.size
            wrong = np.argwhere(found != at.answers[here])
            findings = []
            for row, i in wrong[:MAX_FINDINGS].tolist():
                node = int(at.nodes[start + row]) - first
                where = (at.stated.name, areas.tree.code(level, node), answer_label(query, i))
                shown = (int(at.answers[start + row, i]), int(found[row, i]))
                findings.append(_differs(areas.persons, where, *shown))
            out.add_many(len(wrong), findings, len(wrong))


def _differs(file: str, where: tuple[str, str, str], expected: int, found: int) -> Finding:
    name, node, label = where
    text = f"{name!r} is not reproduced in {node} ({label})"
    why = "the microdata do not add up to a statistic that was promised to be exact"
    return Finding("V105", text, file, None, node, str(expected), str(found), why)


def check_zeros(session: Session, out: Findings) -> str:
    """Find records where public facts, or definitions, allow none."""
    session.looked("zeros", out)
    if out.ok:
        return f"nobody in {out.n_checked:,} places and kinds of cells that must be empty"
    return f"{out.n_failed:,} rows where nobody can be"


def zeros_of(_: Session, areas: Areas, out: Findings) -> None:
    """Look at the records of some leaves."""
    if not areas.has_leaves:
        return
    plan, tree, population = areas.plan, areas.tree, areas.population
    rules: list[tuple[Any, NDArray[np.bool_]]] = [
        (rule, closed_leaves(tree, rule.columns)) for rule in plan.doc.invariants.none_where_zero
    ]
    rules += [(rule, np.ones(tree.n_leaves, dtype=bool)) for rule in plan.doc.invariants.never]
    for rule, closed in rules:
        out.n_checked += int(closed.sum())
        cells = plan.schema.select(dict(rule.cells))
        rows = np.flatnonzero(cells[population.cell] & closed[population.leaf])
        findings = [_forbidden(areas, rule.name, int(row)) for row in rows[:MAX_FINDINGS]]
        out.add_many(len(rows), findings, len(rows))


def _forbidden(areas: Areas, name: str, row: int) -> Finding:
    population = areas.population
    node = areas.tree.code(-1, int(population.leaf[row]))
    found = str(int(population.count[row]))
    text = f"{node} has records that {name!r} rules out"
    return Finding(
        "V106", text, areas.persons, row + 1, node, "0", found, "public facts leave no room for these records"
    )


def check_bounds(session: Session, out: Findings) -> str:
    """Compare every bound with the microdata, at the leaves and at every inner node."""
    session.looked("bounds", out)
    kind = "bounds" if session.plan.doc.invariants.at_most else "lower bounds"
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} {kind} met"
    return f"{out.n_failed:,} of {out.n_checked:,} {kind} broken"


def bounds_of(_: Session, areas: Areas, out: Findings) -> None:
    """Compare the bounds of some areas with their records."""
    rules, tree = areas.plan.doc.invariants, areas.tree
    every: list[AtLeast | AtMost] = [*rules.at_least, *rules.at_most]
    for rule in every:
        is_most = isinstance(rule, AtMost)
        cells = areas.plan.schema.select(dict(rule.cells))
        bounds = lower_bounds(tree, rule.column, rule.per)
        if bounds is None:
            out.add(Finding("V110", f"the bounds of {rule.name!r} are too large to add up", file="plan.json"))
            continue
        for level, bound in enumerate(bounds):
            out.n_checked += len(bound)
            have = areas.population.totals(tree, level, cells)
            nodes = np.flatnonzero(have > bound if is_most else have < bound)
            say = _too_many if is_most else _too_few
            findings = [say(areas, level, rule.name, int(i), bound, have) for i in nodes[:MAX_FINDINGS]]
            out.add_many(len(nodes), findings, len(nodes))


def _too_few(areas: Areas, level: int, name: str, node: int, least: Whole, have: Whole) -> Finding:
    code = areas.tree.code(level, node)
    text = f"{areas.tree.names[level]} {code} has fewer records than {name!r} demands"
    shown = (f"at least {int(least[node])}", str(int(have[node])))
    return Finding("V107", text, areas.persons, None, code, *shown, "public facts demand more records here")


def _too_many(areas: Areas, level: int, name: str, node: int, most: Whole, have: Whole) -> Finding:
    code = areas.tree.code(level, node)
    text = f"{areas.tree.names[level]} {code} has more records than {name!r} allows"
    shown = (f"at most {int(most[node])}", str(int(have[node])))
    return Finding(
        "V107", text, areas.persons, None, code, *shown, "public facts leave less room for records here"
    )
