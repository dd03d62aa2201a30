"""Elimination in exact rationals: against linear programs, the theorems, and rows that must go."""

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
    minimal_system,
    nonnegative_combination,
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


def has_point(system: System, fixed: dict[str, int]) -> bool:
    """Decide with exact substitution and Farkas whether some rational values of the other variables fit."""
    rows = []
    for row in system.rows:
        terms = dict(zip(system.variables, row.coefficients, strict=True))
        bound = row.bound - sum(terms[v] * n for v, n in fixed.items())
        rows.append(Row.scaled([terms[v] for v in system.variables if v not in fixed], row.relation, bound))
    left = System(tuple(v for v in system.variables if v not in fixed), tuple(rows))
    return not is_implied(left, Row((0,) * len(left.variables), "<=", -1))


def test_elimination_is_the_projection() -> None:
    """A lost row lets a parent through that has no leaves; an extra one refuses a possible parent."""
    rng = np.random.default_rng(10)
    for _ in range(250):
        system = random_system(rng, int(rng.integers(2, 5)), int(rng.integers(2, 7)))
        gone = system.variables[: int(rng.integers(1, len(system.variables)))]
        kept = tuple(v for v in system.variables if v not in gone)
        shadow = eliminate(system, gone)
        assert kept == shadow.variables
        for point in list(product(range(-2, 3), repeat=len(kept)))[:: 1 if len(kept) < 3 else 9]:
            fits = has_point(system, dict(zip(kept, point, strict=True)))
            assert fits == (shadow.broken(point) is None)


def test_feasibility_agrees_with_a_float_solver() -> None:
    """Farkas answers are proved inside; this shows that no answer is missing."""
    rng = np.random.default_rng(11)
    both = set()
    for _ in range(400):
        d, n = int(rng.integers(1, 5)), int(rng.integers(1, 7))
        generators, target = rng.integers(-3, 4, size=(n, d)), rng.integers(-3, 4, size=d)
        y = nonnegative_combination(generators.tolist(), target.tolist())
        float_answer = linprog(np.zeros(n), A_eq=generators.T, b_eq=target, bounds=(0, None)).status == 0
        assert float_answer == (y is not None)
        both.add(float_answer)
    assert both == {True, False}


def test_minimal_is_equivalent_and_irreducible() -> None:
    """A redundant row left over makes the next elimination explode; one too many removed changes the set."""
    rng = np.random.default_rng(12)
    for _ in range(150):
        system = random_system(rng, 3, int(rng.integers(2, 8)))
        small = minimal_system(system)
        assert equivalent(system, small)
        for row in small.rows:
            rest = System(small.variables, tuple(r for r in small.rows if r is not row))
            assert not is_implied(rest, row)


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
        ("x", "y"), [({"x": 1}, "<=", 2), ({"x": 2}, "<=", 4), ({"x": 1}, ">=", 2), ({"y": 1}, ">=", 0)]
    )
    assert (Row((1, 0), "=", 2), Row((0, -1), "<=", 0)) == minimal_system(system).rows


def test_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubly exponential growth must end in a message, not in hours."""
    monkeypatch.setattr(fourier_motzkin, "MAX_ROWS", 5)
    leaf = GroupLeaf(5, (0, 0, 0), (True, True, True))
    case = Groups(("a", "b", "c"), (leaf, leaf, leaf))
    with fails_with("C100", ConfigError, match="more than 5"):
        eliminate(*group_leaf_system(case))
