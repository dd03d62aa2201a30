"""Checks `hierarchy` and `tables`: every table adds up, and every table is what the microdata say."""

from __future__ import annotations

import os

import numpy as np

from topdown.model.query import Query
from topdown.publish.verify.areas import Areas
from topdown.publish.verify.arithmetic import Whole, differences, tally, value_at
from topdown.publish.verify.csv_file import CSV, check_csv
from topdown.publish.verify.once import NotAvailableError
from topdown.publish.verify.plan_file import table_path
from topdown.publish.verify.population import Table, answer_label
from topdown.publish.verify.reader import UnreadableError
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session


def check_hierarchy(session: Session, out: Findings) -> str:
    """Compare each inner node with the sum of its children in every table, and every table with `total`."""
    session.looked("hierarchy", out)
    if out.ok:
        n = len(session.plan.workload)
        return f"{out.n_checked:,} of {out.n_checked:,} areas add up in {n} tables"
    return f"{out.n_failed:,} of {out.n_checked:,} areas do not add up"


def hierarchy_of(session: Session, areas: Areas, out: Findings) -> None:
    """Compare the tables of some areas; pass those of a section's highest level on to the level above."""
    names, workload = session.tree.names, session.plan.workload
    failed: set[tuple[int, int]] = set()
    total = workload[0]
    for query in workload:
        for level in range(areas.n_levels):
            here = areas.table(query, level)
            if level == 0 and areas.up is not None:
                areas.passed[query.name] = _sums(query, here, areas.up)
            below = _below(areas, query, level)
            if below is not None:
                what = f"the sum of its {names[areas.top + level + 1]}s"
                failed |= _compare(areas, out, query, level, here, below, what)
            if query is not total:
                sums = tally(here.key // query.n_answers, here.count)
                plain = areas.table(total, level)
                failed |= _compare(areas, out, total, level, plain, sums, f"the sum over {query.name}")
    out.n_checked = sum(len(geocodes) for geocodes in areas.tree.geocodes)
    out.n_failed = len(failed)


def _below(areas: Areas, query: Query, level: int) -> tuple[Whole, Whole] | None:
    """Return the sums of the areas below those of a level; None at the leaves."""
    if level + 1 < areas.n_levels:
        return _sums(query, areas.table(query, level + 1), areas.tree.parent[level + 1])
    return None if areas.below is None else areas.below[query.name]


def _sums(query: Query, table: Table, up: Whole) -> tuple[Whole, Whole]:
    """Add a table up to the level above."""
    return tally(
        up[table.key // query.n_answers] * query.n_answers + table.key % query.n_answers, table.count
    )


def _compare(
    areas: Areas,
    out: Findings,
    query: Query,
    level: int,
    table: Table,
    sums: tuple[Whole, Whole],
    what: str,
) -> set[tuple[int, int]]:
    wrong = differences(table.key, table.count, *sums)
    nodes = np.unique(wrong // query.n_answers)
    findings = []
    for key in wrong[:MAX_FINDINGS].tolist():
        code = areas.tree.code(level, key // query.n_answers)
        found, row = value_at(table.key, table.count, key)
        expected, _ = value_at(*sums, key)
        label = answer_label(query, key % query.n_answers)
        text = f"{areas.tree.names[level]} {code} is not {what} ({label})"
        findings.append(Finding("V104", text, table.path, row, code, str(expected), str(found)))
    out.add_many(0, findings, len(wrong))
    return {(level, node) for node in nodes.tolist()}


def check_tables(session: Session, out: Findings) -> str:
    """Recompute every table from the microdata and compare all answers; no other table may be there."""
    session.looked("tables", out)
    for path in sorted(_present(session) - table_paths(session)):
        out.add(
            Finding("V108", f"{path} is no table of this plan", file=path, why="it was not made by publish")
        )
    if os.path.lexists(session.root / CSV):
        out.n_checked += 1
        try:
            check_csv(session)
        except UnreadableError as error:
            out.add(error.finding)
    if out.ok:
        return f"{out.n_checked} of {out.n_checked} agree with the microdata"
    return f"{out.n_failed} of {out.n_checked} differ from the microdata"


def table_paths(session: Session) -> set[str]:
    """Return the path of every table file that the release has."""
    names, cuts = session.tree.names, session.cuts
    return {
        path
        for query in session.plan.workload
        for level, name in enumerate(names)
        for path in cuts.paths(table_path(query, name), level)
    }


def tables_of(session: Session, areas: Areas, out: Findings) -> None:
    """Recompute the tables of some areas from their records."""
    tree, population = areas.tree, areas.population
    for query in session.plan.workload:
        for level in range(areas.n_levels):
            out.n_checked += 1
            try:
                table = areas.table(query, level)
            except NotAvailableError as error:
                out.add(error.finding)
                continue
            _table(areas, out, query, level, table, population.answers(tree, query, level))
        population.forget(query)


def _table(
    areas: Areas, out: Findings, query: Query, level: int, table: Table, truth: tuple[Whole, Whole]
) -> None:
    wrong = differences(table.key, table.count, *truth)
    findings = []
    for key in wrong[:MAX_FINDINGS].tolist():
        code = areas.tree.code(level, key // query.n_answers)
        found, row = value_at(table.key, table.count, key)
        expected, _ = value_at(*truth, key)
        label = answer_label(query, key % query.n_answers)
        text = f"{query.name} of {code} differs from the microdata ({label})"
        findings.append(Finding("V108", text, table.path, row, code, str(expected), str(found)))
    if len(wrong):
        out.add_many(1, findings, len(wrong))
    elif query.name == "total" and len(table.key) != len(areas.tree.geocodes[level]):
        out.add(Finding("V109", f"{table.path} does not have a row for every node", file=table.path))
    elif query.name != "total" and table.numbers is None and (table.count == 0).any():
        row = int(np.flatnonzero(table.count == 0)[0]) + 1
        out.add(Finding("V109", f"{table.path} lists a zero", file=table.path, row=row))


def _present(session: Session) -> set[str]:
    found = set()
    for folder, _, names in os.walk(session.root / "tables"):
        prefix = os.path.relpath(folder, session.root)
        found |= {f"{prefix}/{name}" for name in names}
    return found
