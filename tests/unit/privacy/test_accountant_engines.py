"""Engines share no arithmetic where it matters: every pair of enclosures must overlap."""

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest

from tests.helpers.compositions import weighted
from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.privacy import Enclosure
from topdown.privacy.accountant import trade_off_from_deltas

SMALL = {
    "one coarse": [("1", 1)],
    "three": [("1/3", 1), ("2/5", 1), ("3/7", 1)],
    "equal": [("1/10", 10)],
    "fine": [("1/100", 40), ("3/100", 6)],
}
EPSILONS = ["0", "1/10", "1", "5/2", "9/2", "7"]


def overlap(one, two) -> bool:
    return one.lower <= two.upper and two.lower <= one.upper


@pytest.mark.parametrize("engine", ["float64", "fft", "atoms", pytest.param("sieve", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SMALL)
def test_engines_agree_with_balls(name, engine):
    """An engine with a wrong bound or a wrong sum would leave the ball enclosure."""
    case = weighted(SMALL[name])
    exact = case.curve(EPSILONS, engine="ball", digits=20)
    boxes = case.curve(EPSILONS, engine=engine)
    assert all(overlap(a, b) for a, b in zip(exact, boxes, strict=True))


@pytest.mark.parametrize(
    ("rhos", "engine"),
    [
        ([("11/100000", 20), ("73/100007", 18), ("999/100003", 12), ("1/19", 6)], "ball-free"),
        ([("239/500009", 36), ("999/500009", 20), ("1/50", 40)], "float64"),
    ],
    ids=["balls without a lattice", "sums over a lattice"],
)
def test_the_engine_without_a_lattice_agrees_with_others(rhos, engine):
    """The continuous kernel must give the delta of balls, and that of the lattice, wherever both work."""
    epsilons = ["0", "1/10", "1/2", "1", "2", "4", "5"]
    boxes, free = (weighted(rhos).curve(epsilons, engine=name) for name in (engine, "free"))
    assert all(overlap(a, b) for a, b in zip(boxes, free, strict=True))
    assert max(b.relative_width for b in [*free, *(boxes if engine == "ball-free" else [])]) < 1e-9


@pytest.mark.parametrize("rho", ["1", "4", "16", "1/8"])
@pytest.mark.parametrize("gap", ["1e-9", "1e-30"])
def test_just_below_an_isolated_atom(rho, gap):
    """Delta vanishes there on a coarse lattice; a float threshold would lose every digit."""
    for j in range(4):
        epsilon = Fraction(rho) * (2 * j + 1) / 2 - Fraction(gap)
        case = weighted({rho: 1})
        box, ball = case.delta(epsilon), case.delta(epsilon, engine="ball", digits=20)
        assert overlap(box, ball)
        assert box.relative_width <= 1e-12


def test_a_tie_uses_one_lattice_index_in_both_tails():
    """At a threshold on the lattice an atom belongs to neither tail or to both; one wrong costs 6e-5."""
    case = weighted({"1/3": 6})
    on = case.delta(Fraction(1) + 1)  # eps - R = 1, a lattice point
    just_above = case.delta(Fraction(2) + Fraction(1, 10**14))
    just_below = case.delta(Fraction(2) - Fraction(1, 10**14))
    assert just_above.lower <= on.upper
    assert on.lower <= just_below.upper
    assert abs(float(just_below) / float(just_above) - 1) < 1e-12


def test_delta_far_below_the_floats_is_answered():
    """Deltas of 1e-2000 must not come out as 0 or as garbage."""
    box = weighted({"1/10": 10}).delta(100)
    assert -2157 < box.log10 < -2156
    assert box.relative_width < 1e-12
    epsilon = weighted({"1/10": 10}).epsilon(Fraction(1, 10**400))
    assert epsilon.relative_width < 1e-12


def test_few_mechanisms_without_lattice_use_atoms():
    """101/97, 103/89, 107/83 have a lattice of 716 539 and a few thousand atoms."""
    case = weighted({"101/97": 1, "103/89": 1, "107/83": 1})
    boxes = case.curve([1, 5, 9])
    assert all("atoms" in b.method or "float64" in b.method for b in boxes)
    exact = case.curve([1, 5, 9], engine="atoms")
    assert all(overlap(a, b) for a, b in zip(boxes, exact, strict=True))
    assert max(b.relative_width for b in boxes) <= 1e-12


def test_meet_in_the_middle_agrees_with_all_atoms(monkeypatch):
    """Sums over two halves must equal the sum over all pairs."""
    case = [("1/3", 2), ("2/5", 1), ("3/7", 1)]
    direct = weighted(case).curve(EPSILONS, engine="atoms")
    monkeypatch.setattr("topdown.privacy.accountant.atoms.DIRECT_ATOMS", 0)
    halves = weighted(case).curve(EPSILONS, engine="atoms")
    assert all(overlap(a, b) for a, b in zip(direct, halves, strict=True))
    assert max(h.relative_width for h in halves) < 1e-9


def test_what_no_engine_can_sum_gets_bounds():
    """Fourteen measurements without a common lattice must be answered by bounds, not refused and not run for hours."""
    primes = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167)
    case = weighted({3 + Fraction(1, p): 1 for p in primes})
    (box,) = case.curve([20])
    assert box.method.startswith("bounds")
    assert 0 < box.lower < box.upper < 1
    with fails_with("A009", ConfigError):
        case.delta(20, engine="atoms")


def test_engine_that_does_not_fit_is_refused():
    """A named engine must refuse what it cannot hold in memory."""
    wide = weighted({"1/9999991": 3, "1/9999973": 3})
    with pytest.raises(ConfigError, match="lattice has"):
        wide.delta(1, engine="fft")
    with pytest.raises(ConfigError, match="no engine is called"):
        wide.delta(1, engine="exact")


def test_trade_off_from_deltas_agrees_with_tails():
    """The concave bound must enclose the exact piecewise-linear curve."""
    case = weighted({"1/100": 40, "3/100": 6})
    alphas = [Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]
    exact = case.trade_off_curve(alphas)
    dual = trade_off_from_deltas(case.curve, case.law, alphas, "dual")
    assert all(overlap(a, b) for a, b in zip(exact, dual, strict=True))
    assert max(b.relative_width for b in dual) < 1e-6


def test_paper_sieve_loses_relative_precision_in_the_tail():
    """The twin's absolute tolerance must widen its enclosure by exp(epsilon), as published."""
    case = weighted({"1/10": 10})
    shallow, deep = case.curve([1, 12], engine="sieve")
    assert shallow.relative_width < 1e-30
    assert deep.relative_width > 1e-2 * math.exp(12) * 1e-35 / float(deep)


def test_what_lies_beyond_the_last_node_is_in_the_bound(monkeypatch):
    """Far peaks of a coarse law carry real mass: cut off early, they must show as width, not as error."""
    monkeypatch.setattr("topdown.privacy.accountant.quadrature_nodes.OPEN_PEAKS", 3)
    case = weighted({"1/3": 1, "2/5": 1, "3/7": 1})
    truth = case.curve(EPSILONS, engine="ball")
    free = case.curve(EPSILONS, engine="free")
    assert all(overlap(a, b) for a, b in zip(truth, free, strict=True))
    assert max(abs(float(b) / float(a) - 1) for a, b in zip(truth, free, strict=True)) > 1e-6


def test_few_mechanisms_on_a_lattice_of_1e7_reach_the_width():
    """Five mechanisms, lattice 1e7: too many nodes for sums, so atoms in long double must reach 1e-12."""
    case = weighted(
        {"4999999/10000000": 2, "3141593/10000000": 2, "2718282/10000000": 2, "7777777/10000000": 2}
    )
    points = [Fraction(1, 2), 5, 14]
    boxes = case.curve(points)
    plain = case.curve(points, engine="atoms")
    assert max(b.relative_width for b in boxes) <= 1e-12
    assert all(overlap(a, b) for a, b in zip(boxes, plain, strict=True))


@pytest.mark.parametrize(
    "budgets",
    [
        {Fraction(k * k + 1001, 10**7): 10 for k in range(100)},
        {Fraction(1, 10**7): 999, Fraction(999983, 10**7): 1},
        {Fraction(k, 10): 100 for k in (1, 3, 8, 11, 17, 24, 29)},
    ],
)
def test_a_thousand_measurements_reach_the_width(budgets):
    """1000 measurements, lattice up to 1e7, delta from 1 down to 1e-30: relative width 1e-12 is promised."""
    case = weighted(budgets)
    reach = Fraction(round(case.mu * 1000), 1000)
    boxes = case.curve([0, case.rho / 2, case.rho, case.rho + 5 * reach, case.rho + 11 * reach])
    assert max(b.relative_width for b in boxes) <= 1e-12
    assert boxes[-1].lower > Fraction(1, 10**31)


def test_a_bracket_that_finds_nothing_new_ends():
    """At a kink no bracket is narrow enough, and its step shrank to nothing: the search then asked for no points."""
    law = weighted({"1": 2}).law

    def kinked(points: Sequence[Fraction]) -> list[Enclosure]:
        assert points, "an engine has no answer to no question"
        values = [max(1 - 3 * p, Fraction(0)) for p in points]
        return [Enclosure(v, v) for v in values]

    (box,) = trade_off_from_deltas(kinked, law, [Fraction(7, 10)], "kinked")
    best = Fraction(3, 10) * Fraction(math.exp(-1 / 3))
    assert box.lower - Fraction(1, 10**15) <= best <= box.upper + Fraction(1, 10**15)
    assert box.width < Fraction(1, 100)
