"""The constraints of an inner node in readable algebra, from invariants that are data."""

from __future__ import annotations

from collections.abc import Sequence

from topdown.model.constraint import Invariants
from topdown.model.public import derive_rules
from topdown.model.schema import Schema
from topdown.solve.implied.causes import public_regions, worst_case
from topdown.solve.implied.classify import Verdict
from topdown.solve.implied.naming import kind_names, selection_text

Line = tuple[str, str]  # algebra, reason


def node_lines(schema: Schema, invariants: Invariants, verdicts: Sequence[Verdict]) -> list[Line]:
    """Write the constraints of a node above the leaves; sums run over the leaves below it.

    Args:
        schema, invariants: as read from their files.
        verdicts: of all levels, which say where combinations are needed.
    """
    lines: list[Line] = [
        (f"x[{selection_text(schema, rule.cells)}] = 0", f"{rule.name} (Theorem 8)")
        for rule in invariants.never
    ]
    for zero in invariants.none_where_zero:
        facts = " + ".join(f"sum {column}" for column in zero.columns)
        lines.append(
            (f"x[{selection_text(schema, zero.cells)}] = 0 if {facts} = 0", f"{zero.name} (Theorem 8)")
        )
    for bound in invariants.at_least:
        times = "" if bound.per == 1 else f"{bound.per} "
        lines.append(
            (
                f"x[{selection_text(schema, bound.cells)}] >= {times}sum {bound.column}",
                f"{bound.name} (Theorem 3)",
            )
        )
    for cap in invariants.at_most:
        times = "" if cap.per == 1 else f"{cap.per} "
        lines.append((f"x[{selection_text(schema, cap.cells)}] <= {times}sum {cap.column}", cap.name))
    lines += [
        (f"x[{exact.query}] = its exact answers, at level {exact.level} and sums of them above", exact.name)
        for exact in invariants.exact
    ]
    lines += soft_lines(schema, invariants)
    lines.append(("x >= 0, whole; the children add up to x", "histograms"))
    if any(v.needs == "combination_table" for v in verdicts):
        lines += _limits(schema, invariants, [v.level for v in verdicts])
    return lines


def soft_lines(schema: Schema, invariants: Invariants) -> list[Line]:
    """Write soft rules: sums over leaves keep what every leaf keeps."""
    lines = []
    for soft in invariants.no_more_than:
        times = "" if soft.times == 1 else f"{soft.times} "
        few, many = selection_text(schema, soft.cells), selection_text(schema, soft.than)
        lines.append((f"x[{few}] <= {times}x[{many}], soft", soft.name))
    return lines


def _limits(schema: Schema, invariants: Invariants, levels: Sequence[str]) -> list[Line]:
    geography, facts = worst_case(invariants, levels)
    rules = derive_rules(schema, geography, invariants, facts)
    polytopes = public_regions(schema, invariants, geography, rules)
    kinds = polytopes.kinds
    k = kinds.n_kinds
    lines = [
        (f"kinds: {'; '.join(kind_names(schema, kinds))}", f"{k} kinds of cells that no rule tells apart")
    ]
    if invariants.exact:
        held = "x[A] <= sum of min(most people in A there, N - fewest people outside A there)"
        what = "exact answer, for the kinds of each answer apart" if polytopes.by_answer else "exact total"
        lines.append(
            (f"{held} for every set A of kinds; N: {what}", f"Theorem 3, section 7.3: 2^{k} numbers")
        )
    else:
        held = "x[A] <= sum of the most people in A there, x[A] >= sum of the fewest,"
        lines.append((f"{held} for every set A of kinds", f"Frank 1984: 2^{k} numbers"))
    return lines
