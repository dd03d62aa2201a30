"""Answers 0 .. M to a count of 0 .. M, with a law of their own for every count: the best private kernel.

The kernel is found in floats and then leaves them: integer weights, checked exactly; its loss and a bound that no
kernel with these answers can beat are exact rationals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from topdown.errors import ConfigError, InternalError
from topdown.noise.optimal import remap
from topdown.noise.optimal.ask import Promise, factor_below
from topdown.noise.optimal.coupled import CoupledLP, KernelConstraint
from topdown.noise.optimal.highs import FloatSolution, solve
from topdown.noise.optimal.kernel import Kernel, largest_excess, private_kernel
from topdown.noise.optimal.losses import Loss
from topdown.noise.optimal.multipliers import lower_bound
from topdown.noise.optimal.verify import exp_bounds

MAX_COLUMNS = 60_000
_GAP = Fraction(1, 10_000)
_SPARE = 1 - Fraction(1, 1 << 24)  # caps given to the solver, so that rounding stays below the caps asked for


@final
@dataclass(frozen=True)
class CountQuestion:
    """A count between 0 and `top` is to be answered by 0 .. `top`.

    Args:
        epsilon, delta: of the guarantee, for neighbouring counts; epsilon 0 .. 50, delta 0 or 10^-15 .. 1, below 1.
        top: M, the largest count, >= 1. It is public.
        loss: of answer minus count.
        sensitivity: by how much the count of neighbours differs at most, 1 .. M.
        weights: how much each count counts, M + 1 rationals >= 0 adding up to one; even weights if empty.
        worst_case: minimise the largest expected loss of a count, instead of the weighted average.
        caps: the most that the expected loss of each count may be; None for no cap; empty for none at all.

    Raises:
        ConfigError: C151, C152 for numbers that promise nothing, C161 for counts, weights or caps that do not fit.
        TypeError: a float, which would stand for another number than the one written.

    """

    epsilon: Fraction
    delta: Fraction
    top: int
    loss: Loss
    sensitivity: int = 1
    weights: tuple[Fraction, ...] = ()
    worst_case: bool = False
    caps: tuple[Fraction | None, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.delta, int | Fraction):
            raise TypeError(f"{self.delta!r} is not exact. Fix: Fraction(numerator, denominator).")
        Promise(self.epsilon, self.delta or Fraction(1, 2))  # answers are bounded, so that delta may be 0
        for name, number in (("M", self.top), ("sensitivity", self.sensitivity)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise _unfit(f"{name} is {number!r}", f"give {name} as a whole number of 1 or more")
        if self.sensitivity > self.top:
            raise _unfit(f"the sensitivity is {self.sensitivity}, past M = {self.top}", "give 1 .. M")
        n_columns = (self.top + 1) ** 2 * (1 + 2 * self.sensitivity)
        if n_columns > MAX_COLUMNS:
            raise _unfit(
                f"M = {self.top} makes a program of {n_columns} columns, more than {MAX_COLUMNS}",
                "give a smaller M, or use additive noise",
            )
        if self.weights and (
            len(self.weights) != self.top + 1 or min(self.weights) < 0 or sum(self.weights) != 1
        ):
            raise _unfit("the weights of the counts do not fit", "give M + 1 rationals >= 0 adding up to 1")
        if self.caps and (len(self.caps) != self.top + 1 or any(c is not None and c < 0 for c in self.caps)):
            raise _unfit("the caps of the counts do not fit", "give M + 1 caps >= 0, None for no cap")

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The weights, even ones if none were given."""
        return self.weights or (Fraction(1, self.top + 1),) * (self.top + 1)

    @property
    def pairs(self) -> tuple[KernelConstraint, ...]:
        """Every ordered pair of counts that neighbours can have."""
        reach = range(-self.sensitivity, self.sensitivity + 1)
        counts = range(self.top + 1)
        return tuple(KernelConstraint(n, n + d, 0) for n in counts for d in reach if d and n + d in counts)

    def cost(self, count: int, answer: int) -> Fraction:
        """Return the loss of an answer to a count."""
        return self.loss.at(answer - count)

    def judged(self, losses: Sequence[Fraction]) -> Fraction:
        """Return what is minimised, of the expected loss of each count."""
        if self.worst_case:
            return max(losses)
        return sum((w * x for w, x in zip(self.shares, losses, strict=True)), Fraction(0))


@final
@dataclass(frozen=True)
class BestKernel:
    """A kernel that keeps the guarantee, and how good it is; everything here is exact.

    Args:
        question: what it answers.
        kernel: in integer weights.
        excess: at least the delta that the kernel needs; at most the delta asked for.
        lower, loss: no kernel with answers 0 .. M has a smaller loss than `lower`; this one's is `loss`.
        row_losses: expected loss of each count.
    """

    question: CountQuestion
    kernel: Kernel
    excess: Fraction
    lower: Fraction
    loss: Fraction
    row_losses: tuple[Fraction, ...]


def best_kernel(question: CountQuestion) -> BestKernel:
    """Find the kernel of least loss, check it exactly, and bound from below what any other could reach.

    Raises:
        NoSolutionError: no kernel keeps the caps, or the solver gave up.
        InternalError: X055, X056, if what the solver says does not pass the exact checks.

    """
    losses = _table(question)
    shares = (Fraction(1),) * (question.top + 1) if question.worst_case else question.shares
    program = CoupledLP(
        costs=tuple(tuple(w * c for c in row) for w, row in zip(shares, losses, strict=True)),
        pairs=question.pairs,
        growth=factor_below(question.epsilon),
        delta=question.delta,
        inner=range(question.top + 1),
        caps=tuple(None if cap is None else cap * _SPARE for cap in question.caps),
        losses=losses,
        largest=question.worst_case,
    )
    solution = solve(program.program)
    kernel = private_kernel(program.laws(solution), question.epsilon, question.delta, question.sensitivity)
    answer = BestKernel(
        question,
        kernel,
        largest_excess(kernel, question.epsilon, question.sensitivity),
        max(Fraction(0), _proved(question, program, solution)),
        question.judged(rows := _row_losses(kernel, losses)),
        tuple(rows),
    )
    _accept(answer)
    return answer


def baselines(question: CountQuestion, law: Mapping[int, Fraction]) -> dict[str, Fraction]:
    """Return the loss of every simple rule, by its name.

    Args:
        question: what is to be answered.
        law: additive noise that keeps the same guarantee for the same sensitivity, P(noise = i).

    """
    top, cost = question.top, question.cost
    found = {
        "additive": remap.additive(top, law, cost),
        "clamped": remap.clamped(top, law, cost),
        "remapped": remap.remapped(law, question.shares, cost),
    }
    constants = [question.judged(remap.constant(top, y, cost)) for y in range(top + 1)]
    return {"constant": min(constants), **{name: question.judged(rows) for name, rows in found.items()}}


def _table(question: CountQuestion) -> tuple[tuple[Fraction, ...], ...]:
    counts = range(question.top + 1)
    return tuple(tuple(question.cost(n, y) for y in counts) for n in counts)


def _row_losses(kernel: Kernel, losses: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    unit = 1 << kernel.bits
    return [
        sum((w * c for w, c in zip(row, costs, strict=True)), Fraction(0)) / unit
        for row, costs in zip(kernel.weights, losses, strict=True)
    ]


def _proved(question: CountQuestion, program: CoupledLP, solution: FloatSolution) -> Fraction:
    """Return the bound that the solver's multipliers prove, computed anew."""
    shares = program.row_weights(solution) if question.worst_case else question.shares
    caps = program.cap_multipliers(solution)
    limits = [cap or Fraction(0) for cap in question.caps] or [Fraction(0)] * len(caps)
    charged = sum((u * c for u, c in zip(caps, limits, strict=True)), Fraction(0))

    def least(row: int, start: int | None, end: int | None) -> Fraction | None:
        answers = range(max(start or 0, 0), question.top + 1 if end is None else min(end, question.top + 1))
        weight = shares[row] + caps[row]
        return min((weight * question.cost(row, y) for y in answers), default=None)

    growth = exp_bounds(question.epsilon)[1]
    multipliers = program.multipliers(solution)
    return lower_bound(multipliers, question.delta, growth, question.top + 1, least) - charged


def _accept(answer: BestKernel) -> None:
    """Refuse an answer whose exact numbers do not hold together."""
    question = answer.question
    caps = zip(answer.row_losses, question.caps, strict=False)
    wrong = {
        "it needs more than delta": answer.excess > question.delta,
        "its loss is below the bound": answer.lower > answer.loss,
        "its loss is far from the bound": answer.loss - answer.lower > _GAP * answer.loss,
        "a cap is broken": any(cap is not None and loss > cap for loss, cap in caps),
    }
    for what, found in wrong.items():
        if found:
            raise InternalError(
                f"the kernel did not pass its exact checks: {what}",
                code="X056",
                fix="a larger delta or fewer counts makes the program easier; nothing was returned",
            )


def _unfit(text: str, fix: str) -> ConfigError:
    return ConfigError(text, code="C161", fix=fix)
