"""Checks `hierarchy` and `tables`: every table adds up, and every table is what the microdata say."""

from __future__ import annotations

import os

import numpy as np

from topdown.model.query import Query
from topdown.publish.verify.arithmetic import Whole, differences, tally, value_at
from topdown.publish.verify.csv_file import CSV, check_csv
from topdown.publish.verify.plan_file import table_path
from topdown.publish.verify.population import Table, answer_label
from topdown.publish.verify.reader import UnreadableError
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import NotAvailableError, Session


def check_hierarchy(session: Session, out: Findings) -> str:
    """Compare each inner node with the sum of its children in every table, and every table with `total`."""
    tree, workload = session.tree, session.plan.workload
    n_levels = len(tree.names)
    failed: set[tuple[int, int]] = set()
    total = workload[0]
    for query in workload:
        for level in range(n_levels):
            here = session.table(query, level)
            if level + 1 < n_levels:
                below = session.table(query, level + 1)
                node = tree.parent[level + 1][below.key // query.n_answers]
                sums = tally(node * query.n_answers + below.key % query.n_answers, below.count)
                what = f"the sum of its {tree.names[level + 1]}s"
                failed |= _compare(session, out, query, level, here, sums, what)
            if query is not total:
                sums = tally(here.key // query.n_answers, here.count)
                plain = session.table(total, level)
                failed |= _compare(session, out, total, level, plain, sums, f"the sum over {query.name}")
    out.n_checked = sum(len(geocodes) for geocodes in tree.geocodes)
    out.n_failed = len(failed)
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} areas add up in {len(workload)} tables"
    return f"{out.n_failed:,} of {out.n_checked:,} areas do not add up"


def _compare(
    session: Session,
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
        code = session.tree.code(level, key // query.n_answers)
        found, row = value_at(table.key, table.count, key)
        expected, _ = value_at(*sums, key)
        label = answer_label(query, key % query.n_answers)
        text = f"{session.tree.names[level]} {code} is not {what} ({label})"
        findings.append(Finding("V104", text, table.path, row, code, str(expected), str(found)))
    out.add_many(0, findings, len(wrong))
    return {(level, node) for node in nodes.tolist()}


def check_tables(session: Session, out: Findings) -> str:
    """Recompute every table from the microdata and compare all answers; no other table may be there."""
    tree, workload, population = session.tree, session.plan.workload, session.population
    expected = {table_path(query, name) for query in workload for name in tree.names}
    for query in workload:
        for level in range(len(tree.names)):
            out.n_checked += 1
            try:
                table = session.table(query, level)
            except NotAvailableError as error:
                out.add(error.finding)
                continue
            _table(session, out, query, level, table, population.answers(tree, query, level))
        population.forget(query)
    for path in sorted(_present(session) - expected):
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


def _table(
    session: Session, out: Findings, query: Query, level: int, table: Table, truth: tuple[Whole, Whole]
) -> None:
    wrong = differences(table.key, table.count, *truth)
    findings = []
    for key in wrong[:MAX_FINDINGS].tolist():
        code = session.tree.code(level, key // query.n_answers)
        found, row = value_at(table.key, table.count, key)
        expected, _ = value_at(*truth, key)
        label = answer_label(query, key % query.n_answers)
        text = f"{query.name} of {code} differs from the microdata ({label})"
        findings.append(Finding("V108", text, table.path, row, code, str(expected), str(found)))
    if len(wrong):
        out.add_many(1, findings, len(wrong))
    elif query.name == "total" and len(table.key) != len(session.tree.geocodes[level]):
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
