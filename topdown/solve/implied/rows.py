"""Linear constraints with integer coefficients: one row, and a system of rows over named variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Literal

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
        """Whether a row says so plainly; `fourier_motzkin.minimal` brings every contradiction to this form."""
        return any(row.impossible for row in self.rows)

    def broken(self, point: Sequence[Number]) -> Row | None:
        """Return the first row a point breaks, None if it satisfies all."""
        return next((row for row in self.rows if not row.holds(point)), None)
