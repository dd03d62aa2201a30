"""Hold records against public knowledge: structural zeros, places where nobody can be, lower bounds.

The totals that stay exact need no check of their own: records that meet every leaf's rules are themselves a
population with those totals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from topdown.measure.records import Refused
from topdown.model.constraint import Selection
from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context


def check_against_public(histogram: Histogram, context: Context) -> None:
    """Raise Refused if the leaf histogram contradicts an invariant; its name is public, the leaf is not."""
    schema, invariants, rules = context.plan.schema, context.plan.invariants, context.rules
    if not rules.open[-1][histogram.node, rules.class_of_cell[histogram.cell]].all():
        for never in invariants.never:
            inside = schema.select(dict(never.cells))[histogram.cell]
            _refuse_cells(never.name, never.cells, inside, histogram, context)
        for zero in invariants.none_where_zero:
            empty = np.ones(histogram.n_nodes, dtype=bool)
            for column in zero.columns:
                empty &= context.facts.columns[column] == 0
            inside = schema.select(dict(zero.cells))[histogram.cell] & empty[histogram.node]
            _refuse_cells(zero.name, zero.cells, inside, histogram, context)
    for cap, cells, most in zip(invariants.at_most, rules.cap_cells, rules.caps.T, strict=True):
        held = np.zeros(histogram.n_nodes, dtype=np.int64)
        chosen = cells[histogram.cell]
        np.add.at(held, histogram.node[chosen], histogram.count[chosen])
        over = np.flatnonzero(held > most)
        if len(over):
            _refuse_cap(cap.name, cap.column, held, most, over, context)
    for bound, cells, lower in zip(invariants.at_least, rules.bound_cells, rules.lower[-1].T, strict=True):
        held = np.zeros(histogram.n_nodes, dtype=np.int64)
        chosen = cells[histogram.cell]
        np.add.at(held, histogram.node[chosen], histogram.count[chosen])
        short = np.flatnonzero(held < lower)
        if len(short):
            _refuse_bound(bound.name, bound.column, held, lower, short, context)


def _refuse_cells(
    name: str, cells: Selection, inside: NDArray[np.bool_], histogram: Histogram, context: Context
) -> None:
    bad = np.flatnonzero(inside)
    if not len(bad):
        return
    schema, codes = context.plan.schema, context.geography.leaves.codes

    def rows() -> Iterator[tuple[str, str]]:
        for i in bad:
            where = schema.coordinates(histogram.cell[i : i + 1])
            labels = [a.labels[int(v[0])] for a, v in zip(schema.attributes, where, strict=True)]
            yield f"leaf {codes[histogram.node[i]]}", f"{histogram.count[i]} x {', '.join(labels)}"

    raise Refused(
        "D035",
        f'some records contradict the invariant "{name}"',
        column=", ".join(attribute for attribute, _ in cells),
        fix="correct the records or the public leaf table; both cannot be right",
        rows=rows,
    )


def _refuse_bound(
    name: str,
    column: str,
    held: NDArray[np.int64],
    lower: NDArray[np.int64],
    short: NDArray[np.intp],
    context: Context,
) -> None:
    codes = context.geography.leaves.codes
    raise Refused(
        "D036",
        f'the records are fewer than the invariant "{name}" demands in some leaf',
        column=column,
        fix="correct the records or the public leaf table; both cannot be right",
        rows=lambda: ((f"leaf {codes[i]}", f"{held[i]} records, at least {lower[i]} needed") for i in short),
    )


def _refuse_cap(
    name: str,
    column: str,
    held: NDArray[np.int64],
    most: NDArray[np.int64],
    over: NDArray[np.intp],
    context: Context,
) -> None:
    codes = context.geography.leaves.codes
    raise Refused(
        "D038",
        f'the records are more than the invariant "{name}" allows in some leaf',
        column=column,
        fix="correct the records or the public leaf table; both cannot be right",
        rows=lambda: ((f"leaf {codes[i]}", f"{held[i]} records, at most {most[i]} allowed") for i in over),
    )
