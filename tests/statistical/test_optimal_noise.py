"""Goodness of fit of draws of optimal laws, and proof that the test can fail.

Threshold: the file rejects a correct sampler with probability 1e-6, shared by at most 20 tests.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from topdown.optimal_noise import (
    Absolute,
    ErrorLoss,
    NoiseRequest,
    OptimalLaw,
    Pinball,
    Promise,
    Square,
    optimal_law,
)
from topdown.privacy import AesBits

ALPHA = 1e-6 / 20
N_DRAWS = 200_000
WISHES = [
    (1, "1/1000", 1, Absolute()),
    (1, "1/1000", 2, Square()),
    ("1/2", "1/1000", 3, Pinball(Fraction(2), Fraction(1))),
]


def law_of(epsilon: object, delta: str, sensitivity: int, loss: ErrorLoss) -> OptimalLaw:
    return optimal_law(NoiseRequest((Promise(Fraction(epsilon), Fraction(delta)),), sensitivity, loss))


def draws(law: OptimalLaw) -> np.ndarray:
    source = AesBits()
    return np.array([law.draw(source) for _ in range(N_DRAWS)])


def fit(drawn: np.ndarray, law: OptimalLaw) -> float:
    """p-value of the draws; values with fewer than 50 expected are one bin."""
    masses = np.array([float(law.mass(x)) for x in range(law.first, law.last + 1)])
    counts = np.bincount(drawn - law.first, minlength=masses.size)
    assert counts.size == masses.size
    often = masses * drawn.size > 50
    expected = np.append(masses[often], masses[~often].sum()) * drawn.size
    found = np.append(counts[often], counts[~often].sum())
    kept = expected > 5
    return float(stats.chi2.sf(((found - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum() - 1))


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_draws_fit_the_law(wish: tuple) -> None:
    """A weight that is drawn at another rate than the one that was proved private breaks the promise."""
    law = law_of(*wish)
    assert fit(draws(law), law) > ALPHA


@pytest.mark.parametrize(
    "wrong",
    [(1, "1/1000", 2, Square()), ("11/10", "1/1000", 1, Absolute()), (1, "1/200", 1, Absolute())],
    ids=str,
)
def test_wrong_laws_are_rejected(wrong: tuple) -> None:
    """A test that takes the law of another sensitivity, epsilon or delta for this one tests nothing."""
    law, other = law_of(*WISHES[0]), law_of(*wrong)
    drawn = draws(other)
    assert fit(np.clip(drawn, law.first, law.last), law) < ALPHA


def test_an_off_by_one_is_rejected() -> None:
    """A sampler that starts at the wrong value has the right shape and the wrong law."""
    law = law_of(*WISHES[0])
    drawn = draws(law) + 1
    assert fit(np.minimum(drawn, law.last), law) < ALPHA
