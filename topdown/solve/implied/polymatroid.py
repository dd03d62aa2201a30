"""The table U(A): the most people each set of groups can hold (Theorem 3 as a submodular function)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from topdown.solve.implied.combinations import Combinations
from topdown.solve.implied.groups import check_size
from topdown.solve.problem import Ints


@dataclass(frozen=True, eq=False)
class Polymatroid:
    """Group totals g with g(A) <= U(A) for every set A and g(all) = U(all): the base polytope of U.

    Args:
        names: of the k groups.
        table: int64 (2^k,), U by bit set; submodular, U(empty) = 0.
    """

    names: tuple[str, ...]
    table: Ints

    @property
    def total(self) -> int:
        """All people, U of all groups."""
        return int(self.table[-1])

    @property
    def lower(self) -> tuple[int, ...]:
        """The fewest people in each group, U(all) - U(all others)."""
        full = len(self.table) - 1
        return tuple(self.total - int(self.table[full ^ (1 << j)]) for j in range(len(self.names)))

    def most_violated(self, group_totals: Sequence[int | Fraction]) -> tuple[int, Fraction]:
        """Return the set A with the largest g(A) - U(A), and that excess; exact.

        The totals lie in the polytope if the excess is 0 and they add up to `total`.
        """
        sums = subset_sums_exact([Fraction(v) for v in group_totals])
        excess = [s - int(u) for s, u in zip(sums, self.table, strict=True)]
        worst = max(range(len(excess)), key=excess.__getitem__)
        return worst, excess[worst]

    def contains(self, group_totals: Sequence[int | Fraction]) -> bool:
        """Tell whether group totals can be split over the leaves; exact."""
        whole = sum((Fraction(v) for v in group_totals), Fraction(0))
        return whole == self.total and self.most_violated(group_totals)[1] <= 0


def polymatroid(combinations: Combinations) -> Polymatroid:
    """Return the table of one node; ConfigError beyond 14 groups (C101)."""
    k = len(combinations.names)
    check_size(k)
    people = np.zeros((1, 1 << k), dtype=np.int64)
    for mask, n in combinations.people.items():
        people[0, mask] = n
    return Polymatroid(combinations.names, coverage(people)[0])


def coverage(people: Ints) -> Ints:
    """Turn people by combination into U: U(A) = all people minus those whose combination avoids A.

    Args:
        people: int64 (n, 2^k), nonnegative, column 0 zero.

    Returns:
        int64 (n, 2^k). Cost: k passes over the array.
    """
    inside = people.copy()  # becomes the sum over subsets of each set
    n, size = people.shape
    for j in range(size.bit_length() - 1):
        view = inside.reshape(n, -1, 2, 1 << j)
        view[:, :, 1, :] += view[:, :, 0, :]
    return np.ascontiguousarray(inside[:, -1:] - inside[:, ::-1])


def subset_sums_exact(values: Sequence[Fraction]) -> list[Fraction]:
    """Return the sum over every subset, by bit set."""
    sums = [Fraction(0)]
    for v in values:
        sums += [s + v for s in sums]
    return sums


def bits(n_groups: int) -> NDArray[np.float64]:
    """Return the members of every set as 0/1, shape (2^k, k)."""
    sets = np.arange(1 << n_groups)
    return (sets[:, None] >> np.arange(n_groups) & 1).astype(np.float64)
