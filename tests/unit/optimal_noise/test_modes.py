"""What the continuous and the dependent mode say, and laws that depend on a real answer."""

from fractions import Fraction

import pytest
from msgspec import json

from tests.helpers.schemas import problems
from topdown.app.screens import continuous_document, counts_of, dependent_document, rules_of
from topdown.errors import ConfigError
from topdown.formats import document_schema
from topdown.optimal_noise import (
    ABSOLUTE,
    SQUARE,
    Absolute,
    CountQuestion,
    IntervalQuestion,
    KernelConstraint,
    Pinball,
    Promise,
    RealLoss,
    RealQuestion,
    Square,
    additive_law,
    best_kernel,
    cells_excess,
    constant_loss,
    default_cells,
    lower_by_rows,
    rounded_law,
    sandwich,
    solve_linear_program,
    upper_law,
    upper_laws,
    worst_delta,
)


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_the_continuous_document(loss: str) -> None:
    """Ends printed to nearest would claim a little more than was proved."""
    found = sandwich(RealQuestion(Promise(Fraction(1), Fraction(1, 5)), Fraction(3, 2), 6), loss)
    document = json.decode(json.encode(continuous_document(found)))
    assert problems(document, document_schema("noise.continuous")) == []
    low, high = map(Fraction, document["least_loss"])
    assert low <= found.lower < found.upper <= high
    weights = list(map(int, document["lattice"]["weights"]))
    assert (
        worst_delta(weights, 6, Fraction(1))
        <= Fraction(document["lattice"]["delta_needed"])
        <= Fraction(1, 5)
    )
    assert Fraction(document["lattice_loss"]) >= found.on_lattice
    assert all(float(high) < other for other in document["compared"].values())
    text = " ".join(document["sentences"])
    assert "multiple of 1/4" in text
    assert "up to 3/2" in text
    assert "one release" in text


def test_noise_without_epsilon_has_an_enclosure() -> None:
    """The formula of truncated Laplace divides by epsilon; the mode must not."""
    found = sandwich(RealQuestion(Promise(Fraction(0), Fraction(1, 2)), Fraction(1), 4), "l1")
    assert found.lower <= Fraction(1, 2) <= found.upper
    assert list(continuous_document(found).compared) == ["analytic Gaussian"]


@pytest.mark.parametrize(
    ("delta", "worst_case"), [(Fraction(1, 50), False), (Fraction(1, 50), True), (Fraction(0), False)]
)
def test_the_dependent_document(delta: Fraction, worst_case: bool) -> None:
    """A rule printed as cheaper than it is, or a bound as higher, would be a false comparison."""
    question = CountQuestion(Fraction(1), delta, 7, Absolute(), 2, worst_case=worst_case)
    answer = best_kernel(question)
    rules = rules_of(question, additive_law(question))
    document = json.decode(json.encode(dependent_document(answer, rules)))
    assert problems(document, document_schema("noise.dependent")) == []
    low, high = map(Fraction, document["least_loss"])
    assert low <= answer.lower <= answer.loss <= high
    assert ["constant", "additive", "clamped", "remapped"][: 4 if delta else 1] == list(document["compared"])
    assert all(rules[name] <= Fraction(text) for name, text in document["compared"].items())
    assert min(rules.values()) >= answer.lower
    assert "at most 2 apart" in document["sentences"][0]
    assert ("Delta" in " ".join(document["sentences"])) == bool(delta)


@pytest.mark.parametrize(
    "loss", [Absolute(), Square(), Pinball(Fraction(2), Fraction(1))], ids=lambda x: x.name
)
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_additive_noise_to_compare_with_is_private(loss, sensitivity: int) -> None:
    """A rule that is not private would make every kernel look bad."""
    law = additive_law(CountQuestion(Fraction(1, 2), Fraction(1, 20), 6, loss, sensitivity))
    assert sum(law.values()) == 1
    unit = max(p.denominator for p in law.values())
    window = range(min(law), max(law) + 1)
    weights = [int(law.get(i, 0) * unit * 10**9) for i in window]
    assert worst_delta(weights, sensitivity, Fraction(1, 2)) <= Fraction(1, 20) * (1 + Fraction(1, 10**9))


def test_ranges_of_counts() -> None:
    """A range that is misread gives a kernel for other counts than the query has."""
    assert counts_of("0:40") == 40
    for text in ("40", "1:40", "0:0", "0:-3", "0:4.5", "0:9999999", " 0:40"):
        with pytest.raises(ConfigError, match="no range"):
            counts_of(text)


def test_default_cells_keep_programs_small() -> None:
    """A default that takes minutes, or is refused, is none."""
    for epsilon, delta in (("1", "1/5"), ("1/200", "1/200"), ("5", "3/4"), ("0", "1/2"), ("1", "1/1000000")):
        promise = Promise(Fraction(epsilon), Fraction(delta))
        assert 2 <= default_cells(promise) <= 40
    assert default_cells(Promise(Fraction(1), Fraction(1, 5))) >= 25


FIFTH = Promise(Fraction(1), Fraction(1, 5))
SMALL = Promise(Fraction(1, 5), Fraction(1, 20))


def asked(promise: Promise, sensitivity: int, cells: int, n_cells: int, loss: RealLoss = ABSOLUTE):
    return IntervalQuestion(promise, Fraction(sensitivity), cells, n_cells, loss)


@pytest.mark.parametrize(
    ("promise", "right", "printed"),
    [(FIFTH, 0.51319, 0.51508), (Promise(Fraction(2), Fraction(1, 10)), 0.38892, 0.39152)],
    ids=["1, 1/5", "2, 1/10"],
)
def test_cells_beyond_the_sensitivity_hold_no_neighbours(
    promise: Promise, right: float, printed: float
) -> None:
    """Comparing them too costs utility for moves that no record makes."""
    question, inner = asked(promise, 1, 2, 6), range(-5, 5)
    found = upper_laws(question, inner)
    assert round(float(found.loss), 5) == right
    assert found.excess <= promise.delta
    further = tuple(
        KernelConstraint(k, m, 2 if m > k else -2) for k in range(6) for m in range(6) if abs(m - k) == 3
    )
    means = [ABSOLUTE.mean(Fraction(i, 2), Fraction(i + 1, 2)) for i in inner]
    program = question.program(question.possible() + further, lambda i: means[i + 5], inner, 0, promise.delta)
    assert round(solve_linear_program(program.program).value, 5) == printed


def test_three_shifts_are_no_lower_bound() -> None:
    """The family of the upper bound, used below, claims 3.46 or more where a cost of 1.50 is private."""
    coarse, inner = asked(SMALL, 2, 1, 2), range(-7, 7)
    infimum = [ABSOLUTE.infimum(Fraction(2 * i), Fraction(2 * i + 2)) for i in range(-8, 8)]
    program = coarse.program(coarse.possible(), lambda i: infimum[i + 8], inner, 1, SMALL.delta)
    assert solve_linear_program(program.program).value > 3.46
    assert constant_loss(coarse.shares, coarse.width, ABSOLUTE) == 1
    assert lower_by_rows(coarse, inner) == 0


def test_one_shift_is_a_lower_bound() -> None:
    """The corrected bounds rise as cells get finer and stay below what is feasible."""
    lowers = [lower_by_rows(asked(SMALL, 2, k, 2 * k), range(-4 * k, 4 * k)) for k in (1, 2, 4)]
    assert [round(float(bound), 3) for bound in lowers] == [0, 0.469, 0.709]
    finest = asked(SMALL, 2, 4, 8)
    found = upper_laws(finest, range(-28, 28))
    assert round(float(found.loss), 4) == 1.5006
    assert lowers[-1] <= constant_loss(finest.shares, finest.width, ABSOLUTE) == 1


def test_equal_laws_are_the_additive_problem() -> None:
    """Additive noise is one choice of laws: best laws cannot cost more, nor the bound more than any rule."""
    real = RealQuestion(FIFTH, Fraction(2), 4)
    _, additive = upper_law(real, ABSOLUTE, range(-12, 12))
    question = asked(FIFTH, 2, 4, 8)
    found = upper_laws(question, range(-12, 12))
    assert found.loss <= additive + Fraction(1, 10**8)
    bound = lower_by_rows(question, range(-12, 12))
    assert bound <= min(found.loss, constant_loss(question.shares, question.width, ABSOLUTE))


def test_a_moved_mass_is_found() -> None:
    """A check that does not see one law changed by a millionth would not see a wrong solver."""
    question = asked(FIFTH, 1, 2, 4)
    found = upper_laws(question, range(-4, 4))
    rows = [list(row) for row in found.weights]
    k = max(range(8), key=rows[1].__getitem__)
    rows[1][k] += (1 << 64) // 10**6
    rows[1][0 if k else 1] -= (1 << 64) // 10**6
    assert cells_excess(question, found.first, rows) > FIFTH.delta >= found.excess


def test_rounding_keeps_a_total_of_one() -> None:
    """Weights that do not add up are no law."""
    line = RealQuestion(FIFTH, Fraction(1), 1).line(lambda i: Fraction(abs(2 * i + 1)), range(-3, 3))
    for masses in ([0.1, 0.2, 0.2, 0.2, 0.2, 0.1], [1e-300, 0.3, 0.2, 0.2, 0.3, 0.0]):
        law = rounded_law(masses, line)
        assert sum(law.weights) == 1 << 64
        assert law.weights == law.weights[::-1]


def test_questions_without_cells_are_refused() -> None:
    """An interval that is not covered by cells leaves answers without a law."""
    for change in ({"cells": 0}, {"n_cells": 0}, {"sensitivity": Fraction(0)}):
        with pytest.raises(ConfigError, match="no cells"):
            IntervalQuestion(
                **{
                    "promise": FIFTH,
                    "sensitivity": Fraction(1),
                    "cells": 2,
                    "n_cells": 2,
                    "loss": SQUARE,
                    **change,
                }
            )
    with pytest.raises(ConfigError, match="weights"):
        IntervalQuestion(FIFTH, Fraction(1), 2, 2, SQUARE, (Fraction(1), Fraction(1)))
    with pytest.raises(ConfigError, match="rows"):
        upper_laws(asked(FIFTH, 1, 20, 40), range(-40, 40))
