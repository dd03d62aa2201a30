"""ADMM for constrained least squares with exact projections: one driver for every kind of quadratic.

The split x = z gives a linear step with all equalities inside, and an exact projection of every segment on its
simplex: signs, zeros and parent sums hold at every iterate. How a step is taken is the quadratic's own
(`dense_steps.py`, `structured_step.py`); when to correct the penalty, when to ask the optimality check, and
when to stop is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from topdown.arrays import Floats
from topdown.solve.least_squares.active_set import finish_newton, is_cheap, is_root, is_split
from topdown.solve.least_squares.optimality import TARGET_PERSONS, residual_persons
from topdown.solve.least_squares.problem import Problem, Solution, largest_along
from topdown.solve.least_squares.structured import Structured

TOLERANCE_PERSONS, TIGHTEST_PERSONS = 1e-7, 1e-11  # of both residuals, when the optimality check is asked
# Steps after which Newton's method is tried, twice as many where its guesses are not cheap; the next try is so many
# times later. Splits of few rows take steps so cheaply that Newton's systems cost more for long.
FIRST_FINISH, SMALL_FINISH, LATER_FINISH = 80, 400, 4
SMALL_ROWS = 96
NEVER = 2**31
PATIENCE = 2  # times the steps up to the last check, after which it is asked again, whatever the residuals


@dataclass(frozen=True)
class PenaltySchedule:
    """Steps between two looks, two corrections of the penalty, two tries to finish exactly; most steps in all.

    `floor`: residual in persons that rounding error leaves, where that is above what is asked for at last.
    """

    steps: int
    balance: int
    polish: int
    most: int
    floor: float = 0.0


@dataclass(eq=False)
class Iterate:
    """Where ADMM is: tables, sums of bounded groups, sides of soft rules, each with its scaled multipliers.

    Args:
        z, u: (n, m). y, w: (n_bounds, m). s, t: (n_rules, m).
    """

    z: Floats
    u: Floats
    y: Floats
    w: Floats
    s: Floats
    t: Floats

    def divide(self, factor: float) -> None:
        """Divide the multipliers: the penalty grew by so much."""
        self.u /= factor
        self.w /= factor
        self.t /= factor


class Step(ABC):
    """How one kind of quadratic takes its steps."""

    pace: PenaltySchedule

    @abstractmethod
    def start(self) -> Floats:
        """Return any nonnegative table, (n, m)."""

    @abstractmethod
    def factor(self, rho: float) -> None:
        """Prepare the linear step for a penalty (LinAlgError where float64 does not do)."""

    @abstractmethod
    def iterate(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """Do ADMM iterations in place until both residuals are at most the tolerance.

        Args:
            at: where ADMM is; changed.
            rho: penalty, as `factor` prepared for.
            steps: most iterations.
            tolerance: of both residuals, in persons.

        Returns:
            iterations done; primal residual (how far the two copies of the table, x and z, are apart); dual residual
            (by how much z still moves), both in persons.
        """

    @abstractmethod
    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Return the table and the multipliers of the constraints."""

    def polish(self, z: Floats, taken: int) -> Solution | None:
        """Return the exact optimum with z's pattern of zeros, where it is cheap to find; it may be none."""
        del z, taken
        return None


def run(
    problem: Problem, step: Step, most_steps: int | None = None, near: Solution | None = None
) -> tuple[Solution, float]:
    """Return the best table found and its residual in persons by the strict check (`residual_persons`).

    A point that only the plain check accepts will do once smaller residuals no longer halve what the strict one says.

    Args:
        problem, step: what to solve, and its kind's steps.
        most_steps: steps after which the best so far is returned; the pace's own if None.
        near: the optimum without bounds, with whose table and multipliers steps begin; the step's own start if None.

    Raises:
        LinAlgError: see `Step.factor`.
    """
    pace = step.pace
    most = pace.most if most_steps is None else min(most_steps, pace.most)
    rho = first = first_penalty(problem)
    z, u, rules = step.start(), np.zeros(problem.shape), problem.compared
    if near is not None:
        z = near.z.copy()
        u = (problem.fixed.spread(near.fixed_multipliers) - problem.quadratic.gradient(z)) / rho
    y = np.maximum(problem.bounds.sums(z), problem.bounds.lower)
    s = np.minimum(rules.rows @ z, rules.most)
    at = Iterate(z, u, y, np.zeros_like(y), s, np.zeros_like(s))
    step.factor(rho)
    tolerance, taken, looked = TOLERANCE_PERSONS, 0, most
    finish = first_finish(problem)
    best = (Solution.without_multipliers(problem, z.copy(), 0), np.inf)
    while True:
        steps, primal, dual = step.iterate(
            at, rho, min(pace.steps - taken % pace.steps, most - taken), tolerance
        )
        taken += steps
        reached = primal <= tolerance and dual <= tolerance
        if reached or taken >= min(most, PATIENCE * looked):
            before, best, looked = best[1], _better(problem, best, step.solution(at, rho, taken)), taken
            tightest = reached and tolerance <= max(TIGHTEST_PERSONS, pace.floor)
            if best[1] <= TARGET_PERSONS or taken >= most or tightest:
                return best
            if best[1] > before / 2 and residual_persons(problem, best[0]) <= TARGET_PERSONS:
                return best  # bounds of very many children: floats cannot bring all their rooms to nothing
            tolerance = max(tolerance / 10, pace.floor) if reached else tolerance
        if taken % pace.polish == 0 and (point := step.polish(at.z, taken)) is not None:
            best = _better(problem, best, point)
            if best[1] <= TARGET_PERSONS:
                return best
        if taken >= (finish if is_cheap(problem, at.z) else 2 * finish):
            finish *= LATER_FINISH
            point, residual = finish_newton(problem, step.solution(at, rho, taken))
            if residual <= TARGET_PERSONS:
                return point, residual
        ratio = primal / max(dual, 1e-300)
        if taken % pace.balance == 0 and not 0.2 < ratio < 5 and taken < most // 2:
            wanted = rho * float(np.clip(np.sqrt(ratio), 0.2, 5.0))
            factor = float(np.clip(wanted, first / 1e4, first * 1e4)) / rho
            if factor != 1.0:
                rho *= factor
                at.divide(factor)
                step.factor(rho)


def first_finish(problem: Problem) -> int:
    """Return after how many steps Newton's method is first tried; more than are ever taken where it does not apply."""
    if not (is_split(problem) or is_root(problem)):
        return NEVER
    return FIRST_FINISH if problem.shape[0] > SMALL_ROWS else SMALL_FINISH


def _better(problem: Problem, best: tuple[Solution, float], found: Solution) -> tuple[Solution, float]:
    residual = residual_persons(problem, found, strict=True)
    return (found, residual) if residual < best[1] else best


def first_penalty(problem: Problem) -> float:
    """Return the geometric mean of the extreme curvatures, the best fixed one for a quadratic (Ghadimi et al. 2015).

    Where a structured table has more open entries than people, most end at zero. Queries tell fewer rows of a child
    better apart: the least curvature counts as that many times higher. On splits into blocks that halves the steps.
    """
    quadratic = problem.quadratic
    smallest = quadratic.curvature if quadratic.curvature > 0 else quadratic.scale
    if isinstance(quadratic, Structured):
        largest = max(largest_along(quadratic.times, problem.fixed, problem.allowed), quadratic.scale)
        if (problem.sums >= 0).all():
            smallest *= max(1.0, problem.allowed.sum() / max(problem.sums.sum(), 1.0))
    else:
        largest = quadratic.largest_eigenvalue
    return float(np.sqrt(max(smallest, largest * 1e-5) * largest))
