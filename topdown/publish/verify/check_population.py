"""Check `whole numbers`: each row of the microdata is a known place and cell, once, its count above zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.publish.verify.arithmetic import Whole, fits
from topdown.publish.verify.population import PERSONS
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session


def check_whole_numbers(session: Session, out: Findings) -> str:
    """Check counts, geocodes, labels, order and repetition of every row."""
    population, schema = session.raw_population, session.plan.schema
    n_rows = out.n_checked = len(population.count)
    _rows(session, out, population.count <= 0, "V101", "a count that is not above zero", population.count)
    _rows(session, out, population.leaf < 0, "V102", "a geocode that is no leaf")
    for name, value in population.value.items():
        _rows(session, out, value < 0, "V102", f"a label of {name} that the schema does not know")
    key = population.leaf * schema.n_cells + population.cell
    step = np.diff(key, prepend=np.int64(-1))
    _rows(
        session,
        out,
        (step <= 0) & (population.cell >= 0),
        "V103",
        "a leaf and cell out of order, or given twice",
    )
    if not fits(population.count):
        out.add(Finding("V110", "the counts are too large to add up", file=PERSONS))
        return "the counts are too large to add up"
    if out.ok:
        return f"{int(population.count.sum()):,} records in {n_rows:,} rows, no count below one"
    return f"{out.n_failed} of {n_rows:,} rows are not whole people in known places"


def _rows(
    session: Session, out: Findings, bad: NDArray[np.bool_], code: str, what: str, count: Whole | None = None
) -> None:
    rows = np.flatnonzero(bad)
    if not len(rows):
        return
    leaf = session.raw_population.leaf
    findings = [
        Finding(
            code,
            f"row {row + 1} of the microdata has {what}",
            file=PERSONS,
            row=int(row) + 1,
            node=session.tree.code(-1, int(leaf[row])) if leaf[row] >= 0 else None,
            found="" if count is None else str(int(count[row])),
        )
        for row in rows[:MAX_FINDINGS]
    ]
    out.add_many(len(rows), findings, len(rows))
