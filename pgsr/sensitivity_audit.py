"""The privacy audit: sensitivities by brute force, and the exact loss of the published chain's final output.

Every derived sensitivity is compared with all data sets and all neighbours of small hierarchies, vectors written out
naively. The published chain (pgsr.md 1.1) is taken apart for a root with two leaves, N = 2 sizes, G groups: three
unknowns are left after the tie and the public total, c1 = n_1(first leaf), the tied pair c2 = n_1(root), and
c3 = c2 + n_2(first leaf). Their released values depend on y1, y2 + y2' and y3 only, so the output law is a finite sum
over these, up to a stated tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise, product
from math import ceil, exp

import numpy as np
from numpy.typing import NDArray

from pgsr.formats import Audit, ChainOutput, Enumeration, VectorSensitivity
from pgsr.hierarchy import Sizes, Tree, tree_of
from pgsr.level_noise import Budget, calibrate
from pgsr.neighbours import PERSON_STEPS, Relation
from pgsr.vectors import KINDS, Kind, sensitivity
from topdown import __version__
from topdown.arrays import Floats, Ints
from topdown.privacy.exact_values import fixed


def compositions(total: int, n_parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write `total` as a sum of nonnegative integers."""
    for bars in combinations_with_replacement(range(total + 1), n_parts - 1):
        cuts = (0, *bars, total)
        yield tuple(b - a for a, b in pairwise(cuts))


@dataclass(frozen=True)
class Enumerated:
    """Changes found over all pairs of neighbours.

    Args:
        l1: largest L1 change.
        l2_squared: largest squared L2 change.
        l1_by_level: largest L1 change of each level.
        largest_entry: largest change of any one entry.
        n_pairs: pairs of neighbours compared.
        patterns: L1 change of every level, for each pattern that some pair has.
    """

    l1: int
    l2_squared: int
    l1_by_level: tuple[int, ...]
    largest_entry: int
    n_pairs: int
    patterns: frozenset[tuple[int, ...]]


def naive_vector(kind: Kind, tree: Tree, leaves: Ints) -> list[list[int]]:
    """Return the vector of each level as plain lists, written from the definitions only."""
    n_sizes, levels = leaves.shape[0], []
    for level in range(tree.n_levels):
        nodes = range(int(tree.offsets[level]), int(tree.offsets[level + 1]))
        n = [
            [int(leaves[s, tree.leaf_start[g] : tree.leaf_stop[g]].sum()) for g in nodes]
            for s in range(n_sizes)
        ]
        regions = range(len(n[0]))
        if kind == "histogram":
            entries = [n[s][r] for s in range(n_sizes) for r in regions]
        elif kind == "cumulative":
            entries = [sum(n[t][r] for t in range(s + 1)) for s in range(n_sizes) for r in regions]
        elif kind == "tail":
            entries = [sum(n[t][r] for t in range(s, n_sizes)) for s in range(n_sizes) for r in regions]
        else:
            sizes = range(n_sizes - 1, -1, -1) if kind == "tail_chain" else range(n_sizes)
            cells = [n[s][r] for s in sizes for r in regions]
            if kind == "region_major":
                cells = [n[s][r] for r in regions for s in range(n_sizes)]
            entries = [sum(cells[: i + 1]) for i in range(len(cells))]
        levels.append(entries)
    return levels


def enumerate_sensitivity(
    kind: Kind, relation: Relation, tree: Tree, n_sizes: int, total: int, smallest: int = 1
) -> Enumerated:
    """Return the changes over all data sets of `total` groups and all their neighbours.

    Args:
        relation: neighbour step; "new", "dropped" and "appears" change the number of groups.
        tree: the regions; small.
        total: number of groups of the first data set.
        smallest: first size, 0 or 1.
    """
    l1 = squared = entry = n_pairs = 0
    patterns = set()
    for cells in compositions(total, n_sizes * tree.n_leaves):
        here = np.array(cells, dtype=np.int64).reshape(n_sizes, tree.n_leaves)
        base = naive_vector(kind, tree, here)
        for other in _neighbours(here, relation, smallest):
            n_pairs += 1
            changed = naive_vector(kind, tree, other)
            gaps = [
                [abs(a - b) for a, b in zip(x, y, strict=True)] for x, y in zip(base, changed, strict=True)
            ]
            patterns.add(tuple(map(sum, gaps)))
            l1 = max(l1, sum(map(sum, gaps)))
            squared = max(squared, sum(g * g for level in gaps for g in level))
            entry = max(entry, *(max(level) for level in gaps))
    by_level = (
        tuple(max(levels) for levels in zip(*patterns, strict=True)) if patterns else (0,) * tree.n_levels
    )
    return Enumerated(l1, squared, by_level, entry, n_pairs, frozenset(patterns))


def _neighbours(leaves: Ints, relation: Relation, smallest: int) -> list[Ints]:
    """Return the neighbours of a table of leaves, as a person who joins or leaves or a household makes them.

    Sizes are counted from `smallest`; whoever founds a group makes it one of size 1, or of size 0 where such
    groups are counted, which are the last size where there is only one.
    """
    last = len(leaves) - 1
    steps: list[tuple[int | None, int | None]] = [(s, s + 1) for s in range(last)]
    if relation == "new":
        steps = [(None, min(size - smallest, last)) for size in range(smallest, 2)]
    elif relation == "dropped":
        steps = [(last, None)]
    elif relation == "appears":
        steps = [(None, stop) for stop in range(last + 1)]
    elif relation == "household":
        steps = [(start, stop) for start in range(last + 1) for stop in range(last + 1) if start != stop]
    found = []
    for r in range(leaves.shape[1]):
        for start, stop in steps:
            if start is not None and leaves[start, r] == 0:
                continue
            other = leaves.copy()
            if start is not None:
                other[start, r] -= 1
            if stop is not None:
                other[stop, r] += 1
            found.append(other)
    return found


Data = tuple[int, ...]
REFERENCE_PAIR: tuple[Data, Data] = ((1, 3, 0, 2), (0, 4, 0, 2))
"""Six groups (n_1, n_2 of the first leaf, n_1, n_2 of the second); one group grows: 0.643 / 1.363 / 2.843 at least."""
ROUNDING = 1e-9
"""More than float64 can add to a log-ratio of sums of a few million positive terms."""


@dataclass(frozen=True)
class OutputLeak:
    """The largest log-ratio of output probabilities between neighbours.

    Args:
        claimed: epsilon the mechanism was calibrated for.
        epsilon: at most the largest |log P(out | D) / P(out | D')| over outputs with probability above `floor`
            under either data set: what the truncation and float64 could add is taken off.
        bound: |R| claimed / L, what the noise really guarantees.
        output: the worst output (c1, c2, c3).
        first, second: the worst pair of data sets (n_1, n_2 of the first leaf; n_1, n_2 of the second).
        floor: probability below which outputs are left out.
        tail: probability mass left out of the sums.
    """

    claimed: Fraction
    epsilon: float
    bound: Fraction
    output: tuple[int, int, int]
    first: tuple[int, ...]
    second: tuple[int, ...]
    floor: float
    tail: float


class ChainOutputLaw:
    """Output law of the published chain for root, two leaves, N = 2.

    Args:
        claimed: claimed epsilon; noise scale is L / claimed.
    """

    def __init__(self, claimed: Fraction, total: int = 6) -> None:
        self.claimed, self.total = claimed, total
        self.alpha = exp(-float(claimed) / 2)
        self.reach = ceil(30.0 * 2 / float(claimed))
        self.tail = 3 * (self.reach + 2) * self.alpha**self.reach
        # For every (y1, y2 + y2'), the runs of y3 that give one output.
        reach, total = self.reach, self.total
        y1 = np.arange(-reach, total + reach + 1)
        pair = np.arange(-2 * reach, 2 * total + 2 * reach + 1)
        y3 = np.arange(-4 * reach, total + 4 * reach + 1)
        rows, pairs, stops, codes = [], [], [], []
        for i, first in enumerate(y1):
            code = self._outputs(int(first), pair[:, None], y3[None, :])
            ends = np.ones(code.shape, dtype=np.bool_)
            ends[:, :-1] = code[:, 1:] != code[:, :-1]
            j, k = np.nonzero(ends)
            rows.append(np.full(len(j), i))
            pairs.append(j)
            stops.append(k)
            codes.append(code[j, k])
        self.y1, self.pair, self.y3 = y1, pair, y3
        self.row, self.at, self.stop, self.code = map(np.concatenate, (rows, pairs, stops, codes))

    def _outputs(self, y1: int, pair: NDArray[np.int64], y3: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the released (c1, c2, c3) as one number, by the max-min formula with halves rounded up."""
        top = self.total

        def rounded(total: NDArray[np.int64], weight: int) -> NDArray[np.int64]:
            return np.floor_divide(2 * total + weight, 2 * weight)

        one, two, three = np.asarray(y1), rounded(pair, 2), y3
        first_two, last_two, all_three = (
            rounded(y1 + pair, 3),
            rounded(pair + y3, 3),
            rounded(y1 + pair + y3, 4),
        )
        c1 = np.minimum(np.minimum(one, first_two), all_three)
        c2 = np.maximum(np.minimum(first_two, all_three), np.minimum(two, last_two))
        c3 = np.maximum(np.maximum(all_three, last_two), three)
        low, middle, high = (np.clip(c, 0, top) for c in (c1, c2, c3))
        code: NDArray[np.int64] = (low * (top + 1) + middle) * (top + 1) + high
        return code

    def _noise(self, size: int) -> Floats:
        law = self.alpha ** np.abs(np.arange(-size, size + 1)).astype(np.float64)
        return law * (1 - self.alpha) / (1 + self.alpha)

    def law(self, c1: int, c2: int, c3: int) -> Floats:
        """Return the probability of each output when the true chain entries are c1, c2 (tied) and c3."""
        alpha = self.alpha
        one = (1 - alpha) / (1 + alpha) * alpha ** np.abs(self.y1 - c1).astype(np.float64)
        wide = np.convolve(self._noise(4 * self.reach), self._noise(4 * self.reach))
        two = wide[self.pair - 2 * c2 + 8 * self.reach]
        gap = (self.y3 - c3).astype(np.float64)
        below = np.where(
            gap < 0, alpha ** np.abs(gap) / (1 + alpha), 1 - alpha ** (np.abs(gap) + 1) / (1 + alpha)
        )
        below[-1] = 1.0
        mass = below[self.stop]
        starts = np.append(True, (self.row[1:] != self.row[:-1]) | (self.at[1:] != self.at[:-1]))
        mass = mass - np.where(starts, 0.0, np.append(0.0, mass[:-1]))
        weights = one[self.row] * two[self.at] * mass
        found: Floats = np.bincount(self.code, weights=weights, minlength=(self.total + 1) ** 3).astype(
            np.float64
        )
        return found


def published_chain_epsilon(
    claimed: Fraction, pair: tuple[Data, Data] | None = REFERENCE_PAIR, total: int = 6, floor: float = 1e-7
) -> OutputLeak:
    """Return the exact output-level epsilon of the chain calibrated as published, root + 2 leaves, N = 2.

    Args:
        claimed: claimed epsilon.
        pair: two neighbours to compare; None tries every data set of `total` groups and every move.
        total: number of groups G when every data set is tried.
        floor: smallest output probability, under either data set, that counts.

    Cost: about 1.5 s at claimed 1/2, less at larger ones.
    """
    engine = ChainOutputLaw(claimed, sum(pair[0]) if pair else total)
    laws: dict[tuple[int, int, int], Floats] = {}

    def law(data: Data) -> Floats:
        entries = (data[0], data[0] + data[2], data[0] + data[2] + data[1])
        if entries not in laws:
            laws[entries] = engine.law(*entries)
        return laws[entries]

    ratio, code = -1.0, 0
    first: Data = ()
    second: Data = ()
    for data, moved in [pair] if pair else _all_moves(total):
        p, q = law(data), law(moved)
        keep = np.flatnonzero((p > floor) | (q > floor))
        ratios = np.abs(np.log(p[keep]) - np.log(q[keep]))
        ratios -= 3 * engine.tail / np.minimum(p[keep], q[keep]) + ROUNDING
        i = int(ratios.argmax())
        if ratios[i] > ratio:
            ratio, code, first, second = float(ratios[i]), int(keep[i]), data, moved
    base = engine.total + 1
    output = (code // base**2, code // base % base, code % base)
    return OutputLeak(claimed, ratio, Fraction(3, 2) * claimed, output, first, second, floor, engine.tail)


def _all_moves(total: int) -> Iterator[tuple[Data, Data]]:
    for data in compositions(total, 4):
        for leaf in (0, 2):
            if data[leaf] > 0:
                yield data, tuple(v + (i == leaf + 1) - (i == leaf) for i, v in enumerate(data))


SMALL = (
    (([-1], [0, 0]), 2, 3),
    (([-1], [0, 0]), 3, 3),
    (([-1], [0, 0, 0]), 3, 2),
    (([-1], [0, 0], [0, 0, 1]), 3, 2),
    (([-1], [0, 0], [0, 1], [0, 1, 1]), 2, 2),
)


CLAIMS = (Fraction(1, 2), Fraction(1), Fraction(2))


def sensitivity_table(tree: Tree, n_sizes: int) -> list[VectorSensitivity]:
    """Return the derived sensitivities of every vector, and what a claim of 1 is worth with the paper's noise."""
    rows, paper = [], Budget(1, calibration="published")
    for kind in KINDS:
        moves, new, dropped = (sensitivity(kind, relation, tree, n_sizes) for relation in PERSON_STEPS)
        rows.append(
            VectorSensitivity(
                vector=kind,
                move_l1=moves.l1,
                move_l2_squared=moves.l2_squared,
                move_l1_by_level=list(moves.l1_by_level),
                new_l1=new.l1,
                dropped_l1=dropped.l1,
                true_epsilon_of_published_noise_at_1=str(calibrate(kind, tree, Sizes(n_sizes), paper).loss),
            )
        )
    return rows


def confirm_by_enumeration() -> list[Enumeration]:
    """Compare derived sensitivities with brute force on all data sets of small hierarchies.

    Returns:
        One row a hierarchy: the pairs of neighbours compared, over all vectors and steps, and whether every derived
        sensitivity was attained and never exceeded, by entries that change by one.
    """
    found = []
    for levels, n_sizes, total in SMALL:
        tree = tree_of(levels)
        n_pairs, agreed = 0, True
        for kind in KINDS:
            for relation, smallest in product(PERSON_STEPS, (0, 1)):
                seen = enumerate_sensitivity(kind, relation, tree, n_sizes, total, smallest)
                derived = sensitivity(kind, relation, tree, n_sizes, smallest)
                n_pairs += seen.n_pairs
                agreed &= seen.largest_entry <= 1 and (seen.l1, seen.l2_squared, seen.l1_by_level) == (
                    derived.l1,
                    derived.l2_squared,
                    derived.l1_by_level,
                )
        regions = [len(level) for level in levels]
        found.append(Enumeration(regions=regions, n_sizes=n_sizes, total=total, n_pairs=n_pairs, ok=agreed))
    return found


def audit_sensitivities(tree: Tree, n_sizes: int, hierarchy: str) -> Audit:
    """Return the audit of a hierarchy: derived sensitivities, their enumeration, the leak of the published chain.

    Args:
        hierarchy: what the regions are called.

    Cost: some seconds, mostly enumeration.
    """
    confirmed = confirm_by_enumeration()
    return Audit(
        engine=__version__,
        hierarchy=hierarchy,
        regions=[len(level) for level in tree.parents],
        n_sizes=n_sizes,
        ok=all(found.ok for found in confirmed),
        sensitivities=sensitivity_table(tree, n_sizes),
        enumerations=confirmed,
        published_chain_output=[
            ChainOutput(
                claimed=str(leak.claimed),
                epsilon=float(fixed(Fraction(leak.epsilon), 6, up=False)),
                bound=str(leak.bound),
                output=list(leak.output),
                data=(list(leak.first), list(leak.second)),
                smallest_probability=leak.floor,
            )
            for leak in chain_leaks()
        ],
    )


@lru_cache(maxsize=1)  # seconds of enumeration, the same every time
def chain_leaks() -> tuple[OutputLeak, ...]:
    """Return the exact output-level epsilon of the published chain at claims 1/2, 1 and 2."""
    return tuple(published_chain_epsilon(claimed) for claimed in CLAIMS)
