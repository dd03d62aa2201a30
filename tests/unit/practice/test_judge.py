"""Ends of rates against exact binomials, scores against exact laws, claims of pairs against certified ones."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers import audited
from topdown.practice import (
    GuessCut,
    LikelihoodRatios,
    PairAnswers,
    choose_cuts,
    find_pairs,
    guess_rates,
    learned_score,
    loss_of,
    shown_loss,
)
from topdown.privacy import protected_attributes
from topdown.privacy.accountant import PureLoss
from topdown.privacy.laws import DiscreteGaussian, TwoSidedGeometric
from topdown.publish import claims_of, steps_of

LEVEL = Fraction(1, 1000)


def at_most(k: int, n: int, p: Fraction) -> Fraction:
    """Return P(X <= k), X binomial, exactly."""
    return sum((math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1)), Fraction(0))


@pytest.mark.parametrize("n", [7, 40])
def test_ends_of_rates_have_the_stated_confidence(n):
    """An end on the wrong side of Clopper and Pearson's would fail right code more often than is said."""
    for k in range(n + 1):
        scores = np.array([1.0] * k + [0.0] * (n - k))
        up, down = guess_rates(GuessCut(0.5, "best_guess"), scores, scores, float(LEVEL))
        assert k / n <= up <= 1
        assert 0 <= down <= k / n
        if k < n:
            assert at_most(k, n, up) <= LEVEL
            assert at_most(k, n, up - Fraction(1, 10**6)) > LEVEL
        if k > 0:
            assert 1 - at_most(k - 1, n, down) <= LEVEL
            assert 1 - at_most(k - 1, n, down + Fraction(1, 10**6)) > LEVEL


@pytest.mark.parametrize("law", [DiscreteGaussian, TwoSidedGeometric])
def test_the_likelihood_ratio_is_that_of_the_laws(law):
    """Another score than the best one would let small mistakes pass."""
    parameters, random = (Fraction(3), Fraction(5, 2), Fraction(7)), np.random.default_rng(4)
    truth = np.array([[5, 0, 2], [4, 1, 2]])
    answers = PairAnswers(((0, 0), (1, 0), (1, 1)), truth, np.array([float(p) for p in parameters]))
    name = "discrete_gaussian" if law is DiscreteGaussian else "two_sided_geometric"
    runs = random.integers(-9, 9, (50, 6)).astype(np.int32)  # two files of three numbers
    targets = (None, (0, 0), (1, 0), (1, 1))
    found = LikelihoodRatios(answers, name, targets).of(runs)
    assert found.shape == (4, 50)
    for target, scores in zip(targets, found, strict=True):
        for run, score in zip(runs.tolist(), scores, strict=True):
            exact = sum(
                law(p).energy(y - int(a)) - law(p).energy(y - int(b))
                for first in (0, 3)
                for of, y, a, b, p in zip(
                    answers.target, run[first : first + 3], *truth, parameters, strict=True
                )
                if target in (None, of)
            )
            assert score == pytest.approx(float(exact), abs=1e-9)


def test_what_is_learned_sees_shared_noise():
    """One stream at two levels cancels in a difference that no likelihood ratio looks at."""
    random = np.random.default_rng(1)
    noise = random.normal(0, 5, (2, 4000)).round().astype(np.int32)
    sides = [np.stack([side, side + shift], axis=1) for side, shift in zip(noise, (0, 1), strict=True)]
    score = learned_score(([s[:1000] for s in sides[:1]], [s[:1000] for s in sides[1:]]))
    first, second = (score.of(side[1000:])[0] for side in sides)
    assert first.max() < second.min()


def test_a_cut_is_chosen_where_it_shows_most():
    """A threshold at the wrong place proves little of a large loss."""
    random = np.random.default_rng(2)
    first, second = random.normal(0, 1, 20_000), random.normal(2, 1, 20_000)
    guess, epsilon = choose_cuts(first, second, 0.0, 1e-6)
    assert guess.threshold == pytest.approx(1, abs=0.15)
    assert epsilon.threshold > guess.threshold + 0.5


def test_claims_of_pairs_are_within_those_of_their_secret(tmp_path):
    """A pair allowed more than its secret's certified loss would hide what the certificate denies."""
    for relation in ("bounded", "add_remove"):
        context = audited.make_land(tmp_path / relation, neighbours=relation)
        policy = context.policy
        rows = [m for step in steps_of(policy) for m in step.measurements]
        certified = {
            (s.claim.kind, s.claim.of): s.loss for s in protected_attributes(rows, claims_of(policy))
        }
        reached = set()
        for pair in find_pairs(context)[0]:
            mine = loss_of(context.plan, pair)
            assert mine.rho <= certified[pair.kind, pair.of].rho
            if mine.rho == certified[pair.kind, pair.of].rho:
                reached.add((pair.kind, pair.of))
        assert reached == set(certified)


def test_a_change_that_nothing_measures_allows_nothing():
    """Where no count moves, any success beyond a coin's is a leak."""
    loss = PureLoss(Fraction(0), 0, "rho")
    fair, leak = shown_loss(
        loss, [(Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 4), Fraction(1, 3))], Fraction(1, 10**10)
    )
    assert (fair.exceeds, leak.exceeds) == (False, True)
    assert leak.most == Fraction(1, 4)


def test_a_point_on_the_curve_does_not_exceed_it(tmp_path):
    """The verdict is where the certified curve is: at it nothing is refuted, above it something is."""
    context = audited.make_land(tmp_path)
    loss = loss_of(context.plan, find_pairs(context)[0][0])
    alpha, step = Fraction(1, 10), Fraction(1, 10**6)
    most = 1 - loss.trade_off_curve([alpha])[0].lower
    found = shown_loss(loss, [(alpha, most), (alpha, most + step), (alpha, most - step)], Fraction(1, 10**10))
    assert [s.exceeds for s in found] == [False, True, False]
    assert found[0].mu[0] == pytest.approx(found[0].mu[1])
