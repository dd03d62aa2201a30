"""Rounding against every rounding: first the least breaking of soft rules, if there are any, then the least cost."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import repeats
from tests.helpers.problems import limits_around, rounding_of_stage
from tests.oracles import solver_twins as reference
from topdown.errors import InternalError
from topdown.solve import FixedTable, LowerBounds, SubsetLimits
from topdown.solve import scipy_programs as integer_program
from topdown.solve.rounding import (
    NoFlow,
    NoFlowReason,
    RoundingChain,
    RoundingProblem,
    check_rounding,
    laminar_positions,
    round_by_milp,
    round_table,
)

SEEDS = st.integers(0, 1_000_000)
KINDS = ("laminar", "totals", "crossing", "limits", "exact", "nested", "root", "stage", "stage of a root")


def ups(estimate: np.ndarray, open_: np.ndarray) -> Iterator[np.ndarray]:
    """Yield every table that rounds open cells down or up."""
    whole = np.floor(estimate + 1e-6).astype(np.int64)
    places = np.flatnonzero(open_.reshape(-1))
    for up in product((0, 1), repeat=len(places)):
        table = whole.reshape(-1).copy()
        table[places] += np.array(up, dtype=np.int64)
        yield table.reshape(whole.shape)


def held(group: np.ndarray, size: int, table: np.ndarray) -> np.ndarray:
    """Add a table up by group."""
    sums = np.zeros((size, table.shape[1]), dtype=table.dtype)
    np.add.at(sums, group[group >= 0], table[group >= 0])
    return sums


def meets(problem: RoundingProblem, table: np.ndarray) -> bool:
    """Tell whether a table keeps all that must hold."""
    if ((table.sum(axis=1) != problem.sums) & (problem.sums >= 0)).any():
        return False
    for known in (problem.totals, problem.exact):
        if (held(known.of, len(known.answers), table) != known.answers).any():
            return False
    bounds = problem.bounds
    sums = held(bounds.of, bounds.n_groups, table)
    if isinstance(bounds, LowerBounds):
        return bool((sums >= bounds.lower).all())
    for j, limits in enumerate(bounds.limits):
        for chosen, most in enumerate(limits):
            inside = [k for k in range(len(sums)) if chosen >> k & 1]
            if sums[inside, j].sum() > most:
                return False
    return bool((sums.sum(axis=0) == bounds.limits[:, -1]).all())


def best(
    tables: list[np.ndarray], over: Callable[[np.ndarray], int], cost: Callable[[np.ndarray], float]
) -> tuple[int, float]:
    """Return the least breaking of rules, and the least cost among tables that break them by no more."""
    least = min(over(table) for table in tables)
    return least, min(cost(table) for table in tables if over(table) == least)


def draw_rules(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw up to three rules: one of some rows against some times others."""
    k = int(rng.integers(0, 4))
    rows = (rng.random((k, n)) < 0.5).astype(np.int64)
    return rows - rng.choice([1, 2, 50], (k, 1)) * (rng.random((k, n)) < 0.4)


def draw_stage(seed: int, *, root: bool) -> RoundingProblem:
    """Draw a stage of an extension with soft rules."""
    rng = np.random.default_rng(seed)
    group, m = np.array([0, 0, 1, 1, 1]), 1 if root else 2
    n, weight = len(group), rng.dirichlet(np.ones(3))
    whole = rng.poisson(1.5, (n, m))
    fixed = held(group, 2, whole)
    estimate = weight[0] * whole
    for part in weight[1:]:  # mixed with other tables of the same sums: each moves records round a square
        other = whole.copy()
        for _ in range(4):
            a, b = rng.choice(np.flatnonzero(group == rng.integers(0, 2)), 2, replace=False)
            move = np.zeros_like(whole)
            move[a], move[b] = (1, -1) if root else ((1, -1), (-1, 1))
            other = other + move if (other + move >= 0).all() else other
        estimate = estimate + part * other
    rules = draw_rules(rng, n)
    most = rng.integers(-1, 2, (len(rules), m)) + np.floor(rules @ estimate).astype(np.int64)
    chain = (np.array([0, 0, 1, 2, 2]),)
    sums = None if root else whole.sum(axis=1)
    problem = rounding_of_stage(estimate, FixedTable(group, fixed), sums, chain, (3, 1))
    return replace(problem, comparisons=rules, most=most)


def draw(seed: int, kind: str) -> RoundingProblem:
    """Draw a problem with soft rules, for which there is a whole table that meets all that must hold."""
    if kind.startswith("stage"):
        return draw_stage(seed, root=kind != "stage")
    rng = np.random.default_rng(seed)
    n, m = (7, 1) if kind == "root" else (4, 2)
    allowed = rng.random((n, m)) < 0.9
    allowed[np.arange(n), rng.integers(0, m, n)] = True
    whole = np.where(allowed, rng.integers(0, 3, (n, m)), 0)
    share = np.where(allowed, rng.random((n, m)) + 1e-3, 0)
    blurred = share / share.sum(axis=1, keepdims=True) * whole.sum(axis=1, keepdims=True)
    estimate = np.where(allowed, (blurred + whole) / 2 + (rng.random((n, m)) if kind == "root" else 0), 0)
    middle = rng.integers(0, 2, n)
    chain = np.stack([np.zeros(n, dtype=np.int64), middle, np.arange(n)])
    weights = (int(rng.integers(1, 50)), int(rng.integers(1, 5)), 1)
    bound_of = np.where(middle == 0, 0, -1)
    rounded = [
        t for t in ups(estimate, allowed) if kind == "root" or (t.sum(axis=1) == whole.sum(axis=1)).all()
    ]
    some = rounded[int(rng.integers(len(rounded)))]
    lower = np.floor(held(bound_of, 1, some) * rng.random((1, m))).astype(np.int64)
    places = laminar_positions(RoundingChain(tuple(chain), ()), bound_of, 1) if (middle == 0).any() else ()
    if not (middle == 0).any():
        bound_of, lower = np.full(n, -1), np.zeros((0, m), dtype=np.int64)
    rules = draw_rules(rng, n)
    sums = np.full(n, -1) if kind == "root" else whole.sum(axis=1)
    problem = RoundingProblem(
        estimate, allowed, sums, chain, weights, FixedTable.none(n, m),
        FixedTable.none(n, m), None, LowerBounds(bound_of, lower), places, (), rules,
        np.zeros((len(rules), m), dtype=np.int64),
    )  # fmt: skip
    if kind == "totals":
        return replace(problem, totals=FixedTable.total(n, some.sum(axis=0)))
    if kind == "crossing":
        crossing = np.stack([middle, rng.integers(0, 2, n), np.arange(n)])
        return replace(problem, chain=crossing, bound_places=NoFlow(NoFlowReason.NOT_REFINED))
    if kind == "exact":
        of = np.arange(n) % 2
        return replace(
            problem, exact=FixedTable(of, held(of, 2, some)), bound_places=NoFlow(NoFlowReason.NOT_REFINED)
        )
    if kind == "nested":  # an exact table that fits the chain is mandatory flow
        of = np.unique(middle, return_inverse=True)[1].reshape(-1)
        return replace(
            problem,
            chain=np.stack([chain[0], of, *chain[1:]]),
            weights=(weights[0], 0, *weights[1:]),
            exact=FixedTable(of, held(of, int(of.max()) + 1, some)),
            exact_place=1,
            bound_places=tuple((table + (table > 0), answer) for table, answer in places),
        )
    if kind == "limits":
        of = rng.integers(0, 3, n)
        limits = limits_around(rng, held(of, 3, some).astype(float), slack=False).astype(np.int64)
        return replace(
            problem, bounds=SubsetLimits(of, 3, limits), bound_places=NoFlow(NoFlowReason.NOT_REFINED)
        )
    return problem


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
@settings(max_examples=repeats(40, 200), deadline=None)
def test_rounding_breaks_rules_least_then_costs_least(kind: str, seed: int) -> None:
    """No rounding at all may break the rules by less, and none that breaks them as little may be closer."""
    problem = draw(seed, kind)
    result = round_table(problem)
    assert (
        result.route == "flow" or len(problem.comparisons) or kind in ("crossing", "limits", "exact", "root")
    )
    tables = [t for t in ups(problem.estimate, problem.allowed) if meets(problem, t)]
    least, cost = best(tables, problem.excess, lambda t: reference.rounding_cost(problem, t))
    assert any(np.array_equal(result.counts, table) for table in tables)
    assert problem.excess(result.counts) == least
    assert result.optimal
    assert reference.rounding_cost(problem, result.counts) == pytest.approx(cost, abs=1e-4)


@pytest.mark.parametrize("kinds", [("laminar",), ("stage of a root", "stage")])
def test_all_routes_are_taken(kinds: tuple[str, ...]) -> None:
    """Problems whose rules the flow keeps, that need the program, and that no table keeps: all must be drawn."""
    seen = set()
    for seed in range(80):
        problem = draw(seed, kinds[seed % len(kinds)])
        result = round_table(problem)
        seen.add((result.route, problem.excess(result.counts) > 0))
    assert seen >= {("flow", False), ("milp", False), ("milp", True)}


@given(seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_the_program_agrees_where_the_flow_is_enough(seed: int) -> None:
    """Which way was taken must not change what a rounding is worth."""
    problem = draw(seed, "laminar")
    one, two = round_table(problem), round_by_milp(problem)
    check_rounding(problem, two.counts)
    assert problem.excess(one.counts) == problem.excess(two.counts)
    assert reference.rounding_cost(problem, one.counts) == pytest.approx(
        reference.rounding_cost(problem, two.counts), abs=1e-4
    )


def make_problem(seed: int, n: int = 4, m: int = 2) -> RoundingProblem:
    """Draw a feasible laminar problem: a whole table is blurred within its row sums, so a rounding exists."""
    rng = np.random.default_rng(seed)
    allowed = rng.random((n, m)) < 0.85
    allowed[np.arange(n), rng.integers(0, m, n)] = True
    whole = np.where(allowed, rng.integers(0, 4, (n, m)), 0)
    sums = whole.sum(axis=1)
    share = np.where(allowed, rng.random((n, m)) + 1e-3, 0)
    blurred = share / share.sum(axis=1, keepdims=True) * sums[:, None]
    estimate = 0.5 * blurred + 0.5 * whole
    middle = rng.integers(0, 2, n)
    chain = np.stack([np.zeros(n, dtype=np.int64), middle, np.arange(n)])
    bound_of = np.where(middle == 0, 0, -1)
    lower = np.floor(np.minimum(estimate[middle == 0].sum(axis=0), whole[middle == 0].sum(axis=0)))
    places = laminar_positions(RoundingChain(tuple(chain), ()), bound_of, 1) if (middle == 0).any() else ()
    lower = lower.astype(np.int64)[None, :] if (middle == 0).any() else np.zeros((0, m), dtype=np.int64)
    weights = (int(rng.integers(1, 50)), int(rng.integers(1, 5)), 1)
    none, bounds = FixedTable.none(n, m), LowerBounds(bound_of, lower)
    soft = np.zeros((0, n), dtype=np.int64)
    return RoundingProblem(
        estimate,
        allowed,
        sums,
        chain,
        weights,
        none,
        none,
        None,
        bounds,
        places,
        (),
        soft,
        np.zeros((0, m), dtype=np.int64),
    )


def near_the_tolerance(seed: int, n: int = 16) -> RoundingProblem:
    """Draw a root of which many fractions are a few millionths, as least squares leaves them: a solver's tolerance."""
    rng = np.random.default_rng(seed)
    some = np.round(rng.random(n), 3) * (rng.random(n) < 0.5)
    estimate = rng.integers(0, 500, n) + some + rng.integers(0, 4, n) * 1e-6 * (rng.random(n) < 0.5)
    none, chain = FixedTable.none(n, 1), np.stack([np.zeros(n, dtype=np.int64), np.arange(n)])
    free = np.full(n, -1)
    bounds, soft = LowerBounds(free, np.zeros((0, 1), dtype=np.int64)), np.zeros((0, n), dtype=np.int64)
    return RoundingProblem(
        estimate[:, None], np.ones((n, 1), dtype=bool), free, chain, (1, 1), none, none, None, bounds, (), (),
        soft, np.zeros((0, 1), dtype=np.int64),
    )  # fmt: skip


def test_fractions_near_the_tolerance_of_the_solver_are_rounded() -> None:
    """HiGHS refuses its own answer to one program in eight of these, which is no sign that there is none."""
    for seed in range(60):
        problem = near_the_tolerance(seed)
        by_program, by_flow = round_by_milp(problem), round_table(problem)
        assert by_program is not None, seed
        assert by_flow.route == "flow"
        assert reference.rounding_cost(problem, by_program.counts) == pytest.approx(
            reference.rounding_cost(problem, by_flow.counts), abs=1e-4
        )


def test_a_solver_that_fails_says_not_that_there_is_no_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first two attempts alone some of them are not decided: an error of its own, no contradiction."""
    monkeypatch.setattr(integer_program, "ATTEMPTS", integer_program.ATTEMPTS[:2])
    undecided = 0
    for seed in range(60):
        problem = near_the_tolerance(seed)
        try:
            assert round_by_milp(problem) is not None, seed
        except integer_program.UndecidedError as error:
            undecided += error.code == "X057"
            assert round_table(problem).route == "flow"
    assert undecided


def test_crossing_tables_are_recognised() -> None:
    """A chain that does not nest must go to the integer program, never to the flow."""
    crossing = (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.arange(4))
    nested = (np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]))
    assert laminar_positions(RoundingChain(crossing, ()), np.full(4, -1), 0) == NoFlow(
        NoFlowReason.NOT_REFINED, -2
    )
    chain = RoundingChain(nested, ())
    assert laminar_positions(chain, np.full(4, -1), 0) == ()
    assert laminar_positions(chain, np.array([0, -1, -1, 0]), 1) == NoFlow(NoFlowReason.NO_ANSWER, bound=0)
    assert laminar_positions(chain, np.array([-1, -1, 0, 0]), 1) == ((0, 1),)


@pytest.mark.parametrize("damage", ["negative", "forbidden", "sum", "bound"])
def test_the_integer_check_catches_each_broken_constraint(damage: str) -> None:
    """The check is the last line before microdata: each constraint must be able to fail it."""
    problem = RoundingProblem(
        estimate=np.array([[1.5, 0.5], [2.0, 0.0]]),
        allowed=np.array([[True, True], [True, False]]),
        sums=np.array([2, 2]),
        chain=np.array([[0, 0], [0, 1]]),
        weights=(1, 1),
        totals=FixedTable.none(2, 2),
        exact=FixedTable.none(2, 2),
        exact_place=None,
        bounds=LowerBounds(np.array([0, -1]), np.array([[1, 0]])),
        bound_places=NoFlow(NoFlowReason.NOT_REFINED),
        arcs=(),
        comparisons=np.zeros((0, 2), dtype=np.int64),
        most=np.zeros((0, 2), dtype=np.int64),
    )
    good = np.array([[1, 1], [2, 0]])
    check_rounding(problem, good)
    bad = {
        "negative": [[3, -1], [2, 0]],
        "forbidden": [[1, 1], [1, 1]],
        "sum": [[1, 1], [1, 0]],
        "bound": [[0, 2], [2, 0]],
    }[damage]
    with pytest.raises(InternalError):
        check_rounding(problem, np.array(bad))
    exact = FixedTable(np.array([0, 0]), np.array([[3, 1]]))
    check_rounding(replace(problem, exact=exact), good)
    with pytest.raises(InternalError, match="exact table"):
        check_rounding(replace(problem, exact=replace(exact, answers=exact.answers[:, ::-1])), good)
