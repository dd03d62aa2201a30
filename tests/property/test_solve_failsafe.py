"""The failsafe against enumeration: the closest table, the smallest conflict, totals that never change."""

import tempfile
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import policies, solved
from tests.helpers.depth import repeats
from topdown.model import ConstraintSystem, SplitConstraints, split_constraints
from topdown.model import split_polytopes as polytopes
from topdown.plan import PublicContext
from topdown.solve import (
    Node,
    TopDownSolver,
    can_split,
    find_node_conflict,
    relax_to_feasible,
)
from topdown.solve import table_changes as conflict

MORE = policies.MIXED + policies.OLD_AT_HOME + policies.FULL_BARRACKS
seeds = st.integers(0, 1_000_000)


def polytopes_under(context: PublicContext, kept: set[str]) -> SplitConstraints:
    """Derive the polytopes anew from the named constraints of the leaves only: a slow twin of relaxing them."""
    full = context.plan.invariants
    fewer = replace(
        full,
        at_least=tuple(c for c in full.at_least if c.name in kept),
        at_most=tuple(c for c in full.at_most if c.name in kept),
        none_where_zero=tuple(c for c in full.none_where_zero if c.name in kept),
    )
    rules = ConstraintSystem.from_facts(context.plan.schema, context.geography, fewer, context.facts)
    return split_constraints(rules.partition(), rules, context.geography, {})


def crowded(census: solved.Census, seed: int) -> Node:
    """Return a county's table, some of its people moved to other cells that are open there."""
    rng = np.random.default_rng(seed)
    rules = census.context.rules
    inside = census.truth[1].node == 0
    cells = np.flatnonzero(rules.open[1][0][rules.class_of_cell])
    counts = np.zeros(len(cells), dtype=np.int64)
    counts[np.searchsorted(cells, census.truth[1].cell[inside])] = census.truth[1].count[inside]
    for _ in range(int(rng.integers(0, 12))):
        here, there = rng.integers(0, len(cells), 2)
        moved = int(counts[here] * rng.choice([0.3, 1.0]))
        counts[here] -= moved
        counts[there] += moved
    return Node(0, cells[counts > 0], counts[counts > 0])


@pytest.mark.deep
@given(seeds)
@settings(max_examples=repeats(25, 120), deadline=None)
def test_the_conflict_is_the_smallest(seed: int) -> None:
    """Every set of constraints is tried by brute force; a report that names too many or too few misleads the reader."""
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, MORE, n_blocks=6)
    context = census.context
    rules = context.rules
    whole = split_constraints(rules.partition(), rules, context.geography, {})
    county = crowded(census, seed)
    children = np.arange(*context.geography.child_pointers[1][:2])
    if can_split(whole, 2, children, county):
        return
    found = find_node_conflict(context, whole, 2, county)
    full = context.plan.invariants
    names = [c.name for c in (*full.at_least, *full.at_most, *full.none_where_zero)]
    sets = chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
    smallest = next(s for s in sets if not can_split(polytopes_under(context, set(s)), 2, children, county))
    assert found.smallest
    assert len(found.names) == len(smallest)
    assert not can_split(polytopes_under(context, set(found.names)), 2, children, county)
    for left_out in found.names:
        rest = set(found.names) - {left_out}
        assert can_split(polytopes_under(context, rest), 2, children, county)


def test_beyond_the_limit_the_conflict_is_irreducible_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that was not made must not be claimed."""
    census = policies.make_census(tmp_path, 0, MORE, n_blocks=6)
    rules = census.context.rules
    whole = split_constraints(rules.partition(), rules, census.context.geography, {})
    children = np.arange(*census.context.geography.child_pointers[1][:2])
    tables = (crowded(census, seed) for seed in range(100))
    county = next(t for t in tables if not can_split(whole, 2, children, t))
    monkeypatch.setattr(conflict, "MAX_TRIES", 0)
    found = find_node_conflict(census.context, whole, 2, county)
    assert not found.smallest
    for left_out in found.names:
        rest = set(found.names) - {left_out}
        assert can_split(polytopes_under(census.context, rest), 2, children, county)


@pytest.mark.deep
@given(seeds)
@settings(max_examples=repeats(20, 80), deadline=None)
def test_the_mended_table_splits_and_no_closer_one_does(seed: int) -> None:
    """The report says by how many records a table had to change; two records fewer must not have been enough."""
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, policies.MIXED, n_blocks=4)
    context = census.context
    whole = split_constraints(context.rules.partition(), context.rules, context.geography, {})
    county = crowded(census, seed)
    children = np.arange(*context.geography.child_pointers[1][:2])
    mended = relax_to_feasible(context, whole, 2, children, county)
    assert mended is not None
    assert can_split(whole, 2, children, mended.table)
    assert mended.table.counts.sum() == county.counts.sum()
    before, after = (dict(zip(node.cells, node.counts, strict=True)) for node in (county, mended.table))
    assert mended.distance == sum(abs(after.get(c, 0) - before.get(c, 0)) for c in before | after)
    assert (mended.distance == 0) == can_split(whole, 2, children, county)
    if mended.distance == 4 and not mended.marginals_kept:  # one record elsewhere must not be enough
        open_cells = np.flatnonzero(context.rules.open[1][0][context.rules.class_of_cell])
        for here in before:
            for there in open_cells:
                moved = dict(before)
                moved[here] -= 1
                moved[there] = moved.get(there, 0) + 1
                table = sorted((c, n) for c, n in moved.items() if n)
                one = np.array(table, dtype=np.int64).T
                assert not can_split(whole, 2, children, Node(0, one[0], one[1]))


@pytest.mark.deep
@given(seeds)
@settings(max_examples=repeats(10, 50), deadline=None)
def test_populations_never_change(seed: int) -> None:
    """Whoever reads a county's population reads what was solved for it, failsafe or not."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        census = policies.make_census(Path(folder), seed, policies.MIXED, n_blocks=20)
        patch.setattr(polytopes, "MAX_KINDS", 0)
        seen: dict[tuple[int, int], int] = {}
        original = TopDownSolver.children

        def children(self, depth, parent, tally):  # type: ignore[no-untyped-def]
            seen[depth, parent.index] = int(parent.counts.sum())
            return original(self, depth, parent, tally)

        patch.setattr(TopDownSolver, "children", children)
        patch.setattr(
            "topdown.solve.solve_stage.choose_cut", lambda *_: (1, 10**9)
        )  # one run: nodes keep their numbers
        result = policies.solve(census, solved.noisy(census, seed, size=6.0))
    for depth, table in enumerate(result.leaves.whole().at_every_level(census.context.geography)[:-1]):
        totals = {(depth, i): n for i, n in enumerate(table.totals().tolist()) if n}
        assert totals == {key: n for key, n in seen.items() if key[0] == depth}
