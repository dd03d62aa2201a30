"""Steps of ADMM on a structured quadratic: a tree, and a Schur complement for what does not nest.

Roots and splits are finished exactly: guess which entries are positive, solve for them, correct the guess.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy  # which loads its parts when they are first used
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array, vstack

from topdown.arrays import Bools, Floats, Ints
from topdown.errors import ConfigError
from topdown.solve.group_constraints import FixedTable, LowerBounds
from topdown.solve.least_squares.admm import Iterate, PenaltySchedule, Step
from topdown.solve.least_squares.kernels_admm import project_segments
from topdown.solve.least_squares.kernels_tree import (
    Schur,
    Tree,
    admm_steps,
    apply_tree,
    entries_of_sums,
    sums_of_entries,
)
from topdown.solve.least_squares.problem import Problem, Solution
from topdown.solve.least_squares.structured import (
    NestedAnswers,
    Partition,
    Structured,
    check_crossing,
    n_answers,
    nest_answers,
    summing_matrix,
)

CHUNK = 16  # rows that are prepared at once: more take memory, and are no faster


def build_tree(chain: NestedAnswers, n: int, rho: float) -> Tree:
    """Return the tree of rho I + sum of w e e' over nested blocks.

    Args:
        chain: nested answers, fine to coarse. n: rows. rho: penalty.
    """
    d = np.full(n, rho)
    wide = []
    for label, weight in chain:
        size = np.bincount(label[label >= 0], minlength=len(weight))
        alone = (label >= 0) & (size[label] == 1)
        d[alone] += weight[label[alone]]
        wide.append((np.where(alone, -1, label), weight))
    inverse_d = 1.0 / d
    below = inverse_d.copy()  # the inverse so far, times the block that a row is in
    node, top = np.full(n, -1), np.full(n, -1)
    above: Ints = np.zeros(0, dtype=np.int64)
    coefficients, keeps = [np.zeros(0)], [np.zeros(0)]
    for label, weight in wide:
        rows = np.flatnonzero(label >= 0)
        used, block = np.unique(label[rows], return_inverse=True)
        block, w = block.reshape(-1), weight[used]
        total = np.bincount(block, below[rows], minlength=len(used))
        here = len(above) + block
        inner = top[rows]
        above[inner[inner >= 0]] = here[inner >= 0]
        node[rows] = np.where(node[rows] < 0, here, node[rows])
        top[rows] = here
        above = np.concatenate([above, np.full(len(used), -1)])
        coefficients.append(w / (1.0 + w * total))
        keeps.append(1.0 / (1.0 + w * total))
        below[rows] *= keeps[-1][block]
    return Tree(inverse_d, node, above, np.concatenate(coefficients), np.concatenate(keeps))


class LinearStep:
    """x = argmin of the quadratic plus rho/2 |x - v|^2 subject to the fixed table, if it has groups.

    Args:
        quadratic: of the problem. fixed: every row is in a group, or none is. soft: (k, n), rows of the soft rules.
        power: penalties of soft rules are those of entries divided by this power of the rule's squared norm.

    Raises:
        ConfigError: too many answers do not nest (C096).
    """

    def __init__(self, quadratic: Structured, fixed: FixedTable, soft: Floats, power: float = 0.5) -> None:
        self.quadratic, self.fixed = quadratic, fixed
        self.chain, crossing = nest_answers(quadratic.queries, quadratic.supergroup)
        check_crossing(n_answers(crossing))
        n = len(quadratic.supergroup)
        self.crossing_weight = np.concatenate([np.zeros(0), *(w for _, w in crossing)])
        self.soft = csr_array(soft)
        self.soft_ratio = np.maximum(1.0, (soft**2).sum(axis=1)) ** -power
        rows = [csr_array((0, n)), *(summing_matrix(label, len(w)) for label, w in crossing), self.soft]
        self.crossing = vstack(rows, format="csr")
        self.by_row = self.crossing.T.tocsr()
        self.groups = summing_matrix(fixed.of, fixed.n_groups)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty.

        Raises:
            LinAlgError: weights are too far apart.
        """
        self.rho = rho
        self.tree = build_tree(self.chain, len(self.quadratic.supergroup), rho)
        r, n_groups = self.crossing.shape[0], self.fixed.n_groups
        blocks = self._factor_groups() if n_groups else csr_array((0, 0))
        inner = np.diag(1.0 / np.concatenate([self.crossing_weight, rho * self.soft_ratio]))
        shared = np.zeros((n_groups, r))
        for start in range(0, r, CHUNK):
            pick = slice(start, min(start + CHUNK, r))
            column = apply_tree(self.tree, self.by_row[:, pick].toarray())
            inner[:, pick] += self.crossing @ column
            shared[:, pick] = self.groups @ column
        across = np.ascontiguousarray(blocks @ shared)
        inner -= shared.T @ across
        lower = np.zeros((r, r))
        if r:
            lower[:] = solve_triangular(
                cholesky((inner + inner.T) / 2, lower=True), np.eye(r), lower=True, check_finite=False
            )
        self.schur = Schur(
            self.by_row.indptr.astype(np.int64),
            self.by_row.indices.astype(np.int64),
            self.by_row.data,
            len(self.crossing_weight),
            lower,
            np.ascontiguousarray(lower.T),
            self.fixed.of,
            blocks.indptr.astype(np.int64),
            blocks.indices.astype(np.int64),
            blocks.data,
            across,
            np.ascontiguousarray(across.T),
        )
        self.blocks, self.lower, self.across = blocks, lower, across

    def _factor_groups(self) -> csr_array:
        """Return the inverse of the groups' complement, as a matrix of small blocks."""
        # Groups of one supergroup differ in pattern or class only, so blocks are small: pad to dense where > 1.
        n_groups, group = self.fixed.n_groups, self.fixed.of
        first = np.zeros(n_groups, dtype=np.int64)
        first[group[::-1]] = self.quadratic.supergroup[::-1]
        order = np.argsort(first, kind="stable")
        starts = np.flatnonzero(np.diff(first[order], prepend=-1))
        rank = np.empty(n_groups, dtype=np.int64)
        rank[order] = np.arange(n_groups) - np.repeat(starts, np.diff(np.append(starts, n_groups)))
        block = np.empty(n_groups, dtype=np.int64)
        block[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n_groups)))
        width = int(rank.max()) + 1
        dense = np.zeros((len(starts), width, width))
        for k in range(width):
            column = self.groups @ apply_tree(self.tree, (rank[group] == k).astype(np.float64)[:, None])
            dense[block, rank, k] = column[:, 0]
        member = np.full((len(starts), width), -1)
        member[block, rank] = np.arange(n_groups)
        empty, place = np.nonzero(member < 0)
        dense[empty, place, place] = 1.0
        inverse = np.linalg.inv((dense + dense.transpose(0, 2, 1)) / 2)
        inside = (member[:, :, None] >= 0) & (member[:, None, :] >= 0)
        block, one, two = np.nonzero(inside)
        return csr_array(
            (inverse[inside], (member[block, one], member[block, two])), shape=(n_groups, n_groups)
        )

    def near(self, x: Floats) -> Floats:
        """Return the x-step from x itself, as a step from there: only the step has rounding errors.

        Keeps the multipliers of the group sums.
        """
        y = apply_tree(self.tree, -self.quadratic.gradient(x))
        right = self.crossing @ y
        left = self.groups @ y - self.fixed.left(x)
        right -= self.across.T @ left
        mu = self.lower.T @ (self.lower @ right)
        h = self.blocks @ left - self.across @ mu
        self.multipliers = -h
        return np.asarray(x + y - apply_tree(self.tree, self.by_row @ mu + self.groups.T @ h))


ROUNDS = 30
# In persons; of a gradient, times the smallest weight. Less does not tell an entry from zero.
NEXT_TO_NOTHING = 1e-7


PROXIMAL, REPEATS = 1e-3, 4  # where patterns share an answer the optimum is a set: stay near, then repeat


def finish_root(problem: Problem, quadratic: Structured, near: Floats, taken: int) -> Solution | None:
    """Return the root's table that active sets find from the positive entries of `near`; None where they do not apply.

    The steps are those of the primal-dual active set method (Hintermueller, Ito, Kunisch 2002): free are the
    entries that came out positive, and those at zero whose gradient is below their group's multiplier. Entries that
    rounding error alone keeps from zero stay as they are: with them the guesses would run in circles.

    Args:
        problem: they apply to one column without exact table or rules, whose sums are all known, or which has one
            sum that is not. quadratic: its own. near: (n, 1). taken: steps before.
    """
    known = problem.sums >= 0
    if problem.shape[1] > 1 or problem.fixed.n_groups or len(problem.compared.rows):
        return None
    if not known.all() and len(known) > 1:
        return None
    group = np.repeat(np.arange(len(known)), np.diff(problem.pointers))
    inside = problem.allowed[:, 0] & (problem.sums != 0)[group]
    free = inside & (near[:, 0] > 0)
    x, multipliers = np.where(free, near[:, 0], 0.0)[:, None], np.zeros(len(known))
    rho = PROXIMAL * quadratic.scale
    for _ in range(ROUNDS):
        taken += 1
        held, of = np.unique(group[free], return_inverse=True)
        fixed = (
            FixedTable(of, problem.sums[held, None]) if known.all() else FixedTable.none(len(of), 1).floats()
        )
        try:
            step = LinearStep(_restrict_rows(quadratic, free), fixed, np.zeros((0, len(of))))
            step.factor(rho)
        except (np.linalg.LinAlgError, ConfigError):
            break  # weights too far apart for this guess, or too much crosses: what was found so far stands
        inner = x[free]
        for _ in range(REPEATS):
            inner = step.near(inner)
        x[:] = 0.0
        x[free] = inner
        if known.all():
            multipliers[held] = step.multipliers[:, 0]
        d = quadratic.gradient(x)[:, 0] - multipliers[group]
        gains = inside & (d < -NEXT_TO_NOTHING * quadratic.scale)
        wanted = np.where(free, x[:, 0] > -NEXT_TO_NOTHING, gains)
        # Every group keeps its largest entry: an empty one could not meet its sum.
        top = np.zeros(len(known))
        np.maximum.at(top, group, np.where(wanted, x[:, 0], 0.0))
        if (top <= 0)[problem.sums > 0].any() or np.array_equal(wanted, free) or not wanted.any():
            break
        free = wanted
    return Solution.without_multipliers(problem, np.maximum(x, 0.0), taken)


def _restrict_rows(quadratic: Structured, free: np.ndarray) -> Structured:
    queries = []
    for q in quadratic.queries:
        used, label = np.unique(q.label[free], return_inverse=True)
        queries.append(Partition(label.reshape(-1).astype(np.int64), q.weight[used], q.target[used], q.nests))
    return Structured(tuple(queries), quadratic.supergroup[free])


ROUNDS_OF_SPLIT, MOST_GRADIENTS = 12, 400  # guesses, and steps of conjugate gradients for one
CLOSER = 1e-3  # factor by which the gradient falls before the positive entries are guessed again
SINGULAR = 1e-10  # added to the diagonal of products of sums: some follow from others


class FreeEntries:
    """The least squares over some entries of a split, the others being zero, within the sums of rows and fixed table.

    Conjugate gradients (Gould, Hribar and Nocedal 2001): steps keep the sums, to which a sparse factor projects them.

    Args:
        problem: a split, see `finish_split`. quadratic: its own. free: bool (n, m).
    """

    def __init__(self, problem: Problem, quadratic: Structured, free: Bools) -> None:
        (n, m), fixed, by_row = problem.shape, problem.fixed, quadratic.transposed
        self.places = np.flatnonzero(free)
        row, child = np.divmod(self.places, m)
        lengths = np.diff(by_row.indptr)[row]
        self.pointers = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        answer = by_row.indices[
            np.repeat(by_row.indptr[row] - self.pointers[:-1], lengths) + np.arange(lengths.sum())
        ]
        self.answer = answer.astype(np.int64) * m + np.repeat(child, lengths)
        self.weight = np.repeat(quadratic.weight, m)
        self.g = entries_of_sums(self.pointers, self.answer, self.weight * quadratic.target.reshape(-1))
        self.known = np.concatenate([problem.sums, fixed.answers.reshape(-1)])
        table = n + fixed.of[row] * m + child
        self.twice, self.sum = np.arange(0, 2 * len(row) + 1, 2), np.stack([row, table], axis=1).reshape(-1)
        sums = summing_matrix(row, len(self.known)) + summing_matrix(table, len(self.known))
        both = sums @ sums.T + SINGULAR * scipy.sparse.eye_array(len(self.known))
        self.factor = scipy.sparse.linalg.splu(
            both.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )

    def with_sums(self, x: Floats) -> Floats:
        """Return the nearest table with the known sums, as far as these entries can have them."""
        return x + self._by_sum(self.factor.solve(self.known - self.sums(x)))

    def sums(self, x: Floats) -> Floats:
        """Return the sums of rows and fixed table that a table on the entries has."""
        return sums_of_entries(self.twice, self.sum, x, len(self.known))

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g on the entries."""
        return self._times(x) - self.g

    def towards_optimum(self, x: Floats, enough: float) -> tuple[Floats, bool]:
        """Return a table whose gradient within the sums is shorter by `CLOSER`, or `enough`; and whether it is that."""
        rest = step = self._within(self._within(-self.gradient(x)))
        old = float(rest @ rest)
        least = max(enough**2, CLOSER**2 * old)
        for _ in range(MOST_GRADIENTS):
            image = self._times(step)
            along = float(step @ image)
            if old <= least or along <= 0:
                break
            x, rest = x + old / along * step, self._within(rest - old / along * image)
            new = float(rest @ rest)
            step, old = rest + new / old * step, new
        return x, old <= enough**2

    def multipliers(self, x: Floats, near: Floats) -> Floats:
        """Return those of the sums that explain the gradient at a table best, the nearest to some."""
        return np.asarray(near + self.factor.solve(self.sums(self.gradient(x) - self._by_sum(near))))

    def _within(self, x: Floats) -> Floats:
        """Return the nearest table with all sums 0."""
        return x - self._by_sum(self.factor.solve(self.sums(x)))

    def _times(self, x: Floats) -> Floats:
        """Return Hx on the entries."""
        answers = sums_of_entries(self.pointers, self.answer, x, len(self.weight))
        return entries_of_sums(self.pointers, self.answer, self.weight * answers)

    def _by_sum(self, multipliers: Floats) -> Floats:
        """Return for each entry the multipliers of its two sums together."""
        return entries_of_sums(self.twice, self.sum, multipliers)


def finish_split(problem: Problem, quadratic: Structured, near: Solution) -> Solution | None:
    """Return the table of a split that active sets find from the positive entries of `near`; None if it is too far.

    As `finish_root`, but each guess is solved only as closely as the next guess needs.

    Args:
        problem: with a fixed table and a sum for every row, without bounds or soft rules. quadratic: its own.
        near: a table and the fixed table's multipliers.
    """
    (n, m), fixed, taken = problem.shape, problem.fixed, near.iterations
    free, x, tables = near.z > 0, near.z, near.fixed_multipliers
    d = (quadratic.gradient(x) - fixed.spread(tables)) * free
    push = np.concatenate([d.sum(axis=1) / np.maximum(free.sum(axis=1), 1), tables.reshape(-1)])
    for _ in range(ROUNDS_OF_SPLIT):
        taken += 1
        inner = FreeEntries(problem, quadratic, free)
        start = inner.with_sums(x.reshape(-1)[inner.places])
        if np.abs(inner.known - inner.sums(start)).max() > NEXT_TO_NOTHING:
            return None
        found, ends = inner.towards_optimum(start, NEXT_TO_NOTHING * quadratic.scale)
        push = inner.multipliers(found, push)
        x = np.zeros((n, m))
        x.reshape(-1)[inner.places] = found
        tables = np.ascontiguousarray(push[n:].reshape(fixed.answers.shape))
        d = quadratic.gradient(x) - push[:n, None] - fixed.spread(tables)
        gains = problem.allowed & (problem.sums > 0)[:, None] & (d < -NEXT_TO_NOTHING * quadratic.scale)
        wanted = np.where(free, x > -NEXT_TO_NOTHING, gains)
        if ends and np.array_equal(wanted, free):
            break
        free = wanted
    z = np.empty(n * m)
    project_segments(x.reshape(-1), problem.pointers, problem.sums, free.reshape(-1), z)
    plain = Solution.without_multipliers(problem, z.reshape(n, m), taken)
    return replace(plain, fixed_multipliers=tables)


RELAX = 1.8


MOST_STEPS = 20_000
FIRST_FINISH = 60  # steps after which a split is first finished exactly; then after twice as many


FEW_STEPS, FEW_ENTRIES = 4_000, 1_000  # small tables, which the interior-point method solves at once


class StructuredStep(Step):
    """ADMM iterations of a structured quadratic, whose linear step is solved along a tree of tables; without bounds.

    Args:
        problem: of a structured quadratic. power: see `LinearStep`.
    """

    def __init__(self, problem: Problem, quadratic: Structured, power: float) -> None:
        if not isinstance(problem.bounds, LowerBounds) or problem.bounds.n_groups:
            raise TypeError("a structured problem has no bounds: take them off the table first")
        self.problem, self.quadratic = problem, quadratic
        self.linear = LinearStep(quadratic, problem.fixed, problem.compared.rows, power)
        few = not len(problem.compared.rows) and problem.allowed.size <= FEW_ENTRIES
        self._next_finish = FIRST_FINISH
        polish = 200 if problem.shape[1] == 1 else FIRST_FINISH
        self.pace = PenaltySchedule(
            steps=20, balance=20, polish=polish, most=FEW_STEPS if few else MOST_STEPS
        )
        self._allowed = np.ascontiguousarray(problem.allowed).reshape(-1)
        self._threshold = np.full(len(problem.sums), np.inf)
        self._multipliers = np.zeros((problem.fixed.n_groups, problem.shape[1]))

    def start(self) -> Floats:
        """Return a table that meets row and group sums."""
        return spread_proportionally(self.problem)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty.

        Raises:
            LinAlgError: weights are too far apart for float64.
        """
        self.linear.factor(rho)
        self._pull = rho * self.linear.soft_ratio

    def iterate(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """See `admm.Step.iterate`."""
        p, soft, base = self.problem, self.problem.compared, at.z.copy()
        beyond = -self.quadratic.gradient(base) - soft.rows.T @ (self._pull[:, None] * (soft.rows @ base))
        taken, primal, dual, self._multipliers = admm_steps(
            self.linear.tree, self.linear.schur, base, p.fixed.left(base), beyond, rho, RELAX, at.z, at.u,
            p.pointers, p.sums, self._allowed, self._threshold, soft.most, self._pull, soft.hinge / self._pull,
            at.s, at.t, steps, tolerance,
        )  # fmt: skip
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off the scaled duals."""
        del rho
        return Solution(at.z.copy(), self._multipliers, at.y, self._pull[:, None] * at.t, taken)

    def polish(self, z: Floats, taken: int) -> Solution | None:
        """Return the optimum by active sets, of a root without rules or a split; None where ADMM goes on."""
        p = self.problem
        if p.shape[1] == 1 or len(p.compared.rows) or not p.fixed.n_groups:
            return finish_root(p, self.quadratic, z, taken)
        if taken < self._next_finish:
            return None
        self._next_finish *= 2  # so that what is spent in vain stays below what steps take
        near = Solution.without_multipliers(p, z, taken)
        return finish_split(p, self.quadratic, replace(near, fixed_multipliers=self._multipliers))


def spread_proportionally(problem: Problem) -> Floats:
    """Return a table that meets row and group sums, spread in proportion: the answer where nothing is measured."""
    fixed, (n, _) = problem.fixed, problem.shape
    if not fixed.n_groups:
        allowed = problem.allowed.reshape(-1).astype(np.float64)
        share = np.maximum(problem.sums, 0) / np.maximum(np.add.reduceat(allowed, problem.pointers[:-1]), 1)
        return np.ascontiguousarray((np.repeat(share, np.diff(problem.pointers)) * allowed).reshape(n, -1))
    total = np.maximum(fixed.answers.sum(axis=1), 1e-300)
    return np.ascontiguousarray(problem.sums[:, None] * (fixed.answers / total[:, None])[fixed.of])
