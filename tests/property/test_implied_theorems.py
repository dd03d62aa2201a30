"""Lemma 1, Theorem 3 and the flows of section 7.3 against every small table: complete means complete."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.implied_brute import (
    compositions,
    group_limits,
    leaf_tables,
    margin_tables,
    random_groups,
    sums,
)
from topdown.errors import InfeasibleError
from topdown.solve import limit_excess
from topdown.solve.implied import (
    GroupLeaf,
    Groups,
    LeafMargins,
    MarginTable,
    assign_to_groups,
    flat_table,
    implied_by_groups,
    implied_by_margins,
    split_group_totals,
    split_margin_table,
    violated_subset,
)


def keeps(limits: np.ndarray, x: tuple[int, ...]) -> bool:
    """Tell whether group totals keep the solver's limits and add up."""
    held = np.array(x, dtype=np.int64)[:, None]
    return bool(held.sum() == limits[-1] and limit_excess(limits[None], held)[0] <= 0)


def random_margins(rng: np.random.Generator, most: int) -> LeafMargins:
    """Take the margins of a random table, so that they add up."""
    h = rng.multinomial(int(rng.integers(0, most + 1)), rng.dirichlet([0.7] * 4)).tolist()
    return LeafMargins((h[0] + h[1], h[2] + h[3]), (h[0] + h[2], h[1] + h[3]))


@pytest.mark.deep
def test_lemma_1_accepts_exactly_the_sums_of_leaf_tables() -> None:
    """A bound too loose lets a parent through that no leaf tables add up to; too tight refuses a true one."""
    rng = np.random.default_rng(1)
    accepted = refused = 0
    for _ in range(600 * DEPTH):
        leaves = [random_margins(rng, 6) for _ in range(rng.integers(1, 4))]
        system, possible = implied_by_margins(leaves), sums(margin_tables(leaf) for leaf in leaves)
        for h11 in range(-1, 10):
            base = LeafMargins(
                (sum(leaf.rows[0] for leaf in leaves), sum(leaf.rows[1] for leaf in leaves)),
                (sum(leaf.columns[0] for leaf in leaves), sum(leaf.columns[1] for leaf in leaves)),
            ).table(h11)
            fits = flat_table(base) in possible
            assert fits == (system.broken(flat_table(base)) is None)
            accepted, refused = accepted + fits, refused + (not fits)
        table = tuple(rng.integers(0, 5, size=4).tolist())
        assert (table in possible) == (system.broken(table) is None)
    assert min(accepted, refused) > 300 * DEPTH


@pytest.mark.deep
def test_lemma_1_extends() -> None:
    """The promise is constructive: leaf tables with the given margins that add up to the parent."""
    rng = np.random.default_rng(2)
    for _ in range(600 * DEPTH):
        leaves = [random_margins(rng, 12) for _ in range(rng.integers(1, 6))]
        least, most = sum(leaf.least for leaf in leaves), sum(leaf.most for leaf in leaves)
        h11 = int(rng.integers(least, most + 1))
        table = LeafMargins(
            (sum(leaf.rows[0] for leaf in leaves), sum(leaf.rows[1] for leaf in leaves)),
            (sum(leaf.columns[0] for leaf in leaves), sum(leaf.columns[1] for leaf in leaves)),
        ).table(h11)
        parts = split_margin_table(leaves, table)
        for part, leaf in zip(parts, leaves, strict=True):
            assert leaf.rows == (sum(part[0]), sum(part[1]))
            assert leaf.columns == (part[0][0] + part[1][0], part[0][1] + part[1][1])
            assert min(flat_table(part)) >= 0
        assert flat_table(table) == tuple(map(sum, zip(*map(flat_table, parts), strict=True)))
        with pytest.raises(InfeasibleError, match="h11 <="):
            split_margin_table(leaves, leaves and _shifted(table, most + 1 - h11))


def _shifted(table: MarginTable, by: int) -> MarginTable:
    (a, b), (c, d) = table
    return (a + by, b - by), (c - by, d + by)


@pytest.mark.deep
def test_theorem_3_accepts_exactly_the_sums_of_leaf_tables() -> None:
    """Subsets, the written constraints, the solver's limits and the flow must all say what enumeration says."""
    rng = np.random.default_rng(3)
    accepted = refused = 0
    for case in range(600 * DEPTH):
        k = int(rng.integers(1, 5))
        groups = random_groups(rng, k, int(rng.integers(1, 4)), 3)
        possible = sums(leaf_tables(leaf) for leaf in groups.leaves)
        table = group_limits(groups)
        system = implied_by_groups(groups) if case % 8 == 0 else None
        total = groups.combinations.total
        candidates = list(compositions(total, k))
        for i in rng.permutation(len(candidates))[:40]:
            x = candidates[i]
            fits = x in possible
            assert fits == (violated_subset(groups, x) is None)
            assert fits == keeps(table, x)
            found = assign_to_groups(groups.combinations, x)
            assert fits == (found.flows is not None)
            if system is not None:
                assert fits == (system.broken(x) is None)
            if not fits:  # the set the flow names really holds too many
                inside = sum(n for j, n in enumerate(x) if found.violated >> j & 1)
                assert inside > groups.combinations.most(found.violated)
            accepted, refused = accepted + fits, refused + (not fits)
        off = (candidates[0][0] + 1, *candidates[0][1:])
        assert violated_subset(groups, off) is not None
        assert assign_to_groups(groups.combinations, off).flows is None
        assert not keeps(table, off)
    assert min(accepted, refused) > 600 * DEPTH


@st.composite
def small_groups(draw: st.DrawFn) -> Groups:
    """Draw up to three leaves over up to four groups."""
    k = draw(st.integers(1, 4))
    leaves = []
    for _ in range(draw(st.integers(1, 3))):
        is_open = tuple(draw(st.lists(st.booleans(), min_size=k, max_size=k)))
        lower = tuple(draw(st.lists(st.integers(0, 2), min_size=k, max_size=k)))
        rest = draw(st.integers(0, 3)) if any(is_open) else 0
        leaves.append(GroupLeaf(sum(lower) + rest, lower, is_open))
    return Groups(tuple("abcd"[:k]), tuple(leaves))


@given(small_groups(), st.data())
@settings(max_examples=100 * DEPTH, deadline=None)
def test_theorem_3_on_searched_cases(groups: Groups, data: st.DataObject) -> None:
    """Corners that random draws miss: no open group, equal bounds, empty leaves."""
    total = groups.combinations.total
    x = data.draw(st.sampled_from(list(compositions(total, len(groups.names)))[:500]))
    fits = x in sums(leaf_tables(leaf) for leaf in groups.leaves)
    assert fits == (violated_subset(groups, x) is None)
    assert fits == (assign_to_groups(groups.combinations, x).flows is not None)
    if fits:
        tables = split_group_totals(groups, x)
        assert all(t in leaf_tables(leaf) for t, leaf in zip(tables, groups.leaves, strict=True))
        assert x == tuple(map(sum, zip(*tables, strict=True)))


@pytest.mark.deep
def test_theorem_3_extends() -> None:
    """Leaf tables must keep totals, bounds and absences, and add up; with larger numbers than enumeration allows."""
    rng = np.random.default_rng(4)
    for _ in range(600 * DEPTH):
        groups = random_groups(rng, int(rng.integers(1, 7)), int(rng.integers(1, 9)), 10**6)
        truth = []
        for leaf in groups.leaves:
            weights = rng.random(len(leaf.open)) * np.array(leaf.open) * (rng.random(len(leaf.open)) < 0.7)
            weights = weights if weights.sum() else np.array(leaf.open, dtype=float)
            spread = (
                rng.multinomial(leaf.rest, weights / weights.sum())
                if leaf.rest
                else np.zeros_like(leaf.lower)
            )
            truth.append(np.array(leaf.lower) + spread)
        x = tuple(int(v) for v in np.sum(truth, axis=0))
        tables = split_group_totals(groups, x)
        for leaf, table in zip(groups.leaves, tables, strict=True):
            assert leaf.total == sum(table)
            for v, c, is_open in zip(table, leaf.lower, leaf.open, strict=True):
                assert v >= c if is_open else v == c
        assert x == tuple(map(sum, zip(*tables, strict=True)))
        # every vertex of the polytope is whole and extends too
        u, prefix, vertex = group_limits(groups), 0, [0] * len(x)
        for j in rng.permutation(len(x)):
            vertex[j] = int(u[prefix | 1 << j] - u[prefix])
            prefix |= 1 << j
        assert tuple(vertex) == tuple(map(sum, zip(*split_group_totals(groups, vertex), strict=True)))


def test_a_refused_split_names_the_groups() -> None:
    """An error that does not say which groups are too many cannot be acted on."""
    groups = Groups(("a", "b"), (GroupLeaf(3, (0, 0), (True, False)),))
    with pytest.raises(InfeasibleError, match="groups b hold 1 people together; the leaves give room for 0"):
        split_group_totals(groups, (2, 1))
    with pytest.raises(InfeasibleError, match="cannot have the group bounds"):
        GroupLeaf(3, (2, 2), (True, True))
