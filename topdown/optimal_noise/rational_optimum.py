"""The rational optimum of a compact program from floats near it: equal primal and dual values, or an error.

Sparse linear equations are solved in exact rationals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from flint import fmpq

from topdown.optimal_noise.linear_programs import CompactLP, FloatSolution

Rational = Any  # flint.fmpq
Equation = tuple[Mapping[int, Rational], Rational]


class NotUniqueError(ArithmeticError):
    """The equations contradict each other, or leave an unknown open."""


def solve_exactly(
    equations: Sequence[Equation], n_unknowns: int, spare: Sequence[Equation] = ()
) -> tuple[list[Rational], list[bool]]:
    """Return the one solution of sparse equations {unknown: coefficient} . x = right side, and the spare ones used.

    Equations may repeat each other; short ones are used first. Each solved unknown is put into those that follow, so
    the many equations of two unknowns that programs of noise have stay short.

    Args:
        equations: all of them hold.
        n_unknowns: unknowns are 0 .. n_unknowns - 1.
        spare: used in their order, after the others, where they do not contradict what is already solved.

    Raises: NotUniqueError.
    """
    solved: dict[int, tuple[dict[int, Rational], Rational]] = {}
    # unknowns as they were solved; each is written in unknowns that are solved later, or open
    order: list[int] = []
    used = [False] * len(spare)
    needed = sorted(equations, key=lambda one: len(one[0]))
    for k, (entries, right) in enumerate((*needed, *spare)):
        is_spare = k >= len(needed)
        if is_spare and len(order) == n_unknowns:
            break
        row, rest = _reduced(entries, right, solved)
        if not row:
            if rest != 0 and not is_spare:
                raise NotUniqueError("The equations contradict each other.")
            continue
        pivot = max(row)
        scale = row.pop(pivot)
        if is_spare:
            used[k - len(needed)] = True
        solved[pivot] = ({u: -c / scale for u, c in row.items()}, rest / scale)
        order.append(pivot)
    if len(order) < n_unknowns:
        raise NotUniqueError("The equations leave an unknown open.")
    values = [fmpq(0)] * n_unknowns
    for pivot in reversed(order):
        row, rest = solved[pivot]
        values[pivot] = sum((c * values[u] for u, c in row.items()), rest)
    return values, used


def _reduced(
    entries: Mapping[int, Rational],
    right: Rational,
    solved: Mapping[int, tuple[dict[int, Rational], Rational]],
) -> tuple[dict[int, Rational], Rational]:
    """Replace every solved unknown of an equation, until only open ones are left."""
    row: dict[int, Rational] = {}
    waiting = dict(entries)
    while waiting:
        unknown, coefficient = waiting.popitem()
        if coefficient == 0:
            continue
        if unknown not in solved:
            row[unknown] = row.get(unknown, 0) + coefficient
            continue
        line, constant = solved[unknown]
        right = right - coefficient * constant
        for u, c in line.items():
            waiting[u] = waiting.get(u, 0) + coefficient * c
    return {u: c for u, c in row.items() if c != 0}, right


_NEAR = 1e-7  # relative: what floats this close may be equal
_NOISE = 4e-16  # absolute, of masses
_ROUNDS = 6


@dataclass(frozen=True)
class RationalOptimum:
    """The optimum of a compact program in rationals.

    Args:
        masses: one a cell; they add to 1.
        on_excess: multiplier of each row of `CompactLP.excesses`.
        on_sum: multiplier of each (limit, shift), in the order of the program.
        value: the expected cost of the masses, and the value of the multipliers: the same number.
    """

    masses: tuple[Fraction, ...]
    on_excess: tuple[Fraction, ...]
    on_sum: tuple[Fraction, ...]
    value: Fraction


class NotExactError(ArithmeticError):
    """The equations that the floats suggest have no solution that is an optimum."""


def rational_optimum(lp: CompactLP, near: FloatSolution) -> RationalOptimum:
    """Return the optimum of the program in rationals.

    Args:
        lp: the program.
        near: a solution of it at a corner, in floats.

    Raises: NotExactError if the floats do not single out an optimum.
    """
    at = _Face(lp, near)
    masses, gaps = _checked_masses(at)
    try:
        on_excess, on_sum, level = at.dual(gaps)
    except NotUniqueError as error:
        raise NotExactError(str(error)) from error
    value = sum((m * c for m, c in zip(masses, at.costs, strict=True)), level * 0)
    _check_multipliers(at, on_excess, on_sum, level, value)
    return RationalOptimum(
        lp.masses([_fraction(m) for m in masses]),
        tuple(map(_fraction, on_excess)),
        tuple(map(_fraction, on_sum)),
        _fraction(value),
    )


def rational_masses(lp: CompactLP, near: FloatSolution) -> tuple[Fraction, ...]:
    """Return rational masses that keep the program near a float solution, without a proof that they are best.

    Args and errors as for `rational_optimum`.
    """
    masses, _ = _checked_masses(_Face(lp, near))
    return lp.masses([_fraction(m) for m in masses])


def _checked_masses(at: _Face) -> tuple[list[Rational], list[Rational]]:
    """Return masses and excesses that satisfy every inequality of the program."""
    try:
        masses, gaps = at.primal()
    except NotUniqueError as error:
        raise NotExactError(str(error)) from error
    exceeding = [gaps[0] * 0 for _ in at.sums]
    for (s, _, _), gap in zip(at.rows, gaps, strict=True):
        if gap > 0:
            exceeding[s] += gap
    total = sum((m * t for m, t in zip(masses, at.times, strict=True)), gaps[0] * 0)
    if min(masses) < 0 or total != 1 or any(e > d for e, (_, d) in zip(exceeding, at.sums, strict=True)):
        raise NotExactError("The masses that the equations give break the program.")
    return masses, gaps


def _fraction(number: Rational) -> Fraction:
    return Fraction(int(number.p), int(number.q))


def _rational(number: Fraction) -> Rational:
    return fmpq(number.numerator, number.denominator)


@dataclass(frozen=True)
class _Face:
    """A program and the floats near its optimum."""

    lp: CompactLP
    near: FloatSolution

    @cached_property
    def columns(self) -> list[float]:
        """The floats of the columns."""
        return list(map(float, self.near.columns.tolist()))

    @cached_property
    def at_most(self) -> list[float]:
        """Their multipliers of excesses."""
        return list(map(float, self.near.at_most[: len(self.rows)].tolist()))

    @cached_property
    def on_sum(self) -> list[float]:
        """Their multipliers of sums."""
        return list(map(float, self.near.at_most[len(self.rows) :].tolist()))

    @cached_property
    def costs(self) -> list[Rational]:
        """Cost of each column of masses."""
        return [_rational(c) for c in self.lp.program.costs[: self.lp.n_masses]]

    @cached_property
    def times(self) -> list[Rational]:
        """How many cells each column of masses stands for."""
        return [_rational(t) for _, t in self.lp.program.equal[0][0]]

    @cached_property
    def sums(self) -> list[tuple[Rational, Rational]]:
        """(factor, delta) of every row that sums excesses."""
        limits = [(_rational(factor), _rational(delta)) for factor, delta in self.lp.limits]
        return [limit for limit in limits for _ in self.lp.shifts]

    @cached_property
    def rows(self) -> list[tuple[int, int, int | None]]:
        """(sum it belongs to, column, column shifted) of every excess."""
        n, lp = len(self.lp.inner), self.lp
        return [
            (k // n, lp.column(cell) or 0, lp.column(cell - shift))
            for k, (_, shift, cell) in enumerate(lp.excesses)
        ]

    @cached_property
    def held(self) -> dict[int, int]:
        """Number of each column that has mass."""
        least = max(_NOISE, _NEAR * min(float(delta) for _, delta in self.lp.limits) * 1e-3)
        columns = (c for c in range(self.lp.n_masses) if self.columns[c] > least)
        return {c: k for k, c in enumerate(columns)}

    def primal(self) -> tuple[list[Rational], list[Rational]]:
        """Return the masses of the columns, and of every excess p_i - factor p_(i-s), below 0 where it is."""
        signs, tight, spare = self._suggested()
        for _ in range(_ROUNDS):
            tops: list[dict[int, Rational]] = [{} for _ in self.sums]
            for k, sign in enumerate(signs):
                if sign > 0:
                    _add_to(tops[self.rows[k][0]], self._difference(k))
            must: list[Equation] = [({k: self.times[c] for c, k in self.held.items()}, fmpq(1))]
            must += [(self._difference(k), fmpq(0)) for k in tight]
            must += [(tops[s], self.sums[s][1]) for s, z in enumerate(self.on_sum) if z > _NEAR]
            extra: list[Equation] = [(self._difference(k), fmpq(0)) for k in spare]
            extra += [(tops[s], self.sums[s][1]) for s, z in enumerate(self.on_sum) if z <= _NEAR]
            values, used = solve_exactly(must, len(self.held), extra)
            zero = {*tight, *(k for k, taken in zip(spare, used, strict=False) if taken)}
            masses = [fmpq(0)] * self.lp.n_masses
            for c, k in self.held.items():
                masses[c] = values[k]
            gaps = [
                masses[here] - (self.sums[s][0] * masses[there] if there is not None else 0)
                for s, here, there in self.rows
            ]
            found = [0 if k in zero else (gap > 0) - (gap < 0) for k, gap in enumerate(gaps)]
            if found == signs:
                return masses, gaps
            signs, spare = found, [k for k in spare if k in zero]
        raise NotUniqueError("The signs do not settle.")

    def _difference(self, k: int) -> dict[int, Rational]:
        """Return excess k as coefficients of the columns that have mass."""
        s, here, there = self.rows[k]
        found: dict[int, Rational] = {}
        if here in self.held:
            found[self.held[here]] = fmpq(1)
        if there in self.held:
            _add_to(found, {self.held[there]: -self.sums[s][0]})
        return found

    def _suggested(self) -> tuple[list[int], list[int], list[int]]:
        """Return the sign of each excess, the excesses that must be 0, and those that may be, best first."""
        x, signs, tight, spare = self.columns, [], [], []
        factors = [float(factor) for factor, _ in self.lp.limits for _ in self.lp.shifts]
        deltas = [float(delta) for _, delta in self.lp.limits for _ in self.lp.shifts]
        for k, (s, here, there) in enumerate(self.rows):
            left = x[here] if here in self.held else 0.0
            gap = left - (factors[s] * x[there] if there in self.held else 0.0)
            may = here in self.held and abs(gap) <= min(_NEAR * left, _NOISE + _NEAR * deltas[s])
            y, top = self.at_most[k], self.on_sum[s]
            if may and _NEAR * top < y < top * (1 - _NEAR):
                tight.append(k)
            elif may:
                spare.append((abs(gap) / left, k))
            signs.append(0 if may else (gap > 0) - (gap < 0))
        return signs, tight, [k for _, k in sorted(spare)]

    def dual(self, gaps: list[Rational]) -> tuple[list[Rational], list[Rational], Rational]:
        """Return multipliers of excesses and sums, and the level: those between their bounds solve the held columns."""
        names: dict[tuple[str, int], int] = {("level", 0): 0}
        for s, z in enumerate(self.on_sum):
            if z > _NEAR:
                names["sum", s] = len(names)
        expression: list[dict[int, Rational]] = []
        lines: list[dict[int, Rational]] = [{} for _ in self.costs]
        for k, (s, here, there) in enumerate(self.rows):
            y, top = self.at_most[k], self.on_sum[s]
            if ("sum", s) not in names or gaps[k] < 0 or (gaps[k] == 0 and y <= _NEAR * top):
                expression.append({})
                continue
            if gaps[k] == 0 and y < top * (1 - _NEAR):
                names["excess", k] = len(names)
                expression.append({names["excess", k]: fmpq(1)})
            else:
                expression.append({names["sum", s]: fmpq(1)})
            _add_to(lines[here], expression[k])
            if there is not None:
                _add_to(lines[there], {u: -self.sums[s][0] * c for u, c in expression[k].items()})
        equations = [({**lines[c], 0: -self.times[c]}, -self.costs[c]) for c in self.held]
        values, _ = solve_exactly(equations, len(names))
        on_sum = [values[names["sum", s]] if ("sum", s) in names else fmpq(0) for s in range(len(self.sums))]
        on_excess = [sum((c * values[u] for u, c in one.items()), fmpq(0)) for one in expression]
        return on_excess, on_sum, values[0]


def _add_to(total: dict[int, Rational], more: dict[int, Rational]) -> None:
    for u, c in more.items():
        total[u] = total[u] + c if u in total else c


def _check_multipliers(
    at: _Face, on_excess: list[Rational], on_sum: list[Rational], level: Rational, value: Rational
) -> None:
    """Check every inequality of the dual, and that both values are equal."""
    reduced = list(at.costs)
    for k, (s, here, there) in enumerate(at.rows):
        if not 0 <= on_excess[k] <= on_sum[s]:
            raise NotExactError("A multiplier is outside its bounds.")
        if on_excess[k] != 0:
            reduced[here] += on_excess[k]
            if there is not None:
                reduced[there] -= at.sums[s][0] * on_excess[k]
    spent = sum((z * delta for z, (_, delta) in zip(on_sum, at.sums, strict=True)), level * 0)
    if any(c < level * t for c, t in zip(reduced, at.times, strict=True)) or level - spent != value:
        raise NotExactError("The multipliers that the equations give do not prove the masses best.")
