"""Kernels for counts 0 .. M: known optima, exact checks, and the simple rules they are compared with."""

from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError, InternalError
from topdown.optimal_noise import (
    Absolute,
    BestKernel,
    CountQuestion,
    CoupledLP,
    Kernel,
    KernelConstraint,
    NoSolutionError,
    Square,
    best_kernel,
    exp_bounds,
    kernel_baselines,
    largest_excess,
    private_kernel,
    solve_linear_program,
)
from topdown.privacy import SimulationBits

THOUSANDTH = Fraction(1, 1000)


def best_additive(epsilon: Fraction, delta: Fraction) -> dict[int, Fraction]:
    """Return the best even noise at sensitivity 1, from its smallest possible tails."""
    growth, tails = exp_bounds(epsilon)[0], [Fraction(1)]
    tails.append((1 - delta) / (1 + growth))
    while tails[-1] > 0:
        tails.append(max(Fraction(0), (tails[-1] - delta) / growth))
    law = {0: 1 - 2 * tails[1]}
    for j, (a, b) in enumerate(pairwise(tails[1:]), start=1):
        law[j] = law[-j] = a - b
    return law


def largest_over_events(kernel: Kernel, epsilon: Fraction, sensitivity: int) -> Fraction:
    """Go through every set of answers and every pair of neighbouring counts."""
    growth, answers = exp_bounds(epsilon)[0], range(kernel.largest + 1)
    events = chain.from_iterable(combinations(answers, size) for size in range(len(answers) + 1))
    worst = Fraction(0)
    for event in events:
        p = [Fraction(sum(row[y] for y in event), 1 << kernel.bits) for row in kernel.weights]
        for n in answers:
            for m in answers:
                if 1 <= abs(n - m) <= sensitivity:
                    worst = max(worst, p[n] - growth * p[m])
    return worst


@pytest.fixture(scope="module")
def quarter() -> BestKernel:
    """Answer counts 0 .. 40 at epsilon 1/4."""
    return best_kernel(CountQuestion(Fraction(1, 4), THOUSANDTH, 40, Absolute()))


def test_the_loss_at_epsilon_a_quarter(quarter: BestKernel) -> None:
    """A worse kernel would pass every privacy check; the optimum is known to four digits."""
    assert round(float(quarter.loss), 4) == 3.3185
    assert 0 <= quarter.loss - quarter.lower < Fraction(1, 10**8)
    assert THOUSANDTH * Fraction(999, 1000) < quarter.excess <= THOUSANDTH


def test_simple_rules_are_stated_beside_the_kernel(quarter: BestKernel) -> None:
    """A gain over additive noise that clamping also has would be sold as a gain of the kernel."""
    simple = kernel_baselines(quarter.question, best_additive(Fraction(1, 4), THOUSANDTH))
    expected = {"constant": 10.2439, "additive": 3.8188, "clamped": 3.4314, "remapped": 3.3185}
    assert expected == {name: round(float(loss), 4) for name, loss in simple.items()}
    assert quarter.lower <= min(simple.values())


def test_clamped_noise_is_the_best_kernel_at_epsilon_one() -> None:
    """Where a rule is already optimal, the kernel must not claim to beat it."""
    question = CountQuestion(Fraction(1), THOUSANDTH, 40, Absolute())
    clamped = kernel_baselines(question, best_additive(Fraction(1), THOUSANDTH))["clamped"]
    answer = best_kernel(question)
    assert round(float(clamped), 6) == 0.811071
    assert answer.lower <= clamped <= answer.loss + Fraction(1, 10**9)


def test_the_worst_count_of_a_minimax_kernel() -> None:
    """Its bound uses weights that the solver found; wrong ones would prove too much."""
    question = CountQuestion(Fraction(1, 4), THOUSANDTH, 40, Absolute(), worst_case=True)
    answer = best_kernel(question)
    expected = [3.4468, 3.4468]
    assert expected == [round(float(bound), 4) for bound in (answer.lower, answer.loss)]
    assert answer.loss == max(answer.row_losses)


def test_every_event_keeps_the_guarantee() -> None:
    """The check of a kernel adds up positive parts; all sets of answers must say the same."""
    for sensitivity in (1, 2):
        question = CountQuestion(Fraction(1), Fraction(1, 20), 5, Square(), sensitivity)
        answer = best_kernel(question)
        assert largest_over_events(answer.kernel, Fraction(1), sensitivity) == answer.excess
        assert answer.excess <= Fraction(1, 20)


def test_both_directions_of_a_pair_are_compared() -> None:
    """A kernel can be safe to go up by one and not down by one, or the other way round."""
    unit = 1 << 96
    for rows in (((unit, 0), (unit // 2, unit // 2)), ((unit // 2, unit // 2), (0, unit))):
        assert largest_excess(Kernel(rows), Fraction(1), 1) == Fraction(1, 2)


def test_weights_of_rows_add_up_exactly() -> None:
    """The largest row is at least a weighted mean only if the weights add up to one, whatever the solver says."""
    costs = ((Fraction(0), Fraction(1)), (Fraction(1), Fraction(0)))
    program = CoupledLP(
        costs, (KernelConstraint(0, 1, 0),), Fraction(2), Fraction(1, 10), range(2), largest=True
    )
    solution = solve_linear_program(program.program)
    for factor in (1.0, 1.1, 0.0):
        weights = program.row_weights(replace(solution, at_most=solution.at_most * factor))
        assert sum(weights) == 1
        assert min(weights) >= 0


def test_a_moved_weight_is_found() -> None:
    """A check that a changed kernel passes would pass anything."""
    answer = best_kernel(CountQuestion(Fraction(1), Fraction(1, 20), 6, Absolute()))
    rows = [list(row) for row in answer.kernel.weights]
    moved = (1 << answer.kernel.bits) // 10**6
    rows[3][3] += moved
    rows[3][0] -= moved
    assert largest_excess(Kernel(tuple(map(tuple, rows))), Fraction(1), 1) > Fraction(1, 20)


def test_a_guarantee_without_delta() -> None:
    """Finite answers can keep delta 0, so it is not refused; the loss must approach the geometric law's."""
    answer = best_kernel(CountQuestion(Fraction(1), Fraction(0), 12, Absolute()))
    assert answer.excess == 0
    assert answer.loss - answer.lower < Fraction(1, 10**4)


def test_caps_hold_exactly() -> None:
    """A cap that the solver keeps within its tolerance only is a broken promise to one count."""
    free = best_kernel(CountQuestion(Fraction(1), THOUSANDTH, 8, Absolute()))
    cap = free.row_losses[4] * Fraction(9, 10)
    caps = (*[None] * 4, cap, *[None] * 4)
    capped = best_kernel(CountQuestion(Fraction(1), THOUSANDTH, 8, Absolute(), caps=caps))
    assert capped.row_losses[4] <= cap
    assert free.loss < capped.lower <= capped.loss
    with pytest.raises(NoSolutionError):
        best_kernel(CountQuestion(Fraction(1), THOUSANDTH, 8, Absolute(), caps=(Fraction(0),) * 9))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 6), st.booleans())
def test_bounds_enclose_any_private_kernel(eps: int, tenths: int, top: int, worst_case: bool) -> None:
    """The even kernel and the constant ones are private too: none may cost less than the bound."""
    question = CountQuestion(Fraction(eps, 4), Fraction(tenths, 10), top, Square(), worst_case=worst_case)
    answer = best_kernel(question)
    counts = range(top + 1)
    even = question.judged([Fraction(sum((y - n) ** 2 for y in counts), top + 1) for n in counts])
    simple = kernel_baselines(question, best_additive(question.epsilon, question.delta))
    assert answer.lower <= min(even, *simple.values())
    assert answer.loss <= min(simple.values()) + Fraction(1, 10**6)


def test_a_kernel_that_cannot_be_repaired_is_an_error() -> None:
    """Releasing the count itself is not private; rounding must not let it through."""
    truth = [[float(n == y) for y in range(4)] for n in range(4)]
    with pytest.raises(InternalError, match="does not keep"):
        private_kernel(truth, Fraction(1), THOUSANDTH, 1)


def test_draws_follow_the_weights() -> None:
    """An answer drawn one place off would have another law than the one checked."""
    answer = best_kernel(CountQuestion(Fraction(1), Fraction(1, 10), 4, Absolute()))
    bits, n = SimulationBits(3), 40_000
    drawn = [answer.kernel.draw(1, bits) for _ in range(n)]
    for y, weight in enumerate(answer.kernel.weights[1]):
        p = weight / (1 << answer.kernel.bits)
        assert abs(drawn.count(y) - n * p) <= 6 * (n * p * (1 - p)) ** 0.5
    for count in (-1, 5, True):
        with pytest.raises(ValueError, match="outside"):
            answer.kernel.draw(count, bits)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epsilon": Fraction(-1)}, "C151"),
        ({"epsilon": Fraction(800)}, "C151"),
        ({"delta": Fraction(1)}, "C152"),
        ({"delta": Fraction(-1)}, "C152"),
        ({"top": 0}, "C161"),
        ({"top": True}, "C161"),
        ({"top": 400}, "C161"),
        ({"sensitivity": 7}, "C161"),
        ({"sensitivity": 0}, "C161"),
        ({"weights": (Fraction(1, 2),) * 7}, "C161"),
        ({"caps": (Fraction(-1),) * 7}, "C161"),
    ],
)
def test_impossible_questions_are_refused(change: dict[str, object], code: str) -> None:
    """A question that is not one must end before the solver, with what to change."""
    asked = {"epsilon": Fraction(1), "delta": THOUSANDTH, "top": 6, "loss": Absolute(), **change}
    with fails_with(code, ConfigError):
        CountQuestion(**asked)


def test_floats_are_refused() -> None:
    """0.1 is not a tenth; a budget in floats would be another one than the ledger's."""
    with pytest.raises(TypeError, match="exact number"):
        CountQuestion(0.1, THOUSANDTH, 6, Absolute())
