"""Linear constraints with integer coefficients over named variables: projection by Fourier-Motzkin elimination.

Elimination is in whole numbers and minimal after every step; whether a constraint follows from others is decided
exactly, with a checked proof either way (Farkas). Systems are written as people write them: `F + C >= 98`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Literal

from topdown.errors import ConfigError, InternalError

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

    @property
    def reversed(self) -> Row:
        """The inequality -coefficients . x <= -bound."""
        return Row(tuple(-c for c in self.coefficients), "<=", -self.bound)

    @property
    def inequalities(self) -> tuple[Row, ...]:
        """The row as inequalities: itself, or both directions of an equality."""
        forward = Row(self.coefficients, "<=", self.bound)
        return (forward,) if self.relation == "<=" else (forward, self.reversed)

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
        """Whether a row says so plainly; `minimal_system` brings every contradiction to this form."""
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


Vector = Sequence[int]


def nonnegative_combination(generators: Sequence[Vector], target: Vector) -> tuple[Fraction, ...] | None:
    """Find y >= 0 with sum_i y_i generators[i] = target, or None if there is none.

    Args:
        generators: whole vectors of equal length.
        target: whole vector of that length.

    Raises:
        InternalError: the proof of the answer does not check (a mistake in this module).
    """
    n, d = len(generators), len(target)
    flip = [-1 if t < 0 else 1 for t in target]
    table = [
        [flip[r] * g[r] for g in generators] + [int(r == s) for s in range(d)] + [flip[r] * target[r]]
        for r in range(d)
    ]
    cost = [-sum(row[j] for row in table) for j in range(n)] + [0] * d + [-sum(row[-1] for row in table)]
    basis, scale = [n + r for r in range(d)], 1
    while True:
        enter = next((j for j in range(n) if cost[j] < 0), None)
        if enter is None:
            break
        leave = _ratio(table, basis, enter)
        pivot_row, pivot = table[leave], table[leave][enter]
        for row in (*(r for i, r in enumerate(table) if i != leave), cost):
            factor = row[enter]
            row[:] = [(v * pivot - factor * p) // scale for v, p in zip(row, pivot_row, strict=True)]
        basis[leave], scale = enter, pivot
    if cost[-1] < 0:
        # reduced cost of artificial r is 1 - u_r in units of `scale`
        direction = [flip[r] * (scale - cost[n + r]) for r in range(d)]
        _check(all(_dot(direction, g) <= 0 for g in generators) and _dot(direction, target) > 0)
        return None
    y = [Fraction(0)] * n
    for r, b in enumerate(basis):
        if b < n:
            y[b] = Fraction(table[r][-1], scale)
    sums = [sum((v * g[r] for v, g in zip(y, generators, strict=True) if v), Fraction(0)) for r in range(d)]
    _check(all(v >= 0 for v in y) and sums == list(target))
    return tuple(y)


def _ratio(table: Sequence[Vector], basis: Sequence[int], enter: int) -> int:
    best = -1
    for i, row in enumerate(table):
        if row[enter] <= 0:
            continue
        if best >= 0:
            left, right = row[-1] * table[best][enter], table[best][-1] * row[enter]
        if best < 0 or left < right or (left == right and basis[i] < basis[best]):
            best = i
    _check(best >= 0)
    return best


def _dot(a: Vector, b: Vector) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _check(fact: bool) -> None:
    if not fact:
        raise InternalError("an exact feasibility proof does not check", code="X040", fix="report it")


MAX_ROWS = 500  # one more round of exact linear programs would take minutes


def eliminate(system: System, variables: Sequence[str]) -> System:
    """Project a system on the variables that are not named: the constraints implied for them, all and only those.

    Args:
        system: constraints.
        variables: names to eliminate; the cheapest is taken first.

    Returns:
        a minimal system over the remaining variables, in their order.

    Raises:
        ConfigError: an intermediate system exceeds MAX_ROWS rows (C100).
    """
    kept = [v for v in system.variables if v not in variables]
    # variables to eliminate come first, so that equalities are solved for them
    current = minimal_system(_reorder(system, [*(v for v in system.variables if v in variables), *kept]))
    left = set(variables) & set(system.variables)
    while left and not current.impossible:
        name = min(left, key=lambda v: (_pairs(current, v), current.variables.index(v)))
        left.remove(name)
        current = minimal_system(_combine(current, name))
    if current.impossible:
        return _impossible(tuple(kept))
    return _reorder(current, kept)


def is_implied(system: System, row: Row) -> bool:
    """Tell whether every rational point of a system satisfies a row; exact."""
    generators = _generators(system)
    zero = [0] * len(system.variables)
    return (
        all(
            nonnegative_combination(generators, [*r.coefficients, r.bound]) is not None
            for r in row.inequalities
        )
        or nonnegative_combination(generators, [*zero, -1]) is not None
    )


def equivalent(a: System, b: System) -> bool:
    """Tell whether two systems over the same variables have the same rational points; exact."""
    other = _reorder(b, a.variables)
    return all(is_implied(a, row) for row in other.rows) and all(is_implied(other, row) for row in a.rows)


def minimal_system(system: System) -> System:
    """Return an equivalent system without redundant rows.

    Equalities are independent and solved for the first variables they can be solved for; these variables do not
    occur in the inequalities; no inequality follows from the other rows or holds with equality everywhere. A system
    without a solution becomes the single row 0 <= -1.

    Raises:
        ConfigError: more than MAX_ROWS inequalities remain after the syntactic removal (C100).
    """
    equalities = [r for r in system.rows if r.relation == "="]
    inequalities = [r for r in system.rows if r.relation == "<="]
    while True:
        equalities = _echelon(equalities)
        inequalities = _tightest([_substitute(r, equalities) for r in inequalities])
        if any(r.impossible for r in (*equalities, *inequalities)):
            return _impossible(system.variables)
        if len(inequalities) > MAX_ROWS:
            raise ConfigError(
                f"elimination reached {len(inequalities):,} inequalities, more than {MAX_ROWS:,}",
                code="C100",
                fix="merge leaves that have the same constraints, or use the flow variables of the combinations",
            )
        always = _always_tight(inequalities)
        if always is None:
            return _impossible(system.variables)
        if not always:
            break
        equalities += [Row.scaled(inequalities[i].coefficients, "=", inequalities[i].bound) for i in always]
        inequalities = [r for i, r in enumerate(inequalities) if i not in always]
    kept = list(inequalities)
    for row in reversed(inequalities):
        others = [r for r in kept if r is not row]
        generators = [[*r.coefficients, r.bound] for r in others] + [_slack(len(system.variables))]
        if nonnegative_combination(generators, [*row.coefficients, row.bound]) is not None:
            kept = others
    return System(system.variables, (*equalities, *kept))


def _generators(system: System) -> list[list[int]]:
    rows = [r for row in system.rows for r in row.inequalities]
    return [[*r.coefficients, r.bound] for r in rows] + [_slack(len(system.variables))]


def _slack(n: int) -> list[int]:
    return [0] * n + [1]


def _impossible(variables: tuple[str, ...]) -> System:
    return System(variables, (Row((0,) * len(variables), "<=", -1),))


def _reorder(system: System, variables: Sequence[str]) -> System:
    """Sort the columns; columns left out must be empty."""
    at = [system.variables.index(v) for v in variables]
    rows = tuple(Row.scaled([r.coefficients[i] for i in at], r.relation, r.bound) for r in system.rows)
    return System(tuple(variables), rows)


def _pairs(system: System, name: str) -> int:
    j = system.variables.index(name)
    if any(r.relation == "=" and r.coefficients[j] for r in system.rows):
        return -1
    signs = [r.coefficients[j] for r in system.rows]
    return sum(s > 0 for s in signs) * sum(s < 0 for s in signs)


def _combine(system: System, name: str) -> System:
    j = system.variables.index(name)
    pivot = next((r for r in system.rows if r.relation == "=" and r.coefficients[j]), None)
    if pivot is not None:
        rest = [_cancel(r, pivot, j) for r in system.rows if r is not pivot]
        return System(system.variables, tuple(rest))
    upper = [r for r in system.rows if r.coefficients[j] > 0]
    lower = [r for r in system.rows if r.coefficients[j] < 0]
    rows = [r for r in system.rows if r.coefficients[j] == 0]
    rows += [_cancel(u, low, j) for u in upper for low in lower]
    return System(system.variables, tuple(rows))


def _cancel(row: Row, pivot: Row, j: int) -> Row:
    """Add the multiple of `pivot` (positive unless it is an equality) that removes variable j from `row`."""
    factor = -Fraction(row.coefficients[j], pivot.coefficients[j])
    numbers = [a + factor * b for a, b in zip(row.coefficients, pivot.coefficients, strict=True)]
    return Row.scaled(numbers, row.relation, row.bound + factor * pivot.bound)


def _echelon(rows: Sequence[Row]) -> list[Row]:
    done: list[Row] = []
    for given in rows:
        row = _substitute(given, done)
        if row.empty and not row.impossible:
            continue
        if row.impossible:
            return [row]
        done = [_substitute(r, [row]) for r in done] + [row]
    return sorted(done, key=_pivot)


def _pivot(row: Row) -> int:
    return next(j for j, c in enumerate(row.coefficients) if c)


def _substitute(row: Row, equalities: Sequence[Row]) -> Row:
    for equality in equalities:
        if not equality.empty and row.coefficients[_pivot(equality)]:
            row = _cancel(row, equality, _pivot(equality))
    return row


def _tightest(rows: Sequence[Row]) -> list[Row]:
    """Keep one row a direction, the strongest; drop empty ones that hold."""
    best: dict[tuple[Fraction, ...], tuple[Fraction, Row]] = {}
    for row in rows:
        if row.empty and not row.impossible:
            continue
        unit = max(map(abs, row.coefficients)) or 1
        key, bound = tuple(Fraction(c, unit) for c in row.coefficients), Fraction(row.bound, unit)
        if key not in best or bound < best[key][0]:
            best[key] = (bound, row)
    return [row for _, row in best.values()]


def _always_tight(rows: Sequence[Row]) -> set[int] | None:
    """Find rows that hold with equality at every point; empty if none, None if there is no point at all."""
    if not rows:
        return set()
    n = len(rows[0].coefficients)
    generators = [[*r.coefficients, r.bound, 1] for r in rows] + [[*_slack(n), 0]]
    y = nonnegative_combination(generators, [*([0] * (n + 1)), 1])
    if y is None:
        return set()
    return None if y[-1] > 0 else {i for i, v in enumerate(y[:-1]) if v > 0}
