"""Laws that are made: what they keep, what proves them best, and how they change with what is asked."""

from fractions import Fraction
from itertools import combinations

import pytest

from tests.helpers.optimal_runs import error_costs
from topdown.errors import CertificateError, ConfigError, InternalError
from topdown.optimal_noise import (
    LAW_BITS,
    Absolute,
    CompactLP,
    ErrorLoss,
    Multipliers,
    NoiseRequest,
    NotExactError,
    OptimalLaw,
    Pinball,
    Promise,
    Square,
    TableLoss,
    certified_lower_bound,
    exp_bounds,
    optimal_law,
    solve_linear_program,
    whole_weights,
    worst_delta,
)
from topdown.optimal_noise.rational_optimum import rational_optimum

TENTH, THOUSANDTH = Fraction(1, 10), Fraction(1, 1000)
ZERO_ONE = TableLoss((Fraction(1), Fraction(0), Fraction(1)))
ROOT = TableLoss(tuple(Fraction(round(abs(x) ** 0.5 * 2**40), 2**40) for x in range(-40, 41)))


def ask(epsilon: object, delta: object, sensitivity: int = 1, loss: ErrorLoss | None = None) -> NoiseRequest:
    return NoiseRequest((Promise(Fraction(epsilon), Fraction(delta)),), sensitivity, loss or Absolute())


def program_value(one: NoiseRequest, radius: int) -> float:
    lp = CompactLP(error_costs(one.loss, radius), one.sensitivity, one.limits, mirror=one.loss.even)
    return solve_linear_program(lp.program).value


def test_a_known_law_and_every_event() -> None:
    """(1, 1/10), one count: the law itself, and its worst event among all 2^n, at exactly delta."""
    law = optimal_law(ask(1, TENTH))
    assert [float(law.mass(x)) for x in range(-2, 3)] == pytest.approx(
        [0.052256274, 0.189791006, 0.515905442, 0.189791006, 0.052256274], abs=1e-9
    )
    assert sum(law.weights) == 1 << LAW_BITS
    values = range(law.first, law.last + 2)
    factor = exp_bounds(Fraction(1))[0]
    worst = max(
        sum(law.mass(x) - factor * law.mass(x - 1) for x in event)
        for size in range(len(values) + 1)
        for event in combinations(values, size)
    )
    assert law.delta(Fraction(1)) == worst
    assert Fraction(1, 10) - Fraction(1, 10**15) < worst <= Fraction(1, 10)


@pytest.mark.parametrize("loss", [Absolute(), Square(), ZERO_ONE, ROOT], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("epsilon", "delta"), [("1/2", "1/100"), (1, "1/10"), (2, "3/10"), (0, "1/10")])
def test_least_tails_are_the_program(epsilon: object, delta: str, loss: ErrorLoss) -> None:
    """Sensitivity 1: the recurrence must be the linear program's optimum for any even loss that rises."""
    one = ask(epsilon, delta, 1, loss)
    law = optimal_law(one)
    assert float(law.loss) == pytest.approx(program_value(one, 25), abs=1e-9)
    assert law.gap < Fraction(1, 10**15)


def test_three_values_are_enough_for_a_large_delta() -> None:
    """Delta >= 1 / (2 + e^epsilon): P(X != 0) = 2 (1 - delta) / (1 + e^epsilon)."""
    law = optimal_law(ask(1, Fraction(3, 10), 1, ZERO_ONE))
    assert float(law.loss) == pytest.approx(2 * 0.7 / (1 + 2.718281828459045), abs=1e-12)


def test_uneven_losses_need_the_program() -> None:
    """The least tails are best for even losses only: 2.55398 against 2.43268 where too much costs twice too little."""
    even = optimal_law(ask("1/2", "1/100")).loss * Fraction(3, 2)
    uneven = optimal_law(ask("1/2", "1/100", 1, Pinball(Fraction(2), Fraction(1))))
    assert float(even) == pytest.approx(2.55398, abs=5e-6)
    assert float(uneven.bound) == pytest.approx(2.432683, abs=5e-7)


def test_uniform_at_epsilon_zero() -> None:
    """N equal weights need delta 1 / n at epsilon 0 and shift 1."""
    assert Fraction(1, 7) == worst_delta([5] * 7, 1, Fraction(0))
    assert Fraction(3, 7) == worst_delta([5] * 7, 3, Fraction(0))


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "loss"),
    [
        (1, THOUSANDTH, 2, Absolute()),
        ("1/2", "1e-9", 2, Square()),
        (5, "1e-9", 3, Absolute()),  # the multipliers of the program in rationals do not settle
        (0, TENTH, 2, Square()),
        ("1/2", THOUSANDTH, 3, Pinball(Fraction(2), Fraction(1))),
        (2, TENTH, 2, Pinball(Fraction(9), Fraction(1))),
        (1, THOUSANDTH, 2, ZERO_ONE),  # no rise outwards: proved by the padded program
        (10, "1e-9", 3, Absolute()),
    ],
)
def test_laws_are_certified(epsilon: object, delta: object, sensitivity: int, loss: ErrorLoss) -> None:
    """Loss and bound come from weights and multipliers by code that knows no solver; they must meet."""
    law = optimal_law(ask(epsilon, delta, sensitivity, loss))
    assert law.bound <= law.loss
    assert law.gap <= Fraction(1, 10**6)
    assert law.delta(Fraction(epsilon)) <= Fraction(delta)
    assert law.delta(Fraction(epsilon)) >= Fraction(delta) * (1 - Fraction(1, 10**6))


def test_losses_move_as_they_must() -> None:
    """A stronger promise or a larger sensitivity can not cost less; twice the loss costs twice."""
    base = optimal_law(ask(1, THOUSANDTH, 2)).loss
    assert base > optimal_law(ask(1, Fraction(1, 100), 2)).loss
    assert base > optimal_law(ask(Fraction(11, 10), THOUSANDTH, 2)).loss
    assert base < optimal_law(ask(1, THOUSANDTH, 3)).loss
    twice = TableLoss(tuple(2 * abs(Fraction(x)) for x in range(-3, 4)), Fraction(2), Fraction(2))
    assert float(optimal_law(ask(1, THOUSANDTH, 2, twice)).loss) == pytest.approx(2 * float(base), rel=1e-9)


def test_wider_windows_and_padding() -> None:
    """The program in a window falls with its radius to what the padded one rises to: the optimum on all integers."""
    one = ask(1, THOUSANDTH, 2)
    narrow, wide = program_value(one, 15), program_value(one, 22)
    padded = [
        solve_linear_program(CompactLP(error_costs(one.loss, k + 2), 2, one.limits, 2, True).program).value
        for k in (8, 16, 22)
    ]
    assert wide <= narrow + 1e-12
    assert padded[0] < padded[1] <= padded[2] + 1e-12
    assert padded[2] == pytest.approx(wide, abs=1e-9)
    assert float(optimal_law(one).loss) == pytest.approx(wide, abs=1e-9)


@pytest.mark.parametrize("sensitivity", [2, 3, 5])
def test_protecting_the_largest_shift_only_is_refused(sensitivity: int) -> None:
    """The best law for shift D alone sits on multiples of D: a record that moves the answer by 1 is seen for sure."""
    law = optimal_law(ask(1, TENTH))
    spread = [0] * (sensitivity * (len(law.weights) - 1) + 1)
    spread[::sensitivity] = law.weights
    assert worst_delta(spread, sensitivity, Fraction(1)) == 1
    with pytest.raises(CertificateError, match="does not keep"):
        OptimalLaw(
            ask(1, TENTH, sensitivity), law.first * sensitivity, tuple(spread), LAW_BITS, law.certificate
        )


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_a_changed_weight_is_refused(sensitivity: int) -> None:
    """A law that spends all of delta has no weight that may move by a millionth towards the middle or the end."""
    law = optimal_law(ask(1, THOUSANDTH, sensitivity))
    step = (1 << LAW_BITS) // 10**6
    for k in range(len(law.weights) - 1):
        weights = list(law.weights)
        weights[k] += step
        with pytest.raises(CertificateError):
            OptimalLaw(law.ask, law.first, tuple(weights), law.bits, law.certificate)
    for k in range(law.last):
        weights = list(law.weights)
        middle = -law.first
        if weights[middle + k] > step:
            weights[middle + k] -= step
            weights[middle - 1 - k] += step
            assert worst_delta(weights, sensitivity, Fraction(1)) > THOUSANDTH


def test_several_promises_at_once() -> None:
    """Each promise of a profile is kept, and the closed form for one count is the program's optimum."""
    promises = tuple(
        Promise(Fraction(e), Fraction(d)) for e, d in (("1/2", "1/10"), (1, "1/50"), (2, "1/1000"))
    )
    for sensitivity in (1, 2):
        one = NoiseRequest(promises, sensitivity, Absolute())
        law = optimal_law(one)
        assert law.gap < Fraction(1, 10**9)
        assert all(law.delta(p.epsilon) <= p.delta for p in promises)
        assert float(law.loss) == pytest.approx(program_value(one, 25), abs=1e-9)
        assert law.loss > max(optimal_law(NoiseRequest((p,), sensitivity, Absolute())).loss for p in promises)


def test_any_multipliers_give_a_bound() -> None:
    """A bound that trusts its multipliers could be raised at will; every choice must stay below the optimum."""
    import random

    one = ask(1, THOUSANDTH, 2)
    best = optimal_law(one).loss
    rng = random.Random(5)
    for _ in range(30):
        certificate = {
            (0, shift): Multipliers(
                rng.randint(-6, 2),
                Fraction(rng.randint(0, 3)),
                tuple(Fraction(rng.randint(0, 9), 3) for _ in range(6)),
            )
            for shift in (1, -1, 2, -2)
        }
        assert certified_lower_bound(certificate, [(Fraction(1), THOUSANDTH)], one.loss) <= best
    assert certified_lower_bound({}, [(Fraction(1), THOUSANDTH)], one.loss) == 0
    far = TableLoss((Fraction(1), *[Fraction(3)] * 8))  # least at -4, where no multiplier reaches
    assert certified_lower_bound({}, [(Fraction(1), THOUSANDTH)], far) == 1


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "loss"),
    [
        ("1/2", "1e-6", 2, Absolute()),
        ("1/2", "1e-9", 2, Absolute()),
        (1, "1/10", 3, Square()),
        (1, "1/1000", 2, Pinball(Fraction(2), Fraction(1))),
        (0, "1/10", 3, Absolute()),
        (2, "1e-3", 5, Square()),
    ],
)
def test_rational_optimum_has_equal_values(
    epsilon: object, delta: str, sensitivity: int, loss: ErrorLoss
) -> None:
    """The optimum in rationals: feasible masses and multipliers whose values are the same number."""
    one = ask(epsilon, delta, sensitivity, loss)
    law = optimal_law(one)
    held = [x for x in range(law.first, law.last + 1) if law.mass(x) > Fraction(1, 10**15)]
    lp = CompactLP(
        tuple(loss.at(x) for x in range(held[0], held[-1] + 1)), sensitivity, one.limits, mirror=loss.even
    )
    near = solve_linear_program(lp.program)
    optimum = rational_optimum(lp, near)
    value = sum(m * c for m, c in zip(optimum.masses, lp.costs, strict=True))
    assert value == optimum.value
    assert sum(optimum.masses) == 1
    assert float(value) == pytest.approx(near.value, rel=1e-7)
    assert abs(law.loss / value - 1) < Fraction(1, 10**9)


def test_rational_optimum_refuses_what_is_none() -> None:
    """Floats of another program must end in an error, not in masses that are called best."""
    one, other = ask(1, THOUSANDTH, 2), ask(2, TENTH, 2)
    lp = CompactLP(error_costs(one.loss, 14), 2, one.limits, mirror=True)
    near = solve_linear_program(CompactLP(error_costs(other.loss, 14), 2, other.limits, mirror=True).program)
    with pytest.raises(NotExactError):
        rational_optimum(lp, near)


def test_repair_of_what_exceeds_delta() -> None:
    """Floats exceed a small delta by a part in 10^4; the weights may not, and cost next to nothing more."""
    one = ask(1, "1e-6", 2)
    law = optimal_law(one)
    masses = [law.mass(x) for x in range(law.first, law.last + 1)]
    masses[0] *= 1 + THOUSANDTH
    first, weights = whole_weights([m / sum(masses) for m in masses], law.first, one)
    assert worst_delta(weights, 2, Fraction(1)) <= Fraction(1, 10**6)
    assert sum(weights) == 1 << LAW_BITS
    repaired = OptimalLaw(one, first, weights, LAW_BITS, law.certificate)
    assert repaired.gap < THOUSANDTH
    with pytest.raises(InternalError, match="repaired"):
        whole_weights([Fraction(1)], 0, one)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "error"),
    [
        (-1, TENTH, 1, ConfigError),
        (11, TENTH, 1, ConfigError),
        (1, 0, 1, ConfigError),
        (1, "1e-13", 1, ConfigError),
        (1, 1, 1, ConfigError),
        (1, 2, 1, ConfigError),
        (1, TENTH, 0, ConfigError),
        (1, TENTH, 1001, ConfigError),
        (1, TENTH, True, TypeError),
    ],
)
def test_impossible_wishes_are_refused(epsilon: object, delta: object, sensitivity: int, error: type) -> None:
    """Delta 0 has no finite law, delta 1 no privacy, sensitivity 0 no query."""
    with pytest.raises(error):
        ask(epsilon, delta, sensitivity)


def test_floats_are_refused() -> None:
    """0.1 in binary is not one tenth: the promise would not be the one that was written."""
    with pytest.raises(TypeError):
        Promise(0.1, TENTH)
    with pytest.raises(TypeError):
        Promise(Fraction(1), 1e-6)


def test_bounds_of_the_exponential() -> None:
    """A lower bound above e^epsilon would call laws private that are not."""
    from flint import arb, ctx

    for epsilon in (Fraction(0), Fraction(1, 7), Fraction(1), Fraction(10)):
        low, high = exp_bounds(epsilon)
        factor = Promise(epsilon, TENTH).factor
        ctx.prec = 300
        exact_value = arb(epsilon.numerator) / epsilon.denominator
        true = exact_value.exp()
        assert arb(low.numerator) / low.denominator <= true or epsilon == 0
        assert arb(high.numerator) / high.denominator >= true or epsilon == 0
        assert factor <= low <= high <= low * (1 + Fraction(1, 10**40))
        assert low <= factor * (1 + Fraction(1, 2**60))
    ctx.prec = 53
