"""Minimum-cost flows and larger roundings against networkx and the integer program; costs where 64 bits end."""

import tempfile
from dataclasses import replace
from importlib import import_module
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
from topdown.resources import load_source
from topdown.solve import (
    LARGEST_COST,
    FixedTable,
    LowerBounds,
    Network,
    Tally,
    is_feasible,
    is_optimal,
    make_top_down_solver,
    minimum_cost_flow,
)
from topdown.solve.rounding import (
    UNIT,
    RoundingProblem,
    build_network,
    round_by_milp,
    round_table,
    whole_parts,
)


def draw_network(seed: int) -> Network:
    """Draw a network with parallel arcs, arcs without room, negative cycles, and supplies that a flow mostly meets."""
    rng = np.random.default_rng(seed)
    n, n_arcs = int(rng.integers(2, 9)), int(rng.integers(1, 30))
    tails = rng.integers(0, n, n_arcs)
    heads = (tails + rng.integers(1, n, n_arcs)) % n
    room = rng.integers(0, 6, n_arcs)
    some = rng.integers(0, room + 1) if rng.random() < 0.8 else rng.integers(0, 9, n_arcs)
    supplies = np.bincount(tails, some, n) - np.bincount(heads, some, n)
    return Network(tails, heads, room, rng.integers(-4, 5, n_arcs), supplies.astype(np.int64))


@given(st.integers(0, 1_000_000))
@settings(max_examples=repeats(300, 3_000), deadline=None)
def test_flows_cost_what_the_twin_finds(seed: int) -> None:
    """A dearer flow would round further from the estimate than it says; one missed would blame public facts."""
    network = draw_network(seed)
    found, slow = minimum_cost_flow(network), networkx_flow.minimum_cost_flow(network)
    assert (found is None) == (slow is None)
    if found is not None and slow is not None:
        assert is_feasible(network, found)
        assert is_optimal(network, found)
        assert int(found @ network.costs) == int(slow @ network.costs)


def test_supplies_that_do_not_add_up_have_no_flow() -> None:
    """The simplex takes sums for granted: a unit that nobody wants would silently stay at the root."""
    one = np.array([0]), np.array([1]), np.array([5]), np.array([1])
    assert minimum_cost_flow(Network(*one, np.array([2, -1]))) is None
    assert minimum_cost_flow(Network(*one, np.array([2, -2]))) == np.array([2])
    nothing = minimum_cost_flow(Network(*(a[:0] for a in one), np.zeros(2, dtype=np.int64)))
    assert nothing is not None
    assert not len(nothing)


@given(st.integers(0, 1_000_000))
@settings(max_examples=repeats(100, 1_000), deadline=None)
def test_the_checks_of_a_flow_catch_one_that_is_wrong(seed: int) -> None:
    """They are what a certificate rests on: a unit lost, an arc too full, or a dearer way must fail them."""
    network = draw_network(seed)
    flows = minimum_cost_flow(network)
    if flows is None:
        return
    arc = int(np.random.default_rng(seed).integers(len(flows)))
    assert not is_feasible(network, flows + (np.arange(len(flows)) == arc))
    assert not is_feasible(replace(network, capacities=flows - (np.arange(len(flows)) == arc)), flows)
    dearest = minimum_cost_flow(replace(network, costs=-network.costs))
    assert dearest is not None
    assert is_optimal(network, dearest) == (int(dearest @ network.costs) == int(flows @ network.costs))


def nested_problem(seed: int, n: int, m: int) -> RoundingProblem:
    """Draw an estimate with four nested tables, and in half of all draws exact totals or a bound on some rows."""
    rng = np.random.default_rng(seed)
    whole = rng.poisson(0.7, (n, m))
    mixed = whole + rng.dirichlet(np.full(m, 0.3), n) * rng.integers(1, 4, (n, 1))
    sums = np.rint(mixed.sum(axis=1)).astype(np.int64)
    estimate = mixed * (sums / mixed.sum(axis=1))[:, None]
    cells = np.arange(n)
    chain = np.stack([cells * 0, cells // 12, cells // 4, cells])
    best = round_by_milp(plain_problem(estimate, sums, chain))
    assert best is not None
    problem = plain_problem(estimate, sums, chain)
    if rng.random() < 0.5:
        problem = replace(problem, totals=FixedTable.total(n, best.counts.sum(axis=0)))
    if rng.random() < 0.5:
        inside = np.where(cells // 12 == 1, 0, -1)
        lower = best.counts[inside == 0].sum(axis=0)[None, :]
        problem = replace(problem, bounds=LowerBounds(inside, lower), bound_places=((1, 1),))
    return problem


def plain_problem(estimate: np.ndarray, sums: np.ndarray, chain: np.ndarray) -> RoundingProblem:
    """Return the rounding of an estimate where nothing but sums is asked for."""
    n, m = estimate.shape
    none, soft = FixedTable.none(n, m), np.zeros((0, n), dtype=np.int64)
    return RoundingProblem(
        estimate, np.ones((n, m), dtype=bool), sums, chain, (100, 3, 2, 1), none, none, None,
        LowerBounds.none(n, m), (), (), soft, np.zeros((0, m), dtype=np.int64),
    )  # fmt: skip


@given(st.integers(0, 1_000_000))
@settings(max_examples=repeats(25, 300), deadline=None)
def test_flow_roundings_cost_what_the_integer_program_finds(seed: int) -> None:
    """The program knows nothing of networks: a penalty, a bound or a total in a wrong place would cost more or less."""
    problem = nested_problem(seed, 26, 5)
    by_flow, by_program = round_table(problem), round_by_milp(problem)
    assert by_flow.route == "flow"
    assert by_flow.optimal
    assert by_program is not None
    assert reference.rounding_cost(problem, by_flow.counts) == pytest.approx(
        reference.rounding_cost(problem, by_program.counts), abs=1e-4
    )


@pytest.mark.parametrize("seed", range(6))
def test_compiled_kernels_do_what_their_source_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines with and without a compiler must publish the same table, also where roundings tie."""
    problems = [make_problem(seed, n=6, m=3), nested_problem(seed, 26, 4)]
    compiled = [round_table(problem).counts for problem in problems]
    for name, users in (
        ("topdown.solve.kernels_simplex", [minimum_cost_flow.__module__]),
        ("topdown.solve.rounding.kernels_network", [build_network.__module__]),
    ):
        file = Path(str(import_module(name).__file__))
        source = load_source(name, file.with_name(f"{name.rpartition('.')[2]}.py"))
        for user in users:
            for function in ("network_simplex", "is_feasible_flow", "laminar_network"):
                if hasattr(source, function):
                    monkeypatch.setattr(f"{user}.{function}", getattr(source, function))
    for problem, counts in zip(problems, compiled, strict=True):
        np.testing.assert_array_equal(counts, round_table(problem).counts)


def test_equal_fractions_do_not_prefer_the_first_children() -> None:
    """Where many roundings cost the same, taking the first would give the areas with low geocodes more people."""
    n, m = 400, 4
    estimate = np.full((n, m), 0.25)
    chain = np.stack([np.zeros(n, dtype=np.int64), np.arange(n)])
    problem = replace(plain_problem(estimate, np.ones(n, dtype=np.int64), chain), weights=(0, 1))
    totals = round_table(problem).counts.sum(axis=0)
    assert totals.sum() == n
    assert np.abs(totals - n / m).max() < 40  # four standard deviations of a fair choice are 35


def test_networks_are_built_for_every_cell_only_where_fractions_do_not_do() -> None:
    """A sum that fractions alone cannot meet has no network of fractions; every cell then may take a unit."""
    problem = plain_problem(np.array([[1.0, 1.0]]), np.array([3]), np.zeros((1, 1), dtype=np.int64))
    problem = replace(problem, weights=(1,))
    assert build_network(problem, *whole_parts(problem), every_cell=False) is None
    assert round_table(problem).counts.sum() == 3


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
                    index = descent.facts.open_children(depth, parent.index)
                    split, index = descent.open_split(depth, parent, index)
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
