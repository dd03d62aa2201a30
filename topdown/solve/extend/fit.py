"""One stage's least squares: queries are partitions of the rows, and which of their answers nest.

min over X >= 0 of sum over queries q and columns j of sum over answers a of w_qa (q(x_j)_a - t_qaj)^2 / 2 with
known row sums (the parent's table) and known sums of each group of rows in each column (the table fixed
before). How it is solved without a dense Hessian is in `linear`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from topdown.errors import ConfigError
from topdown.solve.groups import Floats, Ints
from topdown.solve.problem import Compared

MOST_CROSSING = 4000  # answers that cross supergroups; one dense matrix of this size is factored


@dataclass(frozen=True, eq=False)
class Partition:
    """One query on the rows of a stage: int64 (n,) answer of each row, weight per answer, targets (n_answers, m)."""

    label: Ints
    weight: Floats
    target: Floats


@dataclass(frozen=True, eq=False)
class StageProblem:
    """Least squares of one stage.

    Args:
        queries: see Partition.
        row_sums: (n,) persons; negative where unknown (the root).
        group: (n,) group of each row; rows of one group are neighbours if row sums are unknown.
        fixed: (n_groups, m) persons.
        supergroup: (n,), coarser than group.
        allowed: bool (n, m).
        compared: soft rules between sums of rows.
    """

    queries: tuple[Partition, ...]
    row_sums: Floats
    group: Ints
    fixed: Floats
    supergroup: Ints
    allowed: NDArray[np.bool_]
    compared: Compared

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.allowed.shape[0], self.allowed.shape[1]

    def all_answers(self) -> tuple[csr_array, Floats, Floats]:
        """Return all queries as one 0/1 matrix, with the weight and target of every answer."""
        matrix = vstack([picker(q.label, len(q.weight)) for q in self.queries], format="csr")
        weight = np.concatenate([q.weight for q in self.queries])
        return matrix, weight, np.concatenate([q.target for q in self.queries])


def picker(label: Ints, n: int, values: Floats | None = None) -> csr_array:
    """Return the matrix that sums rows by label; rows with label -1 are left out."""
    row = np.flatnonzero(label >= 0)
    data = np.ones(len(row)) if values is None else values[row]
    return csr_array((data, (label[row], row)), shape=(n, len(label)))


Answers = list[tuple[Ints, Floats]]  # answer of each row, -1 for none; weight per answer


def sort_out(queries: tuple[Partition, ...], supergroup: Ints) -> tuple[Answers, Answers]:
    """Split answers into a nested chain inside supergroups, fine to coarse, and those that cross."""
    n = len(supergroup)
    chain: Answers = []
    crossing: Answers = []
    for q in sorted(queries, key=lambda q: -len(q.weight)):
        low = np.full(len(q.weight), np.iinfo(np.int64).max)
        high = np.full(len(q.weight), -1)
        np.minimum.at(low, q.label, supergroup)
        np.maximum.at(high, q.label, supergroup)
        inside = (low == high)[q.label]
        nested = np.where(inside, q.label, -1)
        if not all(_nests(fine, nested) for fine, _ in chain):
            nested = np.full(n, -1)
        if (nested >= 0).any():
            chain.append((nested, q.weight))
        left = np.where(nested >= 0, -1, q.label)
        used, label = np.unique(np.append(left, -1), return_inverse=True)
        if len(used) > 1:
            crossing.append((label.reshape(-1)[:-1] - 1, q.weight[used[1:]]))
    return chain, crossing


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
