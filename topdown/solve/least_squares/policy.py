"""What is tried in turn: ADMM without bounds, ADMM with them, interior points; a linear program tells what has none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from topdown.errors import NoSplitError
from topdown.solve.groups import LowerBounds
from topdown.solve.least_squares import admm
from topdown.solve.least_squares.dense_step import DenseStep
from topdown.solve.least_squares.kkt import TARGET_PERSONS, infeasibility_persons, residual_persons
from topdown.solve.least_squares.lattice_step import LatticeStep
from topdown.solve.least_squares.on_lattice import OnLattice
from topdown.solve.least_squares.per_child import PerChild
from topdown.solve.least_squares.problem import Problem, Solution
from topdown.solve.least_squares.quadratics import Dense
from topdown.solve.least_squares.stacked_step import StackedStep
from topdown.solve.least_squares.structured import Structured
from topdown.solve.least_squares.tree_step import TreeStep

MOST_INTERIOR = (
    5_000_000  # entries of dense blocks that interior points may factor: a minute, half a gigabyte
)
MOST_ROWS, MOST_ENTRIES = (
    1_500,
    20_000,
)  # of a structured problem that they take: a dense Hessian, a sparse factor


def solve(problem: Problem, most_steps: int | None = None, power: float = 0.5) -> tuple[Solution, float]:
    """Return the solution and its certified residual in persons (`kkt.residual_persons`).

    Args:
        problem: dense or structured.
        most_steps: of ADMM, after which other methods are tried; None for as many as its kind takes.
        power: penalties of soft rules are those of entries divided by this power of the rule's squared norm.

    Raises:
        NoSplitError: a linear program finds that the constraints have no common point (I012).
    """
    bounds = problem.bounds
    found, residual = _by_admm(_without_bounds(problem), most_steps, power)
    if bounds.n_groups:
        if bounds.are_met(bounds.sums(found.z)):
            found = replace(found, bound_multipliers=np.zeros_like(bounds.lower))
        else:
            found, _ = _by_admm(problem, most_steps, power)
        residual = residual_persons(problem, found)
    return (found, residual) if residual <= TARGET_PERSONS else _by_other_means(problem, found, residual)


def solve_with(name: str, problem: Problem) -> tuple[Solution, float]:
    """Solve one problem with the named backend; see `solve` and `backends.quadratic.solve_with`."""
    if name == "admm":
        return solve(problem)
    from topdown.solve.backends import quadratic

    found = quadratic.solve_with(name, problem)
    return found, residual_persons(problem, found)


def _without_bounds(problem: Problem) -> Problem:
    return replace(problem, bounds=LowerBounds.none(*problem.shape).floats())


def _by_admm(problem: Problem, most_steps: int | None, power: float) -> tuple[Solution, float]:
    step = _step_of(problem, power)
    try:
        with _threads(step.threads):
            return admm.run(problem, step, most_steps)
    except np.linalg.LinAlgError:  # weights too far apart for its linear step in float64
        found = Solution.without_multipliers(problem, step.start(), 0)
        return found, residual_persons(problem, found)


def _step_of(problem: Problem, power: float) -> admm.Step:
    match problem.quadratic:
        case Dense() as dense:
            return DenseStep(problem, dense, power)
        case PerChild(beyond=OnLattice() as beyond) as per_child:
            return LatticeStep(problem, per_child, beyond)
        case PerChild() as per_child:
            return StackedStep(problem, per_child)
        case Structured() as structured:
            return TreeStep(problem, structured, power)
        case other:
            raise TypeError(f"no ADMM step is known for {type(other).__name__}")


def _threads(most: int | None) -> AbstractContextManager[object]:
    return nullcontext() if most is None else _controller().limit(limits=most)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _by_other_means(problem: Problem, found: Solution, residual: float) -> tuple[Solution, float]:
    """Solve by interior points what many steps did not solve: curvatures far apart, or tables in a corner."""
    from topdown.solve.backends.feasible import have_common_point
    from topdown.solve.backends.quadratic import solve_with as solve_by

    n, m = problem.shape
    if isinstance(problem.quadratic, Structured):
        if n > MOST_ROWS or problem.allowed.sum() > MOST_ENTRIES or len(problem.compared.rows):
            return found, residual
        problem = replace(problem, quadratic=problem.quadratic.dense())
    if infeasibility_persons(problem, found.z) > TARGET_PERSONS and have_common_point(problem) is False:
        raise NoSplitError(
            "the constraints of this split exclude each other",
            code="I012",
            fix="check exact totals and lower bounds below this node against each other",
        )
    if n * n * m > MOST_INTERIOR:
        return found, residual
    try:
        other = solve_by("interior", problem)
    except (RuntimeError, np.linalg.LinAlgError):  # singular to working precision: what was found stands
        return found, residual
    theirs = residual_persons(problem, other)
    if theirs >= residual:
        return replace(found, iterations=found.iterations + other.iterations), residual
    return replace(other, iterations=found.iterations + other.iterations), theirs
