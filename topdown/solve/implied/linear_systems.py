"""Linear constraints with integer coefficients over named variables: projection by Fourier-Motzkin elimination.

Elimination is in whole numbers, and so is what follows from it: whether a system implies a row is read off the values
that the row can take. Systems are written as people write them: `F + C >= 98`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Literal

from topdown.errors import ConfigError

Relation = Literal["<=", "="]


Number = int | Fraction


@dataclass(frozen=True)
class Row:
    """coefficients . x <= bound, or = bound; whole numbers without a common divisor.

    Args:
        coefficients: one a variable of the system the row belongs to.
        relation: `<=` or `=`; the first coefficient of an equality that is not zero is positive.
        bound: right side.
    """

    coefficients: tuple[int, ...]
    relation: Relation
    bound: int

    @staticmethod
    def scaled(coefficients: Sequence[Number], relation: Relation, bound: Number) -> Row:
        """Return the row with its rational numbers scaled to the smallest whole ones."""
        numbers = [Fraction(v) for v in (*coefficients, bound)]
        common = lcm(*(v.denominator for v in numbers))
        whole = [int(v * common) for v in numbers]
        divisor = gcd(*whole) or 1
        first = next((v for v in whole if v), 0)
        if relation == "=" and first < 0:
            divisor = -divisor
        whole = [v // divisor for v in whole]
        return Row(tuple(whole[:-1]), relation, whole[-1])

    @property
    def empty(self) -> bool:
        """Whether no variable is left."""
        return not any(self.coefficients)

    @property
    def impossible(self) -> bool:
        """Whether no variable is left and the numbers are wrong, as in 0 <= -1."""
        return self.empty and (self.bound < 0 or (self.relation == "=" and self.bound != 0))

    def holds(self, point: Sequence[Number]) -> bool:
        """Tell whether a point satisfies the row."""
        value = sum((c * v for c, v in zip(self.coefficients, point, strict=True)), Fraction(0))
        return value == self.bound if self.relation == "=" else value <= self.bound


@dataclass(frozen=True)
class System:
    """Rows over named variables; the order of the names is the order of the coefficients."""

    variables: tuple[str, ...]
    rows: tuple[Row, ...]

    @staticmethod
    def of(
        variables: Sequence[str],
        constraints: Iterable[tuple[Mapping[str, Number], Literal["<=", "=", ">="], Number]],
    ) -> System:
        """Make a system from (coefficient by variable, relation, right side)."""
        rows = []
        for terms, relation, bound in constraints:
            sign = -1 if relation == ">=" else 1
            numbers = [sign * terms.get(name, 0) for name in variables]
            rows.append(Row.scaled(numbers, "=" if relation == "=" else "<=", sign * bound))
        return System(tuple(variables), tuple(rows))

    @property
    def impossible(self) -> bool:
        """Whether a row says so plainly; `eliminate` brings every contradiction to this form."""
        return any(row.impossible for row in self.rows)

    def broken(self, point: Sequence[Number]) -> Row | None:
        """Return the first row a point breaks, None if it satisfies all."""
        return next((row for row in self.rows if not row.holds(point)), None)


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
        return f"{variables[pivot]} = {_sum_text(rest, variables, sign * bound)}"
    if relation == "<=" and not any(c > 0 for c in coefficients):
        coefficients, relation, bound = tuple(-c for c in coefficients), ">=", -bound
    return f"{_sum_text(coefficients, variables)} {relation} {bound}"


def _sum_text(coefficients: Sequence[int], variables: Sequence[str], constant: int = 0) -> str:
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
        lines.append(f"{-lower.bound} <= {_sum_text(upper.coefficients, system.variables)} <= {upper.bound}")
    return lines


def _opposite(rows: Sequence[Row], i: int) -> int | None:
    want = tuple(-c for c in rows[i].coefficients)
    found = (k for k in range(i + 1, len(rows)) if rows[k].relation == "<=" and rows[k].coefficients == want)
    return next(found, None)


MAX_ROWS = 500  # one more variable could take minutes


def eliminate(system: System, variables: Sequence[str]) -> System:
    """Project a system on the variables that are not named: the constraints implied for them, all and only those.

    Some of them may follow from others. A system without a solution becomes the single row 0 <= -1.

    Args:
        system: constraints.
        variables: names to eliminate; the cheapest is taken first.

    Returns:
        a system over the remaining variables, in their order.

    Raises:
        ConfigError: an intermediate system exceeds MAX_ROWS rows (C100).
    """
    gone = [j for j, name in enumerate(system.variables) if name in variables]
    kept = [j for j in range(len(system.variables)) if j not in gone]
    names, rows = tuple(system.variables[j] for j in kept), _without(system.rows, gone)
    if any(row.impossible for row in _without(rows, kept)):
        return System(names, (Row((0,) * len(kept), "<=", -1),))
    return System(
        names, tuple(Row(tuple(r.coefficients[j] for j in kept), r.relation, r.bound) for r in rows)
    )


def is_implied(system: System, row: Row) -> bool:
    """Tell whether every rational point of a system satisfies a row; exact.

    Raises:
        ConfigError: as `eliminate`.
    """
    own = [Row((*r.coefficients, 0), r.relation, r.bound) for r in system.rows]
    value = Row.scaled((*row.coefficients, -1), "=", 0)  # a variable more: the left side of the row
    found = eliminate(System((*system.variables, ""), (*own, value)), system.variables)
    if found.impossible:
        return True
    ends = [
        (r.coefficients[0] > 0, r.relation == "=", Fraction(r.bound, r.coefficients[0])) for r in found.rows
    ]
    most = any(end <= row.bound for is_upper, is_value, end in ends if is_upper or is_value)
    least = any(end >= row.bound for is_upper, is_value, end in ends if not is_upper or is_value)
    return most and (least or row.relation == "<=")


def equivalent(a: System, b: System) -> bool:
    """Tell whether two systems over the same variables, in one order, have the same rational points; exact."""
    return all(is_implied(a, row) for row in b.rows) and all(is_implied(b, row) for row in a.rows)


def _without(rows: Iterable[Row], variables: Iterable[int]) -> list[Row]:
    """Return the rows that others imply without some variables."""
    found, left = _strongest(rows), set(variables)
    while left:
        cheapest = min(left, key=lambda j: (_n_pairs(found, j), j))
        left.remove(cheapest)
        found = _strongest(_combined(found, cheapest))
    return found


def _n_pairs(rows: Sequence[Row], j: int) -> int:
    """Return how many rows take the place of those with a variable; below 0 where an equality gives it."""
    if any(r.relation == "=" and r.coefficients[j] for r in rows):
        return -1
    signs = [r.coefficients[j] for r in rows]
    return sum(s > 0 for s in signs) * sum(s < 0 for s in signs)


def _combined(rows: Sequence[Row], j: int) -> list[Row]:
    """Return rows without a variable: an equality is substituted, else each upper bound meets each lower one."""
    pivot = next((r for r in rows if r.relation == "=" and r.coefficients[j]), None)
    if pivot is not None:
        return [_cancel(r, pivot, j) for r in rows if r is not pivot]
    upper, lower = ([r for r in rows if sign * r.coefficients[j] > 0] for sign in (1, -1))
    return [r for r in rows if not r.coefficients[j]] + [_cancel(u, low, j) for u in upper for low in lower]


def _cancel(row: Row, pivot: Row, j: int) -> Row:
    """Add the multiple of `pivot` (positive unless it is an equality) that removes variable j from `row`."""
    factor = -Fraction(row.coefficients[j], pivot.coefficients[j])
    numbers = [a + factor * b for a, b in zip(row.coefficients, pivot.coefficients, strict=True)]
    return Row.scaled(numbers, row.relation, row.bound + factor * pivot.bound)


def _strongest(rows: Iterable[Row]) -> list[Row]:
    """Keep of the inequalities of each direction the strongest, and equalities; drop rows that say nothing."""
    best: dict[tuple[str, tuple[Fraction, ...], int], tuple[Fraction, Row]] = {}
    for row in rows:
        if row.empty and not row.impossible:
            continue
        unit = max(map(abs, row.coefficients)) or 1
        bound = Fraction(row.bound, unit)
        direction = tuple(Fraction(c, unit) for c in row.coefficients)
        key = row.relation, direction, row.bound if row.relation == "=" else 0
        if key not in best or bound < best[key][0]:
            best[key] = (bound, row)
    if len(best) > MAX_ROWS:
        raise ConfigError(
            f"elimination reached {len(best):,} constraints, more than {MAX_ROWS:,}",
            code="C100",
            fix="merge leaves that have the same constraints, or use the flow variables of the combinations",
        )
    return [row for _, row in best.values()]
