"""Additive noise that a kernel is compared with: the best law on the integers for the same guarantee."""

from __future__ import annotations

from fractions import Fraction

from topdown.noise.optimal.ask import Promise
from topdown.noise.optimal.cells import CellProgram
from topdown.noise.optimal.closed_form import least_tails, masses_of
from topdown.noise.optimal.dependent import CountQuestion
from topdown.noise.optimal.supports import truncated_laplace_reach


def additive_law(question: CountQuestion) -> dict[int, Fraction] | None:
    """Return P(noise = i) of additive noise that keeps the question's guarantee; None for delta 0.

    In closed form for sensitivity 1 and an even loss, else by linear program and checked in integers; the best in
    either case, up to what a solver leaves.

    Raises:
        NoSolutionError, InternalError: the solver failed.

    """
    if question.delta == 0:
        return None
    promise, reach_of = Promise(question.epsilon, question.delta), question.sensitivity
    if reach_of == 1 and question.loss.even and question.loss.settled == 0:
        tails, _ = least_tails([(promise.factor, promise.delta)])
        masses = masses_of(tails)
        return {i - len(tails): p for i, p in enumerate(masses) if p}
    reach = max(truncated_laplace_reach(promise, reach_of) + 2 * reach_of, question.loss.settled + reach_of)
    costs = tuple(question.loss.at(i) for i in range(-reach, reach + 1))
    line = CellProgram(costs, -reach, reach_of, promise.epsilon, promise.delta)
    return dict(line.law().items())
