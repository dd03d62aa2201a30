"""Newton's method on the active set, in a few linear systems: the whole root, and what ADMM leaves of a split.

Once it is guessed which entries are zero and which bounds are tight, the optimum is a linear system: each child's table
follows from multipliers of the parent's rows, and these from a Schur complement summed over children. Entries that come
out negative are then closed, those that would gain are opened, bounds likewise, until nothing changes. This is a
semismooth Newton method (Hintermueller, Ito and Kunisch 2002): near the optimum it takes a few steps however flat or
cornered the problem is. Where it runs in circles, entries are exchanged one at a time until fewer are wrong (block
principal pivoting, Judice and Pires 1994). Multipliers are damped (Rockafellar's proximal method of multipliers), so
that a guess whose constraints exclude each other has a solution too, and its large multipliers show what to open.
Guesses are bounded in number: nothing is taken but what the optimality check accepts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from topdown.arrays import Bools, Floats, Ints
from topdown.solve.least_squares.kernels_admm import project_segments
from topdown.solve.least_squares.optimality import TARGET_PERSONS, residual_persons
from topdown.solve.least_squares.problem import Dense, LatticeQuadratic, PerChild, Problem, Solution

# Guesses in all, and those that may have no fewer wrong entries before one is exchanged at a time.
MOST_GUESSES, CHANCES = 60, 4
DAMPING = 1e-6  # of multipliers, relative to the inverse of the largest curvature
FEW_WRONG = 8  # entries and limits up to which the optimality check is asked: rounding may leave some
REPEATS = 2  # of one guess: each brings a damped multiplier a million times closer
MOST_SYSTEMS = 20_000_000  # entries of the systems of all children together, in lattice form
OPEN_PERSONS = 1e-9  # entries of the starting table below this are taken for zeros
CHEAP_STEPS = 20  # of ADMM: what a guess may cost to be cheap


def is_split(problem: Problem) -> bool:
    """Tell whether Newton's method takes a problem as a split: with one optimum, not too large, without soft rules."""
    n, m = problem.shape
    rows = (
        m > 1 and np.array_equal(problem.pointers, np.arange(0, n * m + 1, m)) and (problem.sums >= 0).all()
    )
    return bool(rows and _has_one_optimum(problem))


def is_root(problem: Problem) -> bool:
    """Tell whether it takes a problem as a root: one table with one optimum, not too large, without soft rules."""
    return problem.shape[1] == 1 and _has_one_optimum(problem)


def is_cheap(problem: Problem, z: Floats) -> bool:
    """Tell whether a guess near a table costs no more than `CHEAP_STEPS` steps: it is cubic in the rows a child has."""
    n, m = problem.shape
    free = np.count_nonzero(z > OPEN_PERSONS, axis=0).astype(np.float64)
    return float((free**3).sum()) + n**3 <= CHEAP_STEPS * 2 * n * n * m


def _has_one_optimum(problem: Problem) -> bool:
    (n, m), quadratic = problem.shape, problem.quadratic
    small = isinstance(quadratic, LatticeQuadratic) and n * n * m <= MOST_SYSTEMS
    one = (small or isinstance(quadratic, Dense | PerChild)) and quadratic.curvature > 0
    return one and not len(problem.compared.rows)


def solve_root(problem: Problem) -> tuple[Solution, float]:
    """Return a root's optimum and its residual in persons, see `finish_newton`; at first all that may be is free.

    Args:
        problem: see `is_root`.
    """
    inside = problem.allowed & np.repeat(problem.sums != 0, np.diff(problem.pointers))[:, None]
    return finish_newton(problem, Solution.without_multipliers(problem, inside.astype(np.float64), 0))


def finish_newton(problem: Problem, near: Solution) -> tuple[Solution, float]:
    """Return the best point that Newton's method finds from a table near the optimum, and its residual in persons.

    Infinite where weights are too far apart for its systems in float64.

    Args:
        problem: see `is_split`, `is_root`. near: where to start; its residual does not matter.
    """
    try:
        return _newton(problem, near)
    except np.linalg.LinAlgError:
        return near, np.inf


def _newton(problem: Problem, near: Solution) -> tuple[Solution, float]:
    best, least = near, np.inf
    newton = RootSteps(problem) if is_root(problem) else SplitSteps(problem)
    guess = ActiveSet.of(problem, near)
    fewest, chances = near.z.size + len(guess.tight) + 1, CHANCES
    for step in range(MOST_GUESSES):
        point = newton.solve(guess)
        found = newton.solution(guess, point, near.iterations + step + 1)
        wrong = newton.wrong(guess, point)
        n_wrong = int(wrong.sum())
        if n_wrong <= FEW_WRONG or step == MOST_GUESSES - 1:
            residual = residual_persons(problem, found)
            if residual < least:
                best, least = found, residual
        if least <= TARGET_PERSONS or not n_wrong:
            break
        if n_wrong < fewest:
            fewest, chances = n_wrong, CHANCES
        elif chances:
            chances -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        guess = guess.exchanged(wrong, point.at)
    return best, least


@dataclass(frozen=True, eq=False)
class SplitMultipliers:
    """Of each row's or its segment's sum (n,), of the fixed table's answers (k, m), and of limits (n_limits,) >= 0."""

    rows: Floats
    fixed: Floats
    limits: Floats


@final
@dataclass(frozen=True, eq=False)
class ActiveSet:
    """A guess: entries that may be positive, bool (n, m), limits that are tight, bool (n_limits,), and multipliers."""

    free: Bools
    tight: Bools
    at: SplitMultipliers

    @staticmethod
    def of(problem: Problem, near: Solution) -> ActiveSet:
        """Return the guess that a table near the optimum suggests; limits are found out later."""
        free = near.z > OPEN_PERSONS
        n_limits = len(problem.bounds.explicit()[1]) + len(problem.bounds.everybody)
        d = problem.quadratic.gradient(near.z) - problem.fixed.spread(near.fixed_multipliers)
        rows = (d * free).sum(axis=1) / np.maximum(free.sum(axis=1), 1)
        known = np.arange(n_limits) < len(problem.bounds.everybody)
        return ActiveSet(free, known, SplitMultipliers(rows, near.fixed_multipliers, np.zeros(n_limits)))

    def exchanged(self, wrong: Bools, at: SplitMultipliers) -> ActiveSet:
        """Return the guess with some entries and limits (`NewtonSteps.wrong`) the other way."""
        free = self.free ^ wrong[: self.free.size].reshape(self.free.shape)
        tight = self.tight ^ wrong[self.free.size :]
        return ActiveSet(free, tight, replace(at, limits=np.where(tight, at.limits, 0.0)))


@dataclass(frozen=True, eq=False)
class Point:
    """The optimum of a guess: table (n, m) and multipliers."""

    x: Floats
    at: SplitMultipliers


@dataclass(frozen=True, eq=False)
class ChildSystem:
    """One child's table: x = response @ (g + multipliers of the rows) + what its ties ask for (`SplitSteps`).

    Args:
        free: its free rows, int64 (f,). limits: those that are tight, int64; its ties are all fixed answers and these.
        response: (f, f).
    """

    free: Ints
    limits: Ints
    response: Floats


class NewtonSteps(ABC):
    """The linear systems of one problem. Known sums of kinds come first among limits and are always tight."""

    def __init__(self, problem: Problem) -> None:
        bounds, quadratic = problem.bounds, problem.quadratic
        if not isinstance(quadratic, Dense | PerChild | LatticeQuadratic):
            raise TypeError("Newton's method takes a quadratic of which parts are written out")
        self.problem, self.quadratic = problem, quadratic
        signs, child, most = bounds.explicit()
        n_known = len(bounds.everybody)
        self.n_known = n_known
        self.signs = np.concatenate([np.ones((n_known, bounds.n_groups)), signs])
        self.child = np.concatenate([np.arange(n_known), child])
        self.most = np.concatenate([bounds.everybody, most]).astype(np.float64)
        order = np.argsort(self.child, kind="stable")
        self.of_child = np.split(order, np.searchsorted(self.child[order], np.arange(1, problem.shape[1])))
        self.damping = DAMPING / problem.quadratic.largest_eigenvalue
        self.select = (np.arange(problem.fixed.n_groups)[:, None] == problem.fixed.of).astype(np.float64)
        self.allowed = problem.allowed

    @abstractmethod
    def solve(self, guess: ActiveSet) -> Point:
        """Return the optimum of a guess."""

    def wrong(self, guess: ActiveSet, point: Point) -> Bools:
        """Tell which entries and then which limits are not what the point asks for, bool (n m + n_limits,)."""
        p, at = self.problem, point.at
        d = p.quadratic.gradient(point.x) - at.rows[:, None] - p.fixed.spread(at.fixed)
        d -= p.bounds.spread(self._bound_multipliers(at))
        entries = np.where(guess.free, point.x < 0, self.allowed & (d < 0))
        held = (self.signs * p.bounds.sums(point.x).T[self.child]).sum(axis=1)
        limits = np.where(guess.tight, at.limits < 0, held > self.most + OPEN_PERSONS)
        limits[: self.n_known] = False
        return np.concatenate([entries.reshape(-1), limits])

    def solution(self, guess: ActiveSet, point: Point, steps: int) -> Solution:
        """Return a point as the optimality check and rounding take it: nonnegative, with the parent's sums."""
        p = self.problem
        free = guess.free.reshape(-1)
        held = np.repeat(np.logical_or.reduceat(free, p.pointers[:-1]), np.diff(p.pointers))
        inside = np.where(held, free, p.allowed.reshape(-1))
        z = np.empty(point.x.size)
        project_segments(point.x.reshape(-1), p.pointers, p.sums, inside, z)
        bound = p.bounds.signed(self._bound_multipliers(point.at))
        return Solution(z.reshape(p.shape), point.at.fixed, bound, np.zeros_like(p.compared.most), steps)

    def _bound_multipliers(self, at: SplitMultipliers) -> Floats:
        out = np.zeros((self.problem.bounds.n_groups, self.problem.shape[1]))
        pushed = np.flatnonzero(at.limits)
        np.add.at(out.T, self.child[pushed], -self.signs[pushed] * at.limits[pushed, None])
        return out


@final
class SplitSteps(NewtonSteps):
    """Those of a split: one table a child, coupled by the parent's rows. Few children change from guess to guess.

    Of all children together: `plain` (n, m), response @ g; `gain` (m, t, n), tables by the right sides of ties, and
    `middle` (m, t, t), multipliers of ties by these; zero for entries that are not free and ties that a child lacks.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        n, m = problem.shape
        self._children: list[ChildSystem] = []
        self._free, self._tight = ~problem.allowed, np.zeros(len(self.child), dtype=bool)
        self._schur, self.plain = np.zeros((n, n)), np.zeros((n, m))
        self.gain, self.middle = np.zeros((m, 0, n)), np.zeros((m, 0, 0))

    def solve(self, guess: ActiveSet) -> Point:
        """Return the optimum of a guess."""
        p, damping, at = self.problem, self.damping, guess.at
        n, k, g = len(p.allowed), len(self.select), self.quadratic.g
        self._set_up(guess)
        factor = cho_factor(self._schur + damping * np.eye(n), overwrite_a=True, check_finite=False)
        limits = np.concatenate([child.limits for child in self._children])
        place = np.concatenate([k + np.arange(len(child.limits)) for child in self._children])
        owner, right = self.child[limits], np.zeros(self.middle.shape[:2])
        for _ in range(REPEATS):
            right[:, :k] = (p.fixed.answers + damping * at.fixed).T
            right[owner, place] = self.most[limits] - damping * at.limits[limits]
            left = p.sums + damping * at.rows - self.plain.sum(axis=1)
            left -= right.reshape(-1) @ self.gain.reshape(-1, n)
            rows, tight = cho_solve(factor, left, check_finite=False), np.zeros_like(at.limits)
            pushed = self.gain @ (g + rows[:, None]).T[:, :, None]
            ties = (self.middle @ right[:, :, None] - pushed)[:, :, 0]
            tight[limits] = -ties[owner, place]
            at = SplitMultipliers(rows, np.ascontiguousarray(ties[:, :k].T), tight)
        x = self.plain + (right[:, None, :] @ self.gain)[:, 0].T
        for j, child in enumerate(self._children):
            x[child.free, j] += child.response @ at.rows[child.free]
        return Point(x, at)

    def _set_up(self, guess: ActiveSet) -> None:
        """Bring what is kept of the children in line with a guess."""
        m, k = self.problem.shape[1], len(self.select)
        changed = (guess.free != self._free).any(axis=0)
        changed[self.child[guess.tight != self._tight]] = True
        width = k + int(np.bincount(self.child[guess.tight], minlength=1).max())
        anew = not self._children or 2 * changed.sum() > m or width > self.gain.shape[1]
        if anew:  # also lest rounding errors of sums add up
            n = self.problem.shape[0]
            self._children, self._schur[:] = [], 0.0
            self.gain, self.middle = np.zeros((m, width, n)), np.zeros((m, width, width))
        for j in range(m) if anew else np.flatnonzero(changed).tolist():
            child = self._child(guess, j)
            if anew:
                self._children.append(child)
            else:
                before, self._children[j] = self._children[j], child
                self._schur[np.ix_(before.free, before.free)] -= before.response
            self._schur[np.ix_(child.free, child.free)] += child.response
        self._free, self._tight = guess.free, guess.tight

    def _child(self, guess: ActiveSet, j: int) -> ChildSystem:
        p, free = self.problem, np.flatnonzero(guess.free[:, j])
        limits = self.of_child[j][guess.tight[self.of_child[j]]]
        ties = np.concatenate([self.select[:, free], p.bounds.by_row(self.signs[limits])[:, free]])
        inverse = inverse_of(self.quadratic.block(j, free))
        half = inverse @ ties.T
        middle = np.linalg.inv(ties @ half + self.damping * np.eye(len(ties)))
        gain, t = half @ middle, len(ties)
        response = inverse - gain @ half.T
        self.plain[:, j], self.gain[j], self.middle[j] = 0.0, 0.0, 0.0
        self.plain[free, j] = response @ self.quadratic.g[free, j]
        self.gain[j][:t, free], self.middle[j, :t, :t] = gain.T, middle
        return ChildSystem(free, limits, response)


@final
class RootSteps(NewtonSteps):
    """Those of a root: one table, whose segments are ties as its fixed answers and tight limits are."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        known = np.flatnonzero(problem.sums >= 0)
        self.segment = np.repeat(np.arange(len(problem.sums)), np.diff(problem.pointers))
        self.sums = problem.sums[known]
        self.ties = np.vstack([self.select, (known[:, None] == self.segment).astype(np.float64)])
        self.first = problem.pointers[known]  # one row of each known segment
        self.allowed = problem.allowed & (problem.sums != 0)[self.segment][:, None]

    def solve(self, guess: ActiveSet) -> Point:
        """Return the optimum of a guess."""
        p, damping, at, n_fixed = self.problem, self.damping, guess.at, len(self.select)
        free, limits = np.flatnonzero(guess.free[:, 0]), np.flatnonzero(guess.tight)
        ties = np.vstack([self.ties[:, free], p.bounds.by_row(self.signs[limits])[:, free]])
        factor = cho_factor(self.quadratic.block(0, free), lower=True, overwrite_a=True)
        both = cho_solve(factor, np.column_stack([self.quadratic.g[free, 0], ties.T]))
        plain, half = both[:, 0], both[:, 1:]
        coupled = cho_factor(ties @ half + damping * np.eye(len(ties)))
        push = np.concatenate([at.fixed[:, 0], at.rows[self.first], -at.limits[limits]])
        target = np.concatenate([p.fixed.answers[:, 0], self.sums, self.most[limits]])
        for _ in range(REPEATS):
            push = cho_solve(coupled, target + damping * push - ties @ plain)
        x, rows, tight = np.zeros(p.shape), np.zeros(len(p.sums)), np.zeros_like(at.limits)
        x[free, 0] = plain + half @ push
        rows[p.sums >= 0] = push[n_fixed : len(self.ties)]
        tight[limits] = -push[len(self.ties) :]
        return Point(x, SplitMultipliers(rows[self.segment], push[:n_fixed, None], tight))


def inverse_of(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix (LinAlgError if it is none to working precision)."""
    if not len(matrix):
        return matrix
    factor, failed = dpotrf(matrix, lower=True, clean=True)
    if failed:
        raise np.linalg.LinAlgError("a child's matrix is singular to working precision")
    half, _ = dpotri(factor, lower=True)
    out: Floats = half + np.tril(half, -1).T
    return out
