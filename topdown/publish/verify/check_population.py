"""Check `whole numbers`: each row of the microdata is a known place and cell, once, its count above zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.publish.verify.areas import Areas
from topdown.publish.verify.arithmetic import Whole, fits
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session

TOO_LARGE = "the counts are too large to add up"


def check_whole_numbers(session: Session, out: Findings) -> str:
    """Check counts, geocodes, labels, order and repetition of every row."""
    session.looked("whole numbers", out)
    if out.counts["too large"] or out.counts["records"] > 2**61:
        if not out.counts["too large"]:
            out.add(Finding("V110", TOO_LARGE, file=session.persons))
        return TOO_LARGE
    if out.ok:
        return f"{out.counts['records']:,} records in {out.n_checked:,} rows, no count below one"
    return f"{out.n_failed} of {out.n_checked:,} rows are not whole people in known places"


def whole_numbers_of(_: Session, areas: Areas, out: Findings) -> None:
    """Check the rows of some leaves."""
    if not areas.has_leaves:
        return
    population, schema = areas.raw_population, areas.plan.schema
    out.n_checked = len(population.count)
    _rows(areas, out, population.count <= 0, "V101", "a count that is not above zero", population.count)
    leaf = "no leaf" if areas.number is None else "no leaf of this section"
    _rows(areas, out, population.leaf < 0, "V102", f"a geocode that is {leaf}")
    for name, value in population.value.items():
        _rows(areas, out, value < 0, "V102", f"a label of {name} that the schema does not know")
    key = population.leaf * schema.n_cells + population.cell
    step = np.diff(key, prepend=np.int64(-1))
    _rows(
        areas,
        out,
        (step <= 0) & (population.cell >= 0),
        "V103",
        "a leaf and cell out of order, or given twice",
    )
    if not fits(population.count):
        out.add(Finding("V110", TOO_LARGE, file=areas.persons))
        out.counts["too large"] += 1
        return
    out.counts["records"] += int(population.count.sum())


def _rows(
    areas: Areas, out: Findings, bad: NDArray[np.bool_], code: str, what: str, count: Whole | None = None
) -> None:
    rows = np.flatnonzero(bad)
    if not len(rows):
        return
    leaf = areas.raw_population.leaf
    findings = [
        Finding(
            code,
            f"row {row + 1} of the microdata has {what}",
            file=areas.persons,
            row=int(row) + 1,
            node=areas.tree.code(-1, int(leaf[row])) if leaf[row] >= 0 else None,
            found="" if count is None else str(int(count[row])),
        )
        for row in rows[:MAX_FINDINGS]
    ]
    out.add_many(len(rows), findings, len(rows))
