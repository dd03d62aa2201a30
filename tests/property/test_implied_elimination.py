"""Elimination in whole numbers: against linear programs, the theorems, and rows that must go."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.helpers.failing import fails_with
from tests.helpers.implied_brute import random_groups
from tests.property.test_implied_theorems import random_margins
from topdown.errors import ConfigError
from topdown.solve.implied import (
    GroupLeaf,
    Groups,
    Row,
    System,
    eliminate,
    equivalent,
    group_leaf_system,
    implied_by_groups,
    implied_by_margins,
    is_implied,
    margin_leaf_system,
)
from topdown.solve.implied import linear_systems as fourier_motzkin


def random_system(rng: np.random.Generator, n: int, n_rows: int) -> System:
    """Make small random rows, about a fifth of them equalities."""
    rows = []
    for _ in range(n_rows):
        coefficients = rng.integers(-2, 3, size=n).tolist()
        relation = "=" if rng.random() < 0.2 else "<="
        rows.append(Row.scaled(coefficients, relation, int(rng.integers(-2, 6))))
    return System(tuple("uvwxyz"[:n]), tuple(rows))


def most(system: System, row: Row) -> float | None:
    """Return the largest value of a row's left side by a float solver: infinite, or None where there is no point."""
    parts = [[r for r in system.rows if r.relation == relation] for relation in ("<=", "=")]
    sides = [
        ([r.coefficients for r in rows], [r.bound for r in rows]) if rows else (None, None) for rows in parts
    ]
    cost = -np.array(row.coefficients, dtype=float)
    if linprog(0 * cost, *sides[0], *sides[1], bounds=(None, None)).status == 2:
        return None
    found = linprog(cost, *sides[0], *sides[1], bounds=(None, None))
    return float(-found.fun) if found.status == 0 else np.inf


def test_elimination_is_the_projection() -> None:
    """A lost row lets a parent through that has no leaves; an extra one refuses a possible parent."""
    rng = np.random.default_rng(10)
    for _ in range(100):
        system = random_system(rng, int(rng.integers(2, 5)), int(rng.integers(2, 7)))
        gone = system.variables[: int(rng.integers(1, len(system.variables)))]
        kept = tuple(v for v in system.variables if v not in gone)
        shadow = eliminate(system, gone)
        assert kept == shadow.variables
        for point in list(product(range(-2, 3), repeat=len(kept)))[:: 1 if len(kept) < 3 else 9]:
            there = [
                System.of(system.variables, [({v: 1}, "=", x)]).rows[0]
                for v, x in zip(kept, point, strict=True)
            ]
            at_point = System(system.variables, (*system.rows, *there))
            fits = most(at_point, Row((0,) * len(system.variables), "<=", 0)) is not None
            assert fits == (shadow.broken(point) is None)


def test_what_is_implied_agrees_with_a_float_solver() -> None:
    """A row wrongly said to follow would hide that theorem and elimination differ."""
    rng = np.random.default_rng(11)
    seen = set()
    for case in range(400):
        system = random_system(rng, 3, int(rng.integers(1, 7)))
        row = random_system(rng, 3, 1).rows[0] if case % 4 else system.rows[0]
        both = (
            (row,)
            if row.relation == "<="
            else (row, Row.scaled([-c for c in row.coefficients], "<=", -row.bound))
        )
        ends = [(most(system, one), one.bound) for one in both]
        expected = all(end is None or end <= bound + 1e-9 for end, bound in ends)
        assert expected == is_implied(system, row)
        seen.add((row.relation, expected, ends[0][0] is None))
    assert len(seen) == 6


def test_elimination_finds_lemma_1_and_theorem_3() -> None:
    """The theorems and the elimination of all leaf cells are two ways to the same constraints."""
    rng = np.random.default_rng(13)
    for _ in range(12):
        leaves = [random_margins(rng, 9) for _ in range(2)]
        assert equivalent(implied_by_margins(leaves), eliminate(*margin_leaf_system(leaves)))
    for _ in range(25):
        case = random_groups(rng, 3, 3, 5)
        assert equivalent(implied_by_groups(case), eliminate(*group_leaf_system(case)))


def test_rational_rows_are_scaled() -> None:
    """Rows that differ by a factor are one row; otherwise nothing would be recognised as redundant."""
    assert Row((3, -2), "<=", 6) == Row.scaled([Fraction(1, 2), Fraction(-1, 3)], "<=", 1)
    assert Row((1, -2), "=", 0) == Row.scaled([-2, 4], "=", 0)
    system = System.of(
        ("x", "y"), [({"x": 1}, "<=", 2), ({"x": 2}, "<=", 6), ({"y": 1}, ">=", 0), ({}, "<=", 0)]
    )
    assert (Row((1, 0), "<=", 2), Row((0, -1), "<=", 0)) == eliminate(system, ()).rows


def test_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubly exponential growth must end in a message, not in hours."""
    monkeypatch.setattr(fourier_motzkin, "MAX_ROWS", 5)
    leaf = GroupLeaf(5, (0, 0, 0), (True, True, True))
    case = Groups(("a", "b", "c"), (leaf, leaf, leaf))
    with fails_with("C100", ConfigError, match="more than 5"):
        eliminate(*group_leaf_system(case))
