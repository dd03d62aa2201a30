"""Hold records against public knowledge: structural zeros, places where nobody can be, lower bounds.

The totals that stay exact need no check of their own: records that meet every leaf's rules are themselves a
population with those totals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from topdown.measure.leaf_counts import LeafCounts
from topdown.measure.records import Refused
from topdown.model.constraint import AtLeast, AtMost
from topdown.model.constraint_table import CLOSING, ConstraintRow, Ints, Marks, leaf_rows, of_kinds
from topdown.plan.prepare import Context


def check_against_public(leaves: LeafCounts, context: Context) -> None:
    """Raise Refused if counts of the leaves contradict an invariant; its name is public, the leaf is not."""
    plan = context.plan
    rows = leaf_rows(plan.schema, plan.invariants, context.facts.columns, context.geography)
    for row in of_kinds(rows, "never", "none_where_zero", "at_most", "at_least"):
        held = leaves.held(row.cells)
        wrong = (held < row.low) | (held > row.high)
        if row.kind in CLOSING:
            _refuse_cells(row, wrong, leaves, context)
        else:
            _refuse_numbers(row, held, np.flatnonzero(wrong), context)


def _refuse_cells(row: ConstraintRow, wrong: Marks, leaves: LeafCounts, context: Context) -> None:
    if not wrong.any():
        return
    schema, codes = context.plan.schema, context.geography.leaves.codes

    def entries() -> Iterator[tuple[str, str]]:
        for piece in leaves.pieces():
            for i in np.flatnonzero(row.cells[piece.cell] & wrong[piece.node]):
                where = schema.coordinates(piece.cell[i : i + 1])
                labels = [a.labels[int(v[0])] for a, v in zip(schema.attributes, where, strict=True)]
                yield f"leaf {codes[piece.node[i]]}", f"{piece.count[i]} x {', '.join(labels)}"

    raise Refused(
        "D035",
        f'some records contradict the invariant "{row.name}"',
        column=", ".join(attribute for attribute, _ in row.selection),
        fix="correct the records or the public leaf table; both cannot be right",
        rows=entries,
    )


def _refuse_numbers(row: ConstraintRow, held: Ints, wrong: NDArray[np.intp], context: Context) -> None:
    if not len(wrong) or not isinstance(row.rule, AtLeast | AtMost):
        return
    codes, least = context.geography.leaves.codes, row.kind == "at_least"
    ends, text = (row.low, "at least {} needed") if least else (row.high, "at most {} allowed")
    raise Refused(
        "D036" if least else "D038",
        f'the records are fewer than the invariant "{row.name}" demands in some leaf'
        if least
        else f'the records are more than the invariant "{row.name}" allows in some leaf',
        column=row.rule.column,
        fix="correct the records or the public leaf table; both cannot be right",
        rows=lambda: ((f"leaf {codes[i]}", f"{held[i]} records, {text.format(ends[i])}") for i in wrong),
    )
