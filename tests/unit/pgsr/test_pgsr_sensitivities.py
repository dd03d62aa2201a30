"""Sensitivities against brute force: every vector, step, smallest size and direction, and people who join and leave."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from pgsr import Budget, Sizes, tree_of
from pgsr.level_noise import calibrate
from pgsr.neighbours import PERSON_STEPS, RELATIONS
from pgsr.sensitivity_audit import enumerate_sensitivity, naive_vector
from pgsr.vectors import KINDS, Sensitivity, sensitivity

TREES = (([-1], [0, 0]), ([-1], [0, 0], [0, 0, 1]), ([-1], [0], [0, 0]))
MANY = [
    ("household",),
    ("household", "appears"),
    *(subset for n in (1, 2, 3) for subset in combinations(PERSON_STEPS, n)),
]
SHARES = {2: ("1/5", "4/5"), 3: ("1/7", "2/7", "4/7")}


def test_a_unit_that_enters_alone_where_size_0_is_counted():
    """It stands in d_0 and in d_1 of every level: 4 in two levels, in L1 and in squared L2, not 2."""
    found = sensitivity("tail", "new", tree_of([[-1], [0, 0]]), 4, smallest=0)
    assert found == Sensitivity((2, 2), 4, 4)


@pytest.mark.parametrize("smallest", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_the_worst_neighbour(kind, smallest):
    """Noise of unequal levels must be paid for the worst single neighbour: no more, no less, no entry moved by two."""
    for levels, n_sizes in product(TREES, (1, 2, 3)):
        tree = tree_of(levels)
        seen = {r: enumerate_sensitivity(kind, r, tree, n_sizes, 2, smallest) for r in RELATIONS}
        assert all(found.largest_entry <= 1 for found in seen.values())
        for relations, noise in product(MANY, ("epsilon", "rho")):
            plan = calibrate(
                kind,
                tree,
                Sizes(n_sizes, smallest),
                Budget(**{noise: "3/2"}, shares=SHARES[len(levels)]),
                relations,
            )
            half = 2 if noise == "rho" else 1
            worst = max(
                (
                    sum(Fraction(n) / (half * p) for n, p in zip(pattern, plan.parameters, strict=True))
                    for relation in relations
                    for pattern in seen[relation].patterns
                ),
                default=Fraction(0),
            )
            assert worst == plan.loss, (levels, n_sizes, relations)


def table(units, smallest, n_sizes):
    """Count units, given as (leaf, people that count), top-coded; None if one is too small to be counted."""
    leaves = np.zeros((n_sizes, 2), dtype=np.int64)
    for leaf, size in units:
        if size < smallest:
            return None
        leaves[min(size - smallest, n_sizes - 1), leaf] += 1
    return leaves


def people_steps(units):
    """Yield what units become when one person joins: a unit grows, or a new one appears with 0 or 1 counted in it."""
    for i, (leaf, size) in enumerate(units):
        yield (*units[:i], (leaf, size + 1), *units[i + 1 :])
    for leaf, size in product((0, 1), (0, 1)):
        yield (*units, (leaf, size))


@pytest.mark.parametrize(("smallest", "n_sizes"), [(0, 3), (1, 3), (0, 1), (1, 2)])
def test_one_person_is_a_move_or_a_new_group(smallest, n_sizes):
    """A person who joins or leaves must be one of the named steps, whose noise then covers it: `move` if G stays."""
    tree = tree_of([[-1], [0, 0]])
    kinds = ("histogram", "cumulative", "tail", "chain", "tail_chain", "region_major")
    limit = {(k, r): sensitivity(k, r, tree, n_sizes, smallest) for k in kinds for r in ("move", "new")}
    n_pairs = 0
    units_of = product((0, 1), range(4))
    for units in combinations_with_replacement(tuple(units_of), 2):
        here = table(units, smallest, n_sizes)
        for joined in people_steps(units):
            other = table(joined, smallest, n_sizes)
            if here is None or other is None:
                continue
            n_pairs += 1
            step = "move" if here.sum() == other.sum() else "new"
            for kind in kinds:
                a, b = naive_vector(kind, tree, here), naive_vector(kind, tree, other)
                gaps = [
                    sum(abs(x - y) for x, y in zip(*level, strict=True)) for level in zip(a, b, strict=True)
                ]
                assert all(g <= s for g, s in zip(gaps, limit[kind, step].l1_by_level, strict=True))
    assert n_pairs > 50
