"""Costs of flow networks: never more nodes than planned for, and what is done where 64 bits do not hold them."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import policies, solved
from tests.helpers.depth import repeats
from tests.oracles import networkx_flow
from tests.oracles import solver_twins as reference
from tests.property.test_solve_rounding import make_problem
from topdown.plan import MOST_FLOW_COST, MOST_ROUNDING_WEIGHT, most_flow_nodes
from topdown.solve import LARGEST_COST, Network, Tally, make_top_down_solver, minimum_cost_flow
from topdown.solve.rounding import UNIT, build_network, round_table, whole_parts


@pytest.mark.parametrize(
    "policy", ["blocks", "blocks, caps, nested", "county dwellings, nested", "land ages"]
)
@given(seed=st.integers(0, 1_000_000))
@settings(max_examples=repeats(1, 20), deadline=None)
def test_no_network_has_more_nodes_than_planned_for(policy: str, seed: int) -> None:
    """A plan is refused by this bound, before anything is spent; a larger network would have no proof after it."""
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, policies.POLICIES[policy])
        answers = solved.noisy(census, seed + 1, size=3.0)
        tables = policies.exact_tables(census)
        descent = make_top_down_solver(census.context, answers, policies.exact_values(census), tables=tables)
        split, index = descent.open_root()
        problems = [(0, descent.solve_split(0, split, index, Tally())[0])]
        parents = [descent.root(Tally())]
        for depth in range(2):
            for parent in parents:
                if len(descent.facts.open_children(depth, parent.index)) > 1:
                    split, index = descent.open_split(depth, parent)
                    problems.append((depth + 1, descent.solve_split(depth + 1, split, index, Tally())[0]))
            parents = [child for parent in parents for child in descent.children(depth, parent, Tally())]
    plan, geography = census.context.plan, census.context.geography
    for depth, problem in problems:
        if problem.is_flow:
            network = build_network(problem, *whole_parts(problem), every_cell=True).network
            weight = max(step.weight for step in plan.levels[depth].rounding)
            assert len(network.supplies) + 1 <= most_flow_nodes(plan, geography, depth)
            assert np.abs(network.costs).max(initial=0) <= UNIT * weight
    assert MOST_FLOW_COST * UNIT <= LARGEST_COST


@given(st.integers(0, 1_000_000))
@settings(max_examples=60, deadline=None)
def test_the_largest_weights_round_as_small_ones_do(seed: int) -> None:
    """Weights that a plan may give must neither fail after the charge nor cost the optimum."""
    problem = make_problem(seed)
    heavy = replace(problem, weights=tuple(w * (MOST_ROUNDING_WEIGHT // 50) for w in problem.weights))
    result = round_table(heavy)
    assert result.optimal
    best, _ = reference.best_rounding(problem)
    assert reference.rounding_cost(problem, result.counts) == pytest.approx(best, abs=1e-4)


def test_costs_beyond_exact_sums_round_without_a_proof() -> None:
    """A rounding that nobody can prove must be said to be unproved, and must not end the release after its charge."""
    problem = make_problem(7)
    huge = replace(problem, weights=tuple(w * 2**34 for w in problem.weights))
    result = round_table(huge)
    assert not result.optimal
    assert reference.rounding_cost(problem, result.counts) < np.inf


def long_path(n: int, cost: int) -> Network:
    """Return a path of cheap arcs beside dear ones from its first node: its prices add up over all nodes."""
    here = np.arange(n - 1)
    ends = np.concatenate([here, np.zeros(n - 1, dtype=np.int64)]), np.concatenate([here + 1, here + 1])
    costs = np.concatenate([np.full(n - 1, -cost), np.full(n - 1, cost)])
    supplies = np.zeros(n, dtype=np.int64)
    supplies[[0, -1]] = 12, -12
    return Network(*ends, np.full(2 * (n - 1), 10), costs, supplies)


@pytest.mark.parametrize("cost", [1_000, 2**40, 2**50])
def test_prices_that_leave_64_bits_are_no_contradiction(cost: int) -> None:
    """The library gives up at large costs; taken for "no flow exists", that would blame public facts for a failure."""
    network = long_path(1_000, cost)
    flows = minimum_cost_flow(network)
    assert flows is not None
    np.testing.assert_array_equal(networkx_flow.minimum_cost_flow(network), flows)
