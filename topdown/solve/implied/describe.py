"""The constraints of an inner node in readable algebra, from invariants that are data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topdown.model.constraint import Invariants, Selection
from topdown.model.schema import Schema
from topdown.solve.implied.atoms import Atoms, find_atoms
from topdown.solve.implied.classify import Verdict

Line = tuple[str, str]  # algebra, reason


def selection_text(selection: Selection) -> str:
    """Write chosen cells as `hhgq=nursing & votingage=under_18`."""
    return " & ".join(f"{name}={'|'.join(labels)}" for name, labels in selection) or "everyone"


def node_lines(schema: Schema, invariants: Invariants, verdicts: Sequence[Verdict]) -> list[Line]:
    """Write the constraints of a node above the leaves; sums run over the leaves below it.

    Args:
        schema, invariants: as read from their files.
        verdicts: of all levels, which say where combinations are needed.
    """
    lines: list[Line] = [
        (f"x[{selection_text(rule.cells)}] = 0", f"{rule.name} (Theorem 8)") for rule in invariants.never
    ]
    for zero in invariants.none_where_zero:
        facts = " + ".join(f"sum {column}" for column in zero.columns)
        lines.append((f"x[{selection_text(zero.cells)}] = 0 if {facts} = 0", f"{zero.name} (Theorem 8)"))
    for bound in invariants.at_least:
        times = "" if bound.per == 1 else f"{bound.per} "
        lines.append(
            (f"x[{selection_text(bound.cells)}] >= {times}sum {bound.column}", f"{bound.name} (Theorem 3)")
        )
    lines += [
        (f"x[{exact.query}] = its exact answers, at level {exact.level} and sums of them above", exact.name)
        for exact in invariants.exact
    ]
    lines.append(("x >= 0, whole; the children add up to x", "histograms"))
    if any(v.needs in ("combination_table", "combination_flows") for v in verdicts):
        lines += _combinations(find_atoms(schema, invariants), invariants)
    if any(v.needs == "margin_bounds" for v in verdicts):
        lines.append(
            ("sum (c1 - min(c1, r0)) <= x[1,1] <= sum min(r1, c1)", "margins r, c of every leaf (Lemma 1)")
        )
    return lines


def _combinations(atoms: Atoms, invariants: Invariants) -> list[Line]:
    k = len(atoms)
    bounds = [invariants.at_least[int(b)].column for b in np.flatnonzero(atoms.bounded_by.any(axis=0))]
    least = " - ".join(["N", *bounds]) if len(bounds) <= 2 else "N - lower bounds"
    return [
        (f"groups: {'; '.join(atoms.names)}", f"{k} groups of cells that no rule tells apart"),
        ("x[i] = sum_j F[i,j] for each group i", "section 7.3; j: combinations of groups open together"),
        ("sum_i F[i,j] = N[j] for each combination j", "exact totals of the areas with combination j, added up"),
        ("F[i,j] >= f[i,j], and F[i,j] = 0 if i is not in j", "lower bounds of these areas, added up"),
        (f"the same without F: for every set A of groups, x[A] <= sum of ({least} outside A) where A is open",
         f"Theorem 3: 2^{k} constraints"),
    ]  # fmt: skip
