"""Nested lower bounds of an extension against enumeration: who is refused, how few are reserved, what is solved."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import repeats
from tests.helpers.failing import fails_with
from tests.helpers.implied_brute import Vector, compositions
from tests.helpers.tiny_extension import SCHEMA, World, draw_world
from topdown.arrays import Ints
from topdown.errors import ConfigError, InfeasibleError
from topdown.model import AtLeast, Invariants, laminar_family
from topdown.plan import PublicContext
from topdown.progress import silent
from topdown.solve import solve_document, solve_tree
from topdown.solve.extend import (
    Patterns,
    assign_reserves,
    find_patterns,
    make_extension_solver,
    own_demands,
)

SEEDS = st.integers(0, 2**31)


def refused_leaves(world: World) -> set[int]:
    """Return the leaves named with I020, each taken out before the next is looked for."""
    found: set[int] = set()
    while True:
        try:
            find_patterns(world.context())
        except InfeasibleError as error:
            assert error.code == "I020"  # noqa: PT017 - no other refusal is possible here
            leaf = world.geography.leaves.codes.index(error.node)
            assert leaf not in found
            found.add(leaf)
            world = world.without(leaf)
        else:
            return found


def extensions(coarse: Vector, of_cell: Vector, allowed: tuple[bool, ...]) -> Iterator[Vector]:
    """Write out every table of cells that adds up to one of coarse cells and is zero where it must be."""
    places = [[i for i, c in enumerate(of_cell) if c == cell and allowed[i]] for cell, _ in enumerate(coarse)]
    if any(count and not place for count, place in zip(coarse, places, strict=True)):
        return
    parts = [list(compositions(n, max(len(p), 1))) for p, n in zip(places, coarse, strict=True)]
    for chosen in itertools.product(*parts):
        out = [0] * len(of_cell)
        for place, part in zip(places, chosen, strict=True):
            for cell, count in zip(place, part, strict=bool(place)):
                out[cell] = count
        yield tuple(out)


@pytest.mark.deep
@given(SEEDS, st.sampled_from([0.5, 0.7, 0.9]))
@settings(max_examples=repeats(20, 160), deadline=None)
def test_exactly_the_leaves_without_an_extension_are_refused(seed: int, scarce: float) -> None:
    """A condition too strict would refuse a good base release; one too lax would fail after the noise is paid."""
    world = draw_world(seed, scarce=scarce)
    of_cell = tuple(world.context().support.of_cell.tolist())
    hopeless = {
        leaf
        for leaf, counts in enumerate(world.base.tolist())
        if not any(
            world.meets_bounds(leaf, table)
            for table in extensions(tuple(counts), of_cell, world.allowed(leaf))
        )
    }
    assert hopeless == refused_leaves(world)


def reserved_at(patterns: Patterns, leaf: int) -> dict[tuple[int, int], int]:
    """Return people reserved at a leaf by (base cell, class)."""
    table = patterns.reserves[-1]
    here = table.node == leaf
    key, kind = np.divmod(table.cell[here], patterns.n_classes)
    cells = key // patterns.n_patterns
    return {(int(c), int(k)): int(n) for c, k, n in zip(cells, kind, table.count[here], strict=True)}


@pytest.mark.deep
@given(SEEDS)
@settings(max_examples=repeats(8, 60), deadline=None)
def test_reserves_are_enough_and_as_few_as_can_be(seed: int) -> None:
    """Whatever the noise, reserves must guarantee the bounds; one more than needed bends the estimate for nothing."""
    world = draw_world(seed, n_leaves=3)
    for leaf in refused_leaves(world):
        world = world.without(leaf)
    context = world.context()
    patterns = find_patterns(context)
    of_cell, class_of = context.support.of_cell, patterns.class_of_cell
    for leaf, counts in enumerate(world.base.tolist()):
        allowed = np.array(world.allowed(leaf))
        every = list(extensions(tuple(counts), tuple(of_cell.tolist()), tuple(allowed.tolist())))
        slots = sorted(
            {(int(of_cell[i]), int(class_of[i])) for i in np.flatnonzero(allowed) if counts[of_cell[i]]}
        )
        matrix = np.array(
            [[(of_cell[i], class_of[i]) == slot for i in range(len(of_cell))] for slot in slots]
        )
        inside = np.array(every) @ matrix.reshape(len(slots), len(of_cell)).T  # people of every table by slot
        good = np.array([world.meets_bounds(leaf, table) for table in every])

        def enough(floor: tuple[int, ...], inside: Ints = inside, good: Ints = good) -> bool:
            return bool(good[(inside >= np.array(floor)).all(axis=1)].all())

        found = reserved_at(patterns, leaf)
        floor = tuple(found.get(slot, 0) for slot in slots)
        assert sum(floor) == sum(found.values())
        assert enough(floor)
        total = [
            sum(n for n, (c, _) in zip(floor, slots, strict=True) if c == cell) for cell in range(len(counts))
        ]
        assert all(t <= n for t, n in zip(total, counts, strict=True))
        fewer = itertools.chain.from_iterable(compositions(n, len(slots)) for n in range(sum(floor)) if slots)
        for less in fewer:
            possible = (inside >= np.array(less)).all(axis=1).any()
            assert not (possible and enough(less))


@dataclass
class NoisyAnswers:
    """Answers of random tables that know nothing of the constraints; the solver must keep them all the same."""

    context: PublicContext
    seed: int

    def node(self, depth: int, node: int) -> list[tuple[Ints, Ints]]:
        """Return (answers listed, noisy values) of every query."""
        rng = np.random.default_rng([self.seed, depth, node])
        support, level = self.context.support, self.context.plan.levels[depth]
        return [
            (listed, rng.integers(-4, 6, len(listed)).astype(np.int32))
            for listed in support.listed(self.context.queries(level.name), depth, node)
        ]


@pytest.mark.deep
@given(SEEDS, st.sampled_from([0.6, 0.8]))
@settings(max_examples=repeats(6, 60), deadline=None)
def test_the_solved_table_meets_everything(seed: int, scarce: float) -> None:
    """Base table, zeros and nested bounds must hold at every leaf whatever the answers say, proved level by level."""
    world = draw_world(seed, n_leaves=5, most=4, scarce=scarce)
    for leaf in refused_leaves(world):
        world = world.without(leaf)
    if not world.base.any():
        return
    context = world.context()
    extension = make_extension_solver(context, NoisyAnswers(context, seed), find_patterns(context))
    leaves, tally = solve_tree(extension, context, 1, silent)
    table = leaves.whole().dense(0, len(context.geography.leaves))
    again = np.zeros_like(world.base)
    np.add.at(again.T, context.support.of_cell, table.T)
    np.testing.assert_array_equal(world.base, again)
    for leaf, row in enumerate(table):
        assert not row[~np.array(world.allowed(leaf))].any()
        assert world.meets_bounds(leaf, tuple(row.tolist()))
    assert all(v.n_roundings == v.n_roundings_optimal for v in solve_document(extension, tally).levels)


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_assignment_is_the_cheapest_of_all(seed: int) -> None:
    """All ways to meet the demands are tried: one must be found where there is one, and none may reserve fewer."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    supply, demand = rng.integers(0, 3, n), rng.integers(0, 3, m)
    reach = rng.random((n, m)) < 0.6
    free = reach & (rng.random((n, m)) < 0.4)
    each = [list(compositions(int(s), m + 1)) for s in supply]
    best = None
    for rows in itertools.product(*each):
        flow = np.array(rows)[:, :m]
        if not flow[~reach].any() and (flow.sum(axis=0) == demand).all():
            cost = int(flow[~free].sum())
            best = cost if best is None else min(best, cost)
    found = assign_reserves(supply, reach, demand, free)
    assert (found is None) == (best is None)
    if found is not None:
        assert not found[~reach].any()
        np.testing.assert_array_equal(demand, found.sum(axis=0))
        assert (found.sum(axis=1) <= supply).all()
        assert int(found[~free].sum()) == best


def test_equal_and_nested_bounds_are_ordered() -> None:
    """A bound counted as inside another one that it holds would ask for the same people twice."""
    member = np.array([[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=bool)
    order = laminar_family(member.T, ("a", "b", "c", "d"))
    assert order.outer.tolist() == [1, 2, -1, -1]
    assert order.innermost.tolist() == [0, 1, -1, 3]
    assert own_demands(order, np.array([[2, 1, 5, 3], [-1, 4, 2, 0]])).tolist() == [
        [2, 0, 3, 3],
        [0, 4, 0, 0],
    ]


def test_crossing_bounds_are_refused() -> None:
    """Men of all kinds and all of one kind share some cells: their people may not split over the leaves."""
    world = draw_world(1)
    crossing = (
        AtLeast("men", (("sex", ("m",)),), "all"),
        AtLeast("k1", (("kind", ("k1",)),), "k1"),
    )
    crossed = World(
        world.geography, Invariants("tiny", "tiny", "tiny", at_least=crossing), world.facts, world.base
    )
    with fails_with("C073", ConfigError):
        find_patterns(crossed.context())
    assert SCHEMA.n_cells == 16
