"""Checks `exact statistics`, `zeros` and `bounds`: what public knowledge demands of the microdata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import AtLeast, AtMost
from topdown.publish.verify.areas import Areas
from topdown.publish.verify.arithmetic import Whole
from topdown.publish.verify.population import answer_label
from topdown.publish.verify.reader import read_json, unreadable
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session
from topdown.publish.verify.tree import closed_leaves, lower_bounds

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


@dataclass(frozen=True, eq=False)
class _Listed:
    """An exact statistic and the nodes of its level that it lists, in order."""

    value: ExactValues
    level: int
    nodes: Whole


def check_exact(session: Session, out: Findings) -> str:
    """Compare each exact statistic with the microdata: reproduced or not; files can show no more."""
    values = session.once("exact", "exact statistics", lambda: load_exact(session))
    stated = [(v.name, v.level, v.query) for v in values]
    wanted = [(e.name, e.level, e.query) for e in session.plan.doc.invariants.exact]
    if stated != wanted:
        text = "exact.json does not hold the plan's exact statistics, in order"
        shown = (", ".join(n for n, _, _ in wanted)[:200], ", ".join(n for n, _, _ in stated)[:200])
        out.add(Finding("V105", text, EXACT, None, None, *shown))
        return "the exact statistics are not those of the plan"
    listed = _listed(session)
    for value in values:
        if not any(at.value is value for at in listed):
            text = (
                f"{value.name!r} does not list every node of {value.level} once, in order, with its answers"
            )
            out.add(Finding("V105", text, file=EXACT))
    session.looked("exact statistics", out)
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} reproduced"
    return f"{out.n_failed:,} of {out.n_checked:,} not reproduced"


def _listed(session: Session) -> list[_Listed]:
    """Return the statistics of exact.json that list the right nodes."""

    def load() -> list[_Listed]:
        values = session.once("exact", "exact statistics", lambda: load_exact(session))
        tree, marks, found = session.tree, session.marks, []
        for value in values:
            if value.level not in tree.names or value.query not in session.plan.queries:
                continue
            level, query = tree.names.index(value.level), session.plan.queries[value.query]
            place = {code: i for i, code in enumerate(tree.geocodes[level].to_pylist())}
            nodes = np.array([place.get(code, -1) for code in value.nodes], dtype=np.int64)
            missing = np.setdiff1d(np.flatnonzero(marks[level]), nodes)
            ordered = not (np.diff(nodes, prepend=-1) <= 0).any()
            lengths = {len(a) for a in value.answers} - {query.n_answers}
            if len(nodes) == len(value.answers) and ordered and not len(missing) and not lengths:
                found.append(_Listed(value, level, nodes))
        return found

    return session.once("listed exact statistics", "exact statistics", load)


def exact_of(session: Session, areas: Areas, out: Findings) -> None:
    """Compare exact statistics of some areas with their records."""
    population, first = areas.population, areas.first
    for at in _listed(session):
        level = at.level - areas.top
        if not 0 <= level < areas.n_levels:
            continue
        query = areas.plan.queries[at.value.query]
        p, q = np.searchsorted(at.nodes, (first[level], first[level] + len(areas.tree.geocodes[level])))
        key, count = population.answers(areas.tree, query, level)
        found = dict(zip(key.tolist(), count.tolist(), strict=True))
        for node, answers in zip((at.nodes[p:q] - first[level]).tolist(), at.value.answers[p:q], strict=True):
            out.n_checked += len(answers)
            for i, answer in enumerate(answers):
                here = found.get(node * query.n_answers + i, 0)
                if here != answer:
                    where = (at.value.name, areas.tree.code(level, node), answer_label(query, i))
                    out.add(_differs(areas.persons, where, answer, here))


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
