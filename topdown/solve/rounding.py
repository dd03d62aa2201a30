"""From a fractional table to whole people, with a proof that no better rounding exists.

Laminar chains go to a minimum-cost flow whose optimality is re-checked by residual cycles; other chains, and soft
rules that a flow breaks, to a mixed-integer program whose optimality is re-checked against its bound. Either way the
result is re-checked against every constraint in integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topdown.errors import InternalError, NoSplitError
from topdown.solve.backends import ortools_flow
from topdown.solve.flow import Network, build_network
from topdown.solve.groups import Ints
from topdown.solve.kernels import has_negative_cycle
from topdown.solve.rounding_problem import RoundingProblem, UnroundableError

LARGEST_COST = 2**61  # of an arc, times nodes of the network: costs of its paths add up exactly in 64 bits
FIX = "check the public facts below this node for constraints that exclude each other"


@dataclass(frozen=True, eq=False)
class Rounded:
    """A rounding: int64 (n, m), whether its optimality was proved, and how it was found."""

    counts: Ints
    optimal: bool
    route: str


def round_table(problem: RoundingProblem) -> Rounded:
    """Round an estimate.

    Raises:
        NoSplitError: no whole table satisfies the constraints.
        InternalError: a solver's answer broke a constraint, or it found none and did not show that there is none.
    """
    by_flow = _by_flow(problem) if problem.is_flow else None
    # A flow knows nothing of soft rules; if it keeps them all the same it is optimal with them too.
    result = (
        by_flow
        if by_flow is not None and not problem.excess(by_flow.counts)
        else _by_program(problem, by_flow)
    )
    check_rounding(problem, result.counts)
    return result


def _by_program(problem: RoundingProblem, by_flow: Rounded | None) -> Rounded:
    """Round by an integer program; the flow's rounding stands where the program breaks soft rules no less."""
    from topdown.solve.backends.integer_program import UndecidedError
    from topdown.solve.backends.milp import round_by_milp

    try:
        found = round_by_milp(problem)
    except UndecidedError:
        if by_flow is None:
            raise
        found = None
    if by_flow is not None and (
        found is None or problem.excess(found.counts) >= problem.excess(by_flow.counts)
    ):
        proved = found is not None and found.optimal  # that no rounding breaks the rules less
        return replace(by_flow, optimal=by_flow.optimal and proved)
    if found is None:
        raise NoSplitError(
            "no whole table satisfies the constraints of this split (integer program)", code="I010", fix=FIX
        )
    return found


def _by_flow(problem: RoundingProblem) -> Rounded:
    for every_cell in (False, True):
        try:
            network, whole = build_network(problem, every_cell=every_cell)
        except UnroundableError:
            continue
        flows = ortools_flow.solve(network)
        if flows is None:
            continue
        inside = ((flows >= 0) & (flows <= network.capacities)).all()
        balance = network.supplies.copy()
        np.subtract.at(balance, network.tails, flows)
        np.add.at(balance, network.heads, flows)
        if not inside or balance.any():
            raise InternalError("the flow solver returned a flow that is not feasible")
        counts = whole.reshape(-1).copy()
        counts[network.cell_arcs] += flows[: len(network.cell_arcs)]
        return Rounded(counts.reshape(whole.shape), _is_proved(network, flows), "flow")
    raise NoSplitError(
        "no whole table satisfies the constraints of this split",
        code="I010",
        fix=FIX,
    )


def _is_proved(network: Network, flows: Ints) -> bool:
    """Tell whether no flow costs less; not asked where costs are too large to add up exactly."""
    n_nodes = len(network.supplies)
    if int(np.abs(network.costs).max(initial=0)) * (n_nodes + 1) > LARGEST_COST:
        return False
    return not has_negative_cycle(
        network.tails, network.heads, network.capacities, network.costs, flows, n_nodes
    )


def check_rounding(problem: RoundingProblem, counts: Ints) -> None:
    """Re-check a rounding in integers; InternalError names the broken constraint."""
    broken = broken_constraint(problem, counts)
    if not broken and problem.is_flow and (np.abs(counts - problem.estimate) > 1 + 1e-5).any():
        broken = "a count more than one away from its estimate"
    if broken:
        raise InternalError(f"rounding left {broken}", code="X003")


def broken_constraint(problem: RoundingProblem, counts: Ints) -> str:
    """Return in words a constraint that a whole table breaks; empty if it keeps all but soft rules."""
    if (counts < 0).any():
        return "a negative count"
    if counts[~problem.allowed].any():
        return "records where none may be"
    if ((counts.sum(axis=1) != problem.sums) & (problem.sums >= 0)).any():
        return "children that do not add up to their parent"
    if problem.totals.left(counts).any():
        return "an exact total that is missed"
    if problem.exact.left(counts).any():
        return "an exact table that is missed"
    if problem.bounds.over(problem.bounds.sums(counts)) > 0:
        return problem.bounds.broken
    return ""
