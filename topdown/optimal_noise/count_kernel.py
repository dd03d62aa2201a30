"""Answers 0 .. M to a count of 0 .. M, with a law of their own for every count: the best private kernel.

Kernels are whole numbers: a law of the answer for every true count, checked exactly and drawn from exactly. They are
compared with a constant answer, and with additive noise as it is, clamped or remapped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import final

from topdown.errors import ConfigError, InternalError
from topdown.optimal_noise.certified_law import exp_bounds
from topdown.optimal_noise.exact_laws import least_tails, masses_of
from topdown.optimal_noise.linear_programs import (
    CoupledLP,
    FloatSolution,
    KernelConstraint,
    lower_bound,
    solve_linear_program,
)
from topdown.optimal_noise.noise_request import ErrorLoss, Promise, factor_below
from topdown.optimal_noise.real_noise import CellProgram, truncated_laplace_reach, whole_masses
from topdown.privacy import BitSource

KERNEL_BITS = 96
_FIRST_SHARE, _STEP, _LARGEST_SHARE = Fraction(1, 1 << 60), 8, Fraction(1, 1 << 12)


@final
@dataclass(frozen=True)
class Kernel:
    """P(answer = y | count = n) = weights[n][y] / 2^bits, for n and y in 0 .. M.

    Raises:
        ValueError: rows of other lengths, a weight below 0, or a row that does not add up to 2^bits.
    """

    weights: tuple[tuple[int, ...], ...]
    bits: int = KERNEL_BITS

    def __post_init__(self) -> None:
        n = len(self.weights)
        if n == 0 or any(len(row) != n for row in self.weights):
            raise ValueError("a kernel needs as many answers as counts.")
        if any(min(row) < 0 or sum(row) != 1 << self.bits for row in self.weights):
            raise ValueError(f"a row of a kernel is not made of weights >= 0 that add up to 2^{self.bits}.")
        if self.bits < 1 or self.bits % 8:
            raise ValueError("the bits of a kernel are a multiple of 8.")

    @property
    def largest(self) -> int:
        """M, the largest count and answer."""
        return len(self.weights) - 1

    @cached_property
    def _cumulated(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(accumulate(row)) for row in self.weights)

    def draw(self, count: int, bits: BitSource) -> int:
        """Draw one answer, with bits / 8 bytes of the source.

        Args:
            count: the true count, 0 .. M.
            bits: the source of the random bits.

        Raises:
            ValueError: a count outside 0 .. M. It is never moved to an end: that would be another mechanism.
        """
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= self.largest:
            raise ValueError(f"a count is outside 0 .. {self.largest}. Fix: a kernel for larger counts.")
        drawn = int.from_bytes(bits.read(self.bits // 8), "big")
        return bisect_right(self._cumulated[count], drawn)


def largest_excess(kernel: Kernel, epsilon: Fraction, sensitivity: int) -> Fraction:
    """Return an upper bound of the delta that the kernel needs, with e^epsilon bounded from below.

    Compares every ordered pair of counts at most `sensitivity` apart, answer by answer, in integers.

    Args:
        epsilon: of the guarantee, >= 0.
        sensitivity: by how much the count of neighbours differs at most, >= 1.
    """
    growth = exp_bounds(epsilon)[0]
    top, bottom = growth.numerator, growth.denominator
    worst = 0
    for n, own in enumerate(kernel.weights):
        for m in range(max(0, n - sensitivity), min(kernel.largest, n + sensitivity) + 1):
            if m != n:
                other = kernel.weights[m]
                terms = (bottom * a - top * b for a, b in zip(own, other, strict=True))
                worst = max(worst, sum(t for t in terms if t > 0))
    return Fraction(worst, bottom << kernel.bits)


def private_kernel(
    laws: Sequence[Sequence[float]], epsilon: Fraction, delta: Fraction, sensitivity: int
) -> Kernel:
    """Round float laws to integer weights that keep (epsilon, delta) exactly, with as little change as it takes.

    Laws that break the guarantee by a solver's tolerance are mixed with the even law, more and more, until the
    exact check passes.

    Args:
        laws: one a count, of 0 .. M each; roughly adding up to one.
        epsilon, delta: of the guarantee.
        sensitivity: by how much the count of neighbours differs at most.

    Raises:
        InternalError: X055, if a share of 2^-12 of the even law is not enough.
    """
    exact = [[Fraction(max(0.0, float(p))) for p in row] for row in laws]
    exact = [[p / sum(row) for p in row] for row in exact]
    share = Fraction(0)
    while share <= _LARGEST_SHARE:
        even = [[(1 - share) * p + share / len(row) for p in row] for row in exact]
        kernel = Kernel(tuple(whole_masses(row, KERNEL_BITS) for row in even))
        if largest_excess(kernel, epsilon, sensitivity) <= delta:
            return kernel
        share = max(_FIRST_SHARE, share * _STEP)
    raise InternalError(
        f"the solver's kernel does not keep delta = {delta}, not even with a 4096th of even answers mixed in",
        code="X055",
        fix="a larger delta or epsilon, or fewer counts, makes the program easier",
    )


Costs = Callable[[int, int], Fraction]


def remapped_costs(law: Mapping[int, Fraction], weights: Sequence[Fraction], costs: Costs) -> list[Fraction]:
    """Answer each outcome of count + noise by what costs least on average, given how likely each count is then.

    Args:
        law: P(noise = i).
        weights: how likely each count 0 .. M is held to be.
        costs: as above.
    """
    top = len(weights) - 1
    losses = [Fraction(0)] * (top + 1)
    for outcome in range(min(law), top + max(law) + 1):
        likely = {n: law[outcome - n] for n in range(top + 1) if law.get(outcome - n)}
        joint = {n: weights[n] * p for n, p in likely.items()}
        means = [_mean(p * costs(n, y) for n, p in joint.items()) for y in range(top + 1)]
        answer = means.index(min(means))
        for n, p in likely.items():
            losses[n] += p * costs(n, answer)
    return losses


def _mean(terms: Iterable[Fraction]) -> Fraction:
    return sum(terms, Fraction(0))


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
    loss: ErrorLoss
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
    counts = range(question.top + 1)
    losses = tuple(tuple(question.cost(n, y) for y in counts) for n in counts)
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
    solution = solve_linear_program(program.program)
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


def kernel_baselines(question: CountQuestion, law: Mapping[int, Fraction]) -> dict[str, Fraction]:
    """Return the loss of every simple rule, by its name.

    Args:
        question: what is to be answered.
        law: additive noise that keeps the same guarantee for the same sensitivity, P(noise = i).
    """
    counts, cost, noise = range(question.top + 1), question.cost, law.items()
    found = {
        "additive": [_mean(p * cost(n, n + i) for i, p in noise) for n in counts],
        "clamped": [_mean(p * cost(n, min(max(n + i, 0), question.top)) for i, p in noise) for n in counts],
        "remapped": remapped_costs(law, question.shares, cost),
    }
    constants = [question.judged([cost(n, y) for n in counts]) for y in counts]  # whatever the count is
    return {"constant": min(constants), **{name: question.judged(rows) for name, rows in found.items()}}


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
