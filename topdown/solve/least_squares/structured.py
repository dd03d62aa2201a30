"""A quadratic made of queries that are partitions of the rows, for tables too large for a dense matrix.

sum over queries q and columns j of sum over answers a of w_qa (q(x_j)_a - t_qaj)^2 / 2, and which of the answers nest.
How its step is taken without a dense Hessian is in `structured_step.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # which loads its parts when they are first used: a plan needs none
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.errors import ConfigError
from topdown.solve.least_squares.problem import Dense, power_method

MOST_CROSSING = 4000  # answers that cross supergroups; one dense matrix of this size is factored
MOST_ROUNDS = 200  # of conjugate gradients, for a bound


@dataclass(frozen=True, eq=False)
class Partition:
    """One query on the rows.

    Args:
        label: int64 (n,), answer of each row.
        weight, target: per answer, (n_answers,) and (n_answers, m).
        nests: whether the schema alone says that it nests with the others of which this is said, on any rows, or that
            it need not; None if only these rows let it be used, so nobody could know before what it adds.
    """

    label: Ints
    weight: Floats
    target: Floats
    nests: bool | None = True


@dataclass(frozen=True, eq=False)
class Structured:
    """Queries on the rows.

    Args:
        queries: see Partition; one at least.
        supergroup: (n,), a partition of the rows within which most answers nest.
    """

    queries: tuple[Partition, ...]
    supergroup: Ints

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        """All queries as one 0/1 matrix (n_answers, n)."""
        return scipy.sparse.vstack(
            [summing_matrix(q.label, len(q.weight)) for q in self.queries], format="csr"
        )

    @cached_property
    def transposed(self) -> scipy.sparse.csr_array:
        """The matrix by row."""
        return self.matrix.T.tocsr()

    @cached_property
    def weight(self) -> Floats:
        """Weight of every answer, (n_answers,)."""
        return np.concatenate([q.weight for q in self.queries])

    @cached_property
    def target(self) -> Floats:
        """Target of every answer, (n_answers, m)."""
        return np.concatenate([q.target for q in self.queries])

    @cached_property
    def curvature(self) -> float:
        """A lower bound on the smallest eigenvalue: what single-row answers give every row."""
        alone = np.diff(self.matrix.indptr) == 1
        out = np.zeros(self.matrix.shape[1])
        np.add.at(out, self.matrix[alone].indices, self.weight[alone])
        return float(out.min())

    @property
    def scale(self) -> float:
        """Smallest weight."""
        return float(self.weight.min())

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return np.asarray(self.transposed @ (self.weight[:, None] * (self.matrix @ x - self.target)))

    def times(self, x: Floats) -> Floats:
        """Return Hx, (n, m)."""
        return np.asarray(self.transposed @ (self.weight[:, None] * (self.matrix @ x)))

    @cached_property
    def largest_eigenvalue(self) -> float:
        """About the largest eigenvalue."""
        return power_method(
            lambda v: self.transposed @ (self.weight * (self.matrix @ v)), len(self.supergroup)
        )

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Bound r'H^-1 r: 2 r'y - y'Hy + |r - Hy|^2 / least holds for every y; y by conjugate gradients."""
        y, rest, least = np.zeros_like(r), r.copy(), self.curvature
        p, old = rest.copy(), float((rest * rest).sum())
        best = old / least
        for _ in range(MOST_ROUNDS if best > enough else 0):
            hp = self.times(p)
            along = float((p * hp).sum())
            if along <= 0:
                break
            y, rest = y + old / along * p, rest - old / along * hp
            new = float((rest * rest).sum())
            hy = self.times(y)
            bound = float((2 * r * y - y * hy).sum()) + float(((r - hy) ** 2).sum()) / least
            best = min(best, max(bound, 0.0))
            if new <= 1e-6 * old or bound < 1.05 * float((r * y).sum()):
                break
            p, old = rest + new / old * p, new
        return best

    def dense(self) -> Dense:
        """Return the same with a dense Hessian."""
        matrix = self.matrix.toarray()
        weighted = matrix.T * self.weight
        return Dense(weighted @ matrix, weighted @ self.target, self.curvature, self.scale)


def summing_matrix(label: Ints, n: int, values: Floats | None = None) -> scipy.sparse.csr_array:
    """Return the matrix that sums rows by label; rows with label -1 are left out."""
    row = np.flatnonzero(label >= 0)
    data = np.ones(len(row)) if values is None else values[row]
    return scipy.sparse.csr_array((data, (label[row], row)), shape=(n, len(label)))


NestedAnswers = list[tuple[Ints, Floats]]  # answer of each row, -1 for none; weight per answer


def nest_answers(queries: tuple[Partition, ...], supergroup: Ints) -> tuple[NestedAnswers, NestedAnswers]:
    """Split answers into a nested chain inside supergroups, fine to coarse, and those that cross.

    The finest query comes first. Where that leaves too many crossing, the schema decides what nests.
    """
    chain: NestedAnswers = []
    crossing: NestedAnswers = []
    for q in sorted(queries, key=lambda q: -len(q.weight)):
        nested = np.where(inside_supergroups(q.label, supergroup), q.label, -1)
        if not all(_nests(fine, nested) for fine, _ in chain):
            nested = np.full(len(supergroup), -1)
        _add_answers(q, nested, chain, crossing)
    found = chain, crossing
    return found if n_answers(crossing) <= MOST_CROSSING else nest_answers_by_schema(queries, supergroup)


def nest_answers_by_schema(
    queries: tuple[Partition, ...], supergroup: Ints
) -> tuple[NestedAnswers, NestedAnswers]:
    """Split answers as `nest_answers` does, so that fewer rows of the same queries never leave more crossing."""
    chain: NestedAnswers = []
    crossing: NestedAnswers = []
    for q in sorted(queries, key=lambda q: -len(q.weight)):
        nested = np.where(inside_supergroups(q.label, supergroup) & bool(q.nests), q.label, -1)
        _add_answers(q, nested, chain, crossing)
    return chain, crossing


def drop_uncertain_queries(queries: tuple[Partition, ...], supergroup: Ints) -> tuple[Partition, ...]:
    """Return the queries without those that only these rows let be used, if with them too many answers cross."""
    if sum(len(q.weight) for q in queries) <= MOST_CROSSING:
        return queries
    _, crossing = nest_answers(queries, supergroup)
    if n_answers(crossing) <= MOST_CROSSING:
        return queries
    return tuple(q for q in queries if q.nests is not None)


def n_answers(answers: NestedAnswers) -> int:
    """Return how many answers there are."""
    return sum(len(weight) for _, weight in answers)


def inside_supergroups(label: NDArray[Any], supergroup: Ints) -> NDArray[np.bool_]:
    """Mark the rows whose answer lies in one supergroup; both label the same rows."""
    n = int(label.max(initial=-1)) + 1
    low, high = np.full(n, np.iinfo(np.int64).max), np.full(n, -1)
    np.minimum.at(low, label, supergroup)
    np.maximum.at(high, label, supergroup)
    return np.asarray((low == high)[label])


def _add_answers(q: Partition, nested: Ints, chain: NestedAnswers, crossing: NestedAnswers) -> None:
    """Add the answers of `nested` to the chain, and the others to what crosses."""
    if (nested >= 0).any():
        chain.append((nested, q.weight))
    left = np.where(nested >= 0, -1, q.label)
    used, label = np.unique(np.append(left, -1), return_inverse=True)
    if len(used) > 1:
        crossing.append((label.reshape(-1)[:-1] - 1, q.weight[used[1:]]))


def check_crossing(n_crossing: int, place: str = "") -> None:
    """Refuse more crossing answers of one stage than one dense matrix holds (ConfigError C096)."""
    if n_crossing > MOST_CROSSING:
        raise ConfigError(
            f"{n_crossing:,} answers of one stage{place} neither nest nor are few enough",
            code="C096",
            fix="give a pass of its own to the finer queries, or list fewer queries in the pass",
        )


def _nests(fine: Ints, coarse: Ints) -> bool:
    """Tell whether each block of `fine` lies in one block of `coarse`, or outside all of them."""
    inside = fine >= 0
    seen = np.full(int(fine.max(initial=0)) + 1, -2)
    seen[fine[inside]] = coarse[inside]
    return bool((seen[fine[inside]] == coarse[inside]).all())
