"""Fourier-Motzkin elimination in whole numbers, minimal after every step.

Equalities are used up by substitution first. After each combined variable the system is made minimal again by exact
linear programming (`farkas.py`), so its size is the number of facets of the projection, not of Fourier's pairs. The
history rule of Chernikov is left out on purpose: it may not be mixed with the removal of other redundant rows.
Elimination is over the rationals: whether whole points extend to whole points is what the theorems of the other
modules say.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from topdown.errors import ConfigError
from topdown.solve.implied.farkas import nonnegative_combination
from topdown.solve.implied.rows import Row, System

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
    current = minimal(_reorder(system, [*(v for v in system.variables if v in variables), *kept]))
    left = set(variables) & set(system.variables)
    while left and not current.impossible:
        name = min(left, key=lambda v: (_pairs(current, v), current.variables.index(v)))
        left.remove(name)
        current = minimal(_combine(current, name))
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


def minimal(system: System) -> System:
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
