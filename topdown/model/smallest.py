"""A smallest set of constraints that exclude each other, by hitting sets (Ignatiev et al. 2015, after Reiter 1987)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_TESTS = 2_000  # feasibility tests, and twenty times as many steps of the search for hitting sets

Test = Callable[[frozenset[int]], bool]


@dataclass(frozen=True)
class Conflict:
    """A set of constraints without a solution, and whether it is a smallest one or only irreducible."""

    members: frozenset[int]
    is_smallest: bool


class _LimitError(Exception):
    """The search took more tests or steps than stated."""


def smallest_conflict(n: int, conflicts: Test, *, max_tests: int = MAX_TESTS) -> Conflict:
    """Find a smallest subset of 0..n-1 that conflicts; the first in order among the smallest it meets.

    Every conflict meets the complement of every set without conflict. So a smallest set that meets all complements
    found so far is a smallest conflict as soon as it conflicts; until then it grows to a maximal set without
    conflict, whose complement joins the others.

    Args:
        n: constraints; all together conflict.
        conflicts: monotone: with a set, every larger one conflicts.
        max_tests: calls after which an irreducible set is returned instead.
    """
    search = _Search(n, conflicts, max_tests)
    try:
        return Conflict(search.smallest(), True)
    except _LimitError:
        orders = (range(n), range(n - 1, -1, -1))  # the result depends on the order, so two are tried
        return Conflict(min([irreducible(order, conflicts) for order in orders], key=len), False)


def irreducible(order: Sequence[int], conflicts: Test) -> frozenset[int]:
    """Leave out constraints one at a time while the conflict stays; of what remains none can be left out."""
    kept = frozenset(order)
    for i in order:
        if conflicts(kept - {i}):
            kept -= {i}
    return kept


class _Search:
    def __init__(self, n: int, conflicts: Test, max_tests: int) -> None:
        self._n, self._conflicts = n, conflicts
        self._tests, self._steps = max_tests, 20 * max_tests

    def smallest(self) -> frozenset[int]:
        to_hit: list[frozenset[int]] = []
        size = 0
        while True:
            found = self._hitting(to_hit, frozenset(), size)
            if found is None:
                size += 1
                continue
            if self._test(found):
                return found
            to_hit.append(frozenset(range(self._n)) - self._grown(found))

    def _grown(self, kept: frozenset[int]) -> frozenset[int]:
        for i in range(self._n):
            if i not in kept and not self._test(kept | {i}):
                kept |= {i}
        return kept

    def _hitting(
        self, to_hit: list[frozenset[int]], chosen: frozenset[int], left: int
    ) -> frozenset[int] | None:
        """Return a set of at most `left` more members that meets every set, or None."""
        self._steps -= 1
        if self._steps < 0:
            raise _LimitError
        missed = [s for s in to_hit if not s & chosen]
        if not missed:
            return chosen
        if left == 0:
            return None
        fewest = min(missed, key=len)
        for i in sorted(fewest):
            found = self._hitting(missed, chosen | {i}, left - 1)
            if found is not None:
                return found
        return None

    def _test(self, kept: frozenset[int]) -> bool:
        self._tests -= 1
        if self._tests < 0:
            raise _LimitError
        return self._conflicts(kept)
