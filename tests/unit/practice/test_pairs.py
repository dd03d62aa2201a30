"""Pairs of made-up neighbours: they are what the statements speak of, and they reach everything that is measured."""

import numpy as np
import pytest

from tests.helpers import audited, policies, solved
from tests.helpers.depth import repeats
from tests.helpers.small_release import make_context
from tests.helpers.tiny_extension import draw_world
from topdown.measure import LeafCounts, check_against_public, exact_values, level_drawer
from topdown.model import Histogram
from topdown.plan import PublicContext
from topdown.practice import NeighbourPair, PairRuns, find_pairs, queries_of
from topdown.privacy import AesBits


def both_censuses(census: solved.Census, pair: NeighbourPair) -> tuple[Histogram, Histogram]:
    """Put the people of a pair into their leaves of a census that meets every rule."""
    leaves, out = {leaf for leaf, _ in (pair.gone, pair.come or pair.gone)}, []
    truth = census.truth[-1]
    for people in (pair.people, pair.after):
        dense = truth.dense(0, truth.n_nodes)
        dense[list(leaves)] = 0
        for leaf, cell, count in people:
            dense[leaf, cell] = count
        node, cell = np.nonzero(dense)
        out.append(Histogram.build(len(dense), dense.shape[1], node, cell, dense[node, cell]))
    return out[0], out[1]


def moved(context: PublicContext, one: Histogram, other: Histogram) -> list[list[int]]:
    """Count what differs in every measurement."""
    levels = [leaves.at_every_level(context.geography) for leaves in (one, other)]
    return [
        [
            int(np.abs(a.answers(context.plan.query(m.query)) - b.answers(context.plan.query(m.query))).sum())
            for m in level.measurements
        ]
        for level, a, b in zip(context.plan.levels, *levels, strict=True)
    ]


@pytest.mark.parametrize("name", policies.POLICIES)
def test_pairs_are_neighbours_that_agree(name, tmp_path):
    """A pair that differs in exact statistics or breaks a public fact would refute a claim that was never made."""
    census = policies.make_census(tmp_path, 3, policies.POLICIES[name])
    context = census.context
    pairs, _ = find_pairs(context, at_least=repeats(8, 20))
    open_kinds = {(c.kind, c.of) for c in context.policy.changes if c.status != "disclosed"}
    assert open_kinds >= {(p.kind, p.of) for p in pairs}
    assert pairs
    for pair in pairs:
        one, other = both_censuses(census, pair)
        for leaves in (one, other):
            check_against_public(LeafCounts.pack(leaves), context)
        exact = [
            exact_values(context, leaves.at_every_level(context.geography).__getitem__)
            for leaves in (one, other)
        ]
        for key, value in exact[0].items():
            np.testing.assert_array_equal(value, exact[1][key])
        assert moved(context, one, other) == [list(row) for row in pair.moved]
        assert int(np.abs(one.dense(0, one.n_nodes) - other.dense(0, one.n_nodes)).sum()) == 2


def test_every_query_of_every_level_is_reached(tmp_path):
    """A query that no pair stresses could be drawn without noise and pass."""
    context = audited.make_land(tmp_path)
    pairs, missing = find_pairs(context)
    assert (missing, len(pairs) >= 50, len({(p.gone, p.come) for p in pairs})) == ((), True, len(pairs))
    every = {(d, q) for d in range(4) for q in range(2)}
    for kind, of in {(p.kind, p.of) for p in pairs}:
        reached = {t for p in pairs if (p.kind, p.of) == (kind, of) for t in p.targets if p.moved[t[0]][t[1]]}
        above = context.geography.index(of) if kind == "within_level" else -1
        cannot = {(d, q) for d, q in every if d <= above or (of == "origin" and q == 0)}
        assert reached == every - cannot, (kind, of)


def test_the_same_plan_has_the_same_pairs(tmp_path):
    """A finding that cannot be repeated on the same pairs cannot be looked into."""
    found = [find_pairs(audited.make_land(tmp_path / str(i)))[0] for i in range(2)]
    assert found[0] == found[1]


def test_add_remove_has_pairs_of_presence(tmp_path):
    """The guarantee of add_remove is about one record more or less; replaced records alone would not show it."""
    from tests.helpers.policies import inexact_toy

    context = make_context(tmp_path, invariants=inexact_toy(), neighbours="add_remove")
    pairs, _ = find_pairs(context)
    present = [p for p in pairs if p.kind == "presence"]
    assert present
    assert {n for p in present for row in p.moved for n in row} == {1}
    for pair in present:
        assert sum(n for *_, n in pair.people) - sum(n for *_, n in pair.after) == 1


@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
def test_a_stage_holds_all_that_differs(neighbours, tmp_path):
    """An answer that moves and is not drawn would hide what it gives away."""
    context = audited.make_land(tmp_path, neighbours=neighbours)
    for pair in find_pairs(context)[0]:
        stage = PairRuns(context, queries_of(context), pair)
        first, second = stage.answers.truth
        differ = np.zeros((4, 2), dtype=int)
        for (depth, q), by in zip(stage.answers.target, np.abs(first - second), strict=True):
            differ[depth, q] += by
        assert differ.tolist() == [list(row) for row in pair.moved]


def test_runs_stand_on_the_truth_in_every_number(tmp_path):
    """Numbers in another order than the truth's would make every score blind."""
    context = audited.make_land(tmp_path)
    pair = next(p for p in find_pairs(context)[0] if p.kind == "within_level")
    stage = PairRuns(context, queries_of(context), pair)
    for which in (0, 1):
        runs = np.concatenate(list(stage.runs(which, 8_000)))
        assert runs.shape == (8_000, len(stage.answers.target))
        error = runs.mean(axis=0) - stage.answers.truth[which]
        assert (
            np.abs(error / np.sqrt(stage.answers.parameter / 8_000)).max() < 6.5
        )  # 1 in 10^8 for 60 numbers
        assert np.abs(runs.var(axis=0) / stage.answers.parameter - 1).max() < 0.15


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pairs_of_an_extension_move_what_is_measured(seed):
    """An answer that the base release closes is not drawn: a claim that counts it would be too weak to refute."""
    context = draw_world(seed, n_leaves=4).context()
    pairs, _ = find_pairs(context, at_least=20)
    queries = queries_of(context)
    assert pairs
    for pair in pairs:
        drawn = []
        for people in (pair.people, pair.after):
            leaf, cell, count = np.array(people, dtype=np.int64).reshape(-1, 3).T
            drawn.append([])
            for depth, up in enumerate(context.geography.ancestors_of_leaves):
                n_nodes = len(context.geography.levels[depth])
                people_here = Histogram.build(n_nodes, context.plan.schema.n_cells, up[leaf], cell, count)
                with audited.without_noise():
                    drawer = level_drawer(context, depth, people_here, AesBits())
                    found = drawer.draw(np.flatnonzero(context.inhabited[depth]))
                by_query = np.tile(np.arange(len(queries[depth])), int(context.inhabited[depth].sum()))
                drawn[-1].append((np.repeat(by_query, found.sizes), found.answers))
        differ = [
            [int(np.abs(first - second)[query == q].sum()) for q in range(len(queries[depth]))]
            for depth, ((query, first), (_, second)) in enumerate(zip(*drawn, strict=True))
        ]
        assert differ == [list(row) for row in pair.moved]
        stage = PairRuns(context, queries, pair)
        moved = np.abs(stage.answers.truth[0] - stage.answers.truth[1])
        for depth, row in enumerate(pair.moved):
            for q, n in enumerate(row):
                here = [i for i, target in enumerate(stage.answers.target) if target == (depth, q)]
                assert moved[here].sum() == n
        assert [run.shape for run in stage.runs(1, 3)] == [(3, len(stage.answers.target))]
