"""Rounding where a solver is at the end of its tolerance, chains that are no flow, and the check of every rounding."""

from dataclasses import replace

import numpy as np
import pytest

from tests.oracles import solver_twins as reference
from topdown.errors import InternalError
from topdown.solve import FixedTable, LowerBounds
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
