"""Constraints as people write them: `F + C >= 98`, `h00 = 1 + h11`, `0 <= h11 <= 10`."""

from __future__ import annotations

from collections.abc import Sequence

from topdown.solve.implied.rows import Row, System


def row_text(row: Row, variables: Sequence[str], *, solved: bool = False) -> str:
    """Write one row; an inequality without a positive coefficient is turned round.

    Args:
        row: constraint.
        variables: names in the order of the coefficients.
        solved: write an equality as `first variable = the rest`.
    """
    coefficients, relation, bound = row.coefficients, str(row.relation), row.bound
    if solved and relation == "=" and 1 in map(abs, coefficients):
        pivot = next(i for i, c in enumerate(coefficients) if abs(c) == 1)
        sign = coefficients[pivot]
        rest = [-sign * c if i != pivot else 0 for i, c in enumerate(coefficients)]
        return f"{variables[pivot]} = {_sum(rest, variables, sign * bound)}"
    if relation == "<=" and not any(c > 0 for c in coefficients):
        coefficients, relation, bound = tuple(-c for c in coefficients), ">=", -bound
    return f"{_sum(coefficients, variables)} {relation} {bound}"


def _sum(coefficients: Sequence[int], variables: Sequence[str], constant: int = 0) -> str:
    terms = [
        (c, ("" if abs(c) == 1 else f"{abs(c)} ") + v) for c, v in zip(coefficients, variables, strict=True)
    ]
    terms = [(constant, str(abs(constant))), *terms]
    text = ""
    for number, term in terms:
        if number:
            joint = (" - " if number < 0 else " + ") if text else ("-" if number < 0 else "")
            text += joint + term
    return text or "0"


def system_lines(system: System, *, solved: bool = False) -> list[str]:
    """Write a system, one constraint a line; two bounds on one expression share a line."""
    lines: list[str] = []
    seen: set[int] = set()
    for i, row in enumerate(system.rows):
        if i in seen:
            continue
        other = _opposite(system.rows, i) if row.relation == "<=" else None
        if other is None:
            lines.append(row_text(row, system.variables, solved=solved))
            continue
        seen.add(other)
        first = next(c for c in row.coefficients if c)
        upper, lower = (row, system.rows[other]) if first > 0 else (system.rows[other], row)
        lines.append(f"{-lower.bound} <= {_sum(upper.coefficients, system.variables)} <= {upper.bound}")
    return lines


def _opposite(rows: Sequence[Row], i: int) -> int | None:
    want = tuple(-c for c in rows[i].coefficients)
    found = (k for k in range(i + 1, len(rows)) if rows[k].relation == "<=" and rows[k].coefficients == want)
    return next(found, None)
