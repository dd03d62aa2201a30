"""Every pair of (leaf, cell), one by one: what `find_changes` decides by labels."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

import numpy as np

from topdown.model import Geography, Schema

Record = tuple[int, int]  # leaf, cell
Ends = tuple[tuple[bool, ...], int, int | None]  # kinds in a set, least, most


@dataclass(frozen=True)
class Statistic:
    """An exact statistic as a reader sees it: a node for each leaf, an answer for each cell."""

    name: str
    node_of_leaf: np.ndarray
    answer_of_cell: np.ndarray

    def tells_apart(self, one: Record, other: Record) -> bool:
        """Tell whether replacing one record by the other changes an answer."""
        nodes, answers = self.node_of_leaf, self.answer_of_cell
        return (nodes[one[0]], answers[one[1]]) != (nodes[other[0]], answers[other[1]])


@dataclass(frozen=True, eq=False)
class Ruled:
    """A bound as a reader sees it: bool (n_cells,) and one number a leaf, least or most."""

    name: str
    inside: np.ndarray
    number: np.ndarray
    above: bool


@dataclass(frozen=True)
class Verdict:
    """What every pair of one kind says; `names`: what some change alters, None if there is no change."""

    kind: str
    of: str
    status: str
    names: frozenset[str] | None


class Leaves:
    """What bounds leave at every leaf, by listing the populations that keep them."""

    def __init__(self, allowed: np.ndarray, bounds: list[Ruled]) -> None:
        """Take bool (n_leaves, n_cells), whether anybody can be there, and the bounds."""
        self.bounds, self.kinds, self.lists = bounds, [], []
        sides = [tuple(bool(b.inside[c]) for b in bounds) for c in range(allowed.shape[1])]
        for leaf in range(len(allowed)):
            kinds = sorted({sides[c] for c in np.flatnonzero(allowed[leaf])})
            self.kinds.append([kinds.index(s) if s in kinds else -1 for s in sides])
            ends: dict[tuple[bool, ...], tuple[int, int | None]] = {}
            for i, b in enumerate(bounds):
                inside = tuple(k[i] for k in kinds)
                low, high = ends.get(inside, (0, None))
                n = int(b.number[leaf])
                high = n if b.above and (high is None or n < high) else high
                ends[inside] = (low if b.above else max(low, n), high)
            found = populations(len(kinds), tuple((k, *e) for k, e in sorted(ends.items())))
            assert found, "a drawn census keeps its bounds"
            self.lists.append(found)
        self.allowed = allowed.copy()
        for leaf, (kind_of, found) in enumerate(zip(self.kinds, self.lists, strict=True)):
            self.allowed[leaf] &= [k >= 0 and any(p[k] for p in found) for k in kind_of]
        self.met = [[self._met(b, leaf) for leaf in range(len(allowed))] for b in bounds]

    def _met(self, bound: Ruled, leaf: int) -> bool:
        """Tell whether a bound is above 0 and what it speaks of has that count in every population."""
        inside = sorted({self.kinds[leaf][c] for c in np.flatnonzero(bound.inside)} - {-1})
        counts = {sum(p[k] for k in inside) for p in self.lists[leaf]}
        return int(bound.number[leaf]) > 0 and counts == {int(bound.number[leaf])}

    def keeps(self, one: Record, other: Record) -> bool:
        """Tell whether one record can be replaced by another in some populations."""
        if one[0] != other[0]:
            return self.leaves(one) and self.leaves(other)
        a, b = self.kinds[one[0]][one[1]], self.kinds[one[0]][other[1]]
        return a == b or _moves(frozenset(self.lists[one[0]]), a, b)

    def leaves(self, record: Record) -> bool:
        """Tell whether a record can go in some population."""
        return _moves(frozenset(self.lists[record[0]]), self.kinds[record[0]][record[1]], -1)

    def broken(self, one: Record, other: Record | None) -> set[str]:
        """Return the bounds of which a change alters a fixed count."""
        out = set()
        for b, met in zip(self.bounds, self.met, strict=True):
            for mine, theirs in ((one, other), (other, one)):
                held = mine is not None and met[mine[0]] and b.inside[mine[1]]
                if held and (theirs is None or theirs[0] != mine[0] or not b.inside[theirs[1]]):
                    out.add(b.name)
        return out


@lru_cache(maxsize=4096)
def populations(n_kinds: int, ends: tuple[Ends, ...]) -> tuple[tuple[int, ...], ...]:
    """List the populations of one leaf that keep all bounds, as counts by kind.

    Larger ones than twice the sum of least counts and one more have a smaller one inside for every question asked here.
    """
    found: list[tuple[int, ...]] = []
    most = 2 * sum(low for _, low, _ in ends) + 2

    def extend(counts: tuple[int, ...]) -> None:
        for inside, _, high in ends:
            if high is not None and sum(n for n, i in zip(counts, inside, strict=False) if i) > high:
                return
        if len(counts) == n_kinds:
            if all(
                sum(n for n, i in zip(counts, inside, strict=True) if i) >= low for inside, low, _ in ends
            ):
                found.append(counts)
            return
        for n in range(most - sum(counts) + 1):
            extend((*counts, n))

    extend(())
    return tuple(found)


@lru_cache(maxsize=4096)
def _moves(lists: frozenset[tuple[int, ...]], a: int, b: int) -> bool:
    for p in lists:
        moved = [n - (k == a) + (k == b) for k, n in enumerate(p)]
        if p[a] and tuple(moved) in lists:
            return True
    return False


def decide(
    schema: Schema,
    geography: Geography,
    allowed: np.ndarray,
    known: list[Statistic],
    bounds: list[Ruled],
    neighbours: str,
) -> list[Verdict]:
    """Return what is true of every kind of change.

    Args:
        allowed: bool (n_leaves, n_cells), whether anybody can be there as far as zeros go.
    """
    leaves = Leaves(allowed, bounds)
    records = [(int(leaf), int(cell)) for leaf, cell in zip(*np.nonzero(leaves.allowed), strict=True)]
    everything = list(permutations(records, 2))
    out = [_judge("everything", "", iter(everything), known, leaves)]
    if neighbours == "add_remove":
        possible = any(leaves.leaves(r) for r in records)
        fixed = set().union(*(leaves.broken(r, None) for r in records))
        names = frozenset(fixed | {k.name for k in known})
        status = "disclosed" if known or not possible else "conditional" if names else "protected"
        out.insert(0, Verdict("presence", "", status, names if possible else None))
    values = {cell: tuple(int(v[0]) for v in schema.coordinates(np.array([cell]))) for _, cell in records}
    for i, attribute in enumerate(schema.attributes):
        changes = (
            (a, b)
            for a, b in everything
            if a[0] == b[0] and _only(values[a[1]], values[b[1]], i) and values[a[1]][i] != values[b[1]][i]
        )
        out.append(_judge("attribute", attribute.name, changes, known, leaves))
    for depth, up in enumerate(geography.ancestors_of_leaves[:-1]):
        moves = ((a, b) for a, b in everything if a[1] == b[1] and a[0] != b[0] and up[a[0]] == up[b[0]])
        out.append(_judge("within_level", geography.level_names[depth], moves, known, leaves))
    return out


def _only(one: tuple[int, ...], other: tuple[int, ...], axis: int) -> bool:
    return all(a == b for i, (a, b) in enumerate(zip(one, other, strict=True)) if i != axis)


def _judge(
    kind: str, of: str, changes: Iterator[tuple[Record, Record]], known: list[Statistic], leaves: Leaves
) -> Verdict:
    possible = agrees = excluded = False
    names: set[str] = set()
    for one, other in changes:
        if not leaves.keeps(one, other):
            excluded, names = True, names | leaves.broken(one, other)
            continue
        seen = {k.name for k in known if k.tells_apart(one, other)}
        possible, agrees, names = True, agrees or not seen, names | seen
    status = "disclosed" if not agrees else "conditional" if names or excluded else "protected"
    return Verdict(kind, of, status, frozenset(names) if possible else None)


def crossing(allowed: np.ndarray, bounds: list[Ruled]) -> bool:
    """Tell whether two bounds cross where anybody can be."""
    somewhere = allowed.any(axis=0)
    sets = [b.inside & somewhere for b in bounds]
    return any((a & b).any() and (a & ~b).any() and (b & ~a).any() for a, b in product(sets, sets))
