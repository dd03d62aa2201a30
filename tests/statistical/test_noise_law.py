"""Goodness of fit of two million draws a law, and proof that the test can fail.

Threshold: the whole file rejects a correct sampler with probability SUITE_ALPHA = 1e-6, shared equally by at
most N_TESTS = 200 tests (so each law is tested at 5e-9, stricter than 1e-6). Each wrong sampler below must be
rejected; `test_power_is_stated` computes that each is, with probability above 1 - 1e-6.
Bins: neighbouring outcomes joined until each bin holds at least 1/16 of the law.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from topdown.plan import optimal_weights, parse_weights
from topdown.privacy import AesBits, Sampler, draw_one
from topdown.privacy.laws import (
    DiscreteGaussian,
    NoiseDistribution,
    TwoSidedGeometric,
    WeightedInteger,
)

SUITE_ALPHA, N_TESTS = 1e-6, 200
ALPHA = SUITE_ALPHA / N_TESTS
N_DRAWS = 2_000_000
BIN_SHARE = 1 / 16

# 2020 redistricting settings of the United States: level share and distinct query shares
RHO = Fraction(293764, 114921)
SHARES = {
    "US": ("104/4099", "26/4097 52/4097 130/4097 26/241 189/241"),
    "State": ("1440/4099", "6/4097 12/4097 2/241 230/4097 3773/4097"),
    "County": ("447/4099", "10/4097 28/4097 101/4097 754/4097 3126/4097"),
    "Tract": ("687/4099", "5/4102 4/2051 10/2051 67/4102 241/2051 1567/4102 1933/4102"),
    "Block_Group": ("1256/4099", "3/4099 9/4099 24/4099 1055/4099 1288/4099 1705/4099"),
    "Block": ("165/4099", "5/4097 9/4097 21/4097 71/4097 3945/4097"),
}


def best(epsilon: Fraction, delta: Fraction) -> WeightedInteger:
    """Return the best law for one count."""
    return WeightedInteger(parse_weights(optimal_weights(epsilon, delta)))


PRODUCTION = [
    DiscreteGaussian(1 / (RHO * Fraction(level) * Fraction(query)))
    for level, queries in SHARES.values()
    for query in queries.split()
]
OTHERS: list[NoiseDistribution] = [
    *map(DiscreteGaussian, [Fraction(1, 3), 1, 4, 100, 2500]),
    *map(TwoSidedGeometric, [Fraction(1, 2), 2, 10, 100]),
    *(best(Fraction(1), Fraction(1, 1000)), best(Fraction(1, 10), Fraction(1, 10**6))),
]
LAWS: list[NoiseDistribution] = [*PRODUCTION, *OTHERS]


def name_of(law: NoiseDistribution) -> str:
    """Return a short name for a test of the law."""
    return str(law)[:48]


@lru_cache(maxsize=64)
def exact_pmf(law: NoiseDistribution) -> tuple[int, np.ndarray]:
    """(first outcome, probabilities) of all outcomes but tails below 2^-48."""
    half = law.half_width(48)
    upper = [float(law.pmf(k, 60)[0]) for k in range(half + 1)]
    return -half, np.array([*upper[:0:-1], *upper])


def bin_edges(pmf: np.ndarray, share: float = BIN_SHARE) -> np.ndarray:
    """First index of every bin: each holds at least `share`."""
    edges, mass = [0], 0.0
    for i, p in enumerate(pmf):
        mass += p
        if mass >= share:
            edges.append(i + 1)
            mass = 0.0
    return np.array(edges[:-1]) if len(edges) > 2 else np.array([0, len(pmf) // 2, len(pmf) // 2 + 1])


def counts_of(drawn: np.ndarray, first: int, n_outcomes: int) -> np.ndarray:
    """Count per outcome; whatever lies outside is counted in the end outcomes."""
    return np.bincount(np.clip(drawn - first, 0, n_outcomes - 1), minlength=n_outcomes)


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """p-value of the counts under the probabilities."""
    expected = counts.sum() * probabilities / probabilities.sum()
    assert expected.min() > 50
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def fit(drawn: np.ndarray, law: NoiseDistribution) -> float:
    """p-value of the draws under the law, binned."""
    first, pmf = exact_pmf(law)
    edges = bin_edges(pmf)
    counts = np.add.reduceat(counts_of(drawn, first, len(pmf)), edges)
    return chi_square(counts, np.add.reduceat(pmf, edges))


@pytest.mark.parametrize("law", LAWS, ids=name_of)
def test_two_million_draws_fit_the_law(law: NoiseDistribution) -> None:
    """A sampler that is wrong by as little as 1 % in sigma would be rejected here."""
    drawn = Sampler(law, AesBits()).draw(N_DRAWS)
    assert fit(drawn, law) > ALPHA


@pytest.mark.parametrize("law", [law for law in LAWS if law.half_width(1) > 8], ids=name_of)
def test_residues_modulo_eight_fit_the_law(law: NoiseDistribution) -> None:
    """A comb (missing odd values, doubled multiples) keeps coarse bins intact and shows in the residues."""
    drawn = Sampler(law, AesBits()).draw(N_DRAWS)
    first, pmf = exact_pmf(law)
    residues = np.bincount((np.arange(len(pmf)) + first) % 8, weights=pmf, minlength=8)
    assert chi_square(np.bincount(drawn % 8, minlength=8), residues) > ALPHA


@pytest.mark.parametrize("law", OTHERS, ids=name_of)
@pytest.mark.parametrize("lag", [1, 2])
def test_neighbouring_draws_are_independent(law: NoiseDistribution, lag: int) -> None:
    """Bits used twice would correlate the noise of neighbouring cells."""
    drawn = Sampler(law, AesBits()).draw(N_DRAWS)
    first, pmf = exact_pmf(law)
    edges = bin_edges(pmf, 1 / 5)
    shares = np.add.reduceat(pmf, edges)
    bins = np.searchsorted(edges, np.clip(drawn - first, 0, len(pmf) - 1), side="right") - 1
    pairs = bins.reshape(-1, 2 * lag)[:, [0, lag]]
    counts = np.bincount(pairs[:, 0] * len(shares) + pairs[:, 1], minlength=len(shares) ** 2)
    assert chi_square(counts, np.outer(shares, shares).ravel()) > ALPHA


@pytest.mark.parametrize(
    ("stddev", "n"), [(10**4, N_DRAWS), (10**6, 20_000)], ids=["wide table", "rejection"]
)
def test_wide_laws_fit_the_normal_integral(stddev: int, n: int) -> None:
    """Stage two decides most draws at 10^8, the route without a table all at 10^12: the integral is exact to 1e-9."""
    drawn = Sampler(DiscreteGaussian(stddev**2), AesBits()).draw(n)
    quantiles = np.floor(stats.norm.ppf(np.arange(1, 16) / 16) * stddev)
    shares = np.diff(np.concatenate([[0], stats.norm.cdf((quantiles + 0.5) / stddev), [1]]))
    assert chi_square(np.bincount(np.searchsorted(quantiles, drawn), minlength=16), shares) > ALPHA


@pytest.mark.parametrize(
    "law",
    [DiscreteGaussian(4), DiscreteGaussian(100), TwoSidedGeometric(2), best(Fraction(1), Fraction(1, 1000))],
    ids=name_of,
)
def test_fast_and_slow_twin_agree(law: NoiseDistribution) -> None:
    """Two samplers that share no idea but the law: a fault in either one shows as a difference."""
    source = AesBits()
    slow = np.array([draw_one(law, source) for _ in range(20_000)])
    fast = Sampler(law, source).draw(200_000)
    assert fit(slow, law) > ALPHA
    first, pmf = exact_pmf(law)
    edges = bin_edges(pmf)
    table = [np.add.reduceat(counts_of(drawn, first, len(pmf)), edges) for drawn in (slow, fast)]
    assert stats.chi2_contingency(table).pvalue > ALPHA


def rounded_normal(variance: float) -> np.ndarray:
    return np.rint(np.random.default_rng().normal(0.0, variance**0.5, N_DRAWS)).astype(np.int32)


def rounded_normal_pmf(variance: float, outcomes: np.ndarray) -> np.ndarray:
    stddev = variance**0.5
    return stats.norm.cdf((outcomes + 0.5) / stddev) - stats.norm.cdf((outcomes - 0.5) / stddev)


def mutant_law(law: NoiseDistribution) -> tuple[Callable[[], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """Draws and pmf of another law, as if it had been drawn by mistake."""

    def pmf_at(outcomes: np.ndarray) -> np.ndarray:
        return np.array([float(law.pmf(int(k), 60)[0]) for k in outcomes])

    return lambda: Sampler(law, AesBits()).draw(N_DRAWS), pmf_at


def mutant_rounded(variance: float) -> tuple[Callable[[], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    return lambda: rounded_normal(variance), lambda outcomes: rounded_normal_pmf(variance, outcomes)


PERCENT = Fraction(101, 100)
MUTANTS = {
    "sigma 2 + 1 %": (DiscreteGaussian(4), mutant_law(DiscreteGaussian(4 * PERCENT**2))),
    "sigma 2 - 1 %": (DiscreteGaussian(4), mutant_law(DiscreteGaussian(4 / PERCENT**2))),
    "sigma 10 + 1 %": (DiscreteGaussian(100), mutant_law(DiscreteGaussian(100 * PERCENT**2))),
    "sigma 50 - 1 %": (DiscreteGaussian(2500), mutant_law(DiscreteGaussian(2500 / PERCENT**2))),
    "rounded normal, sigma 1": (DiscreteGaussian(1), mutant_rounded(1.0)),
    "rounded normal, sigma 2": (DiscreteGaussian(4), mutant_rounded(4.0)),
    "variance as stddev": (DiscreteGaussian(4), mutant_law(DiscreteGaussian(16))),
    "stddev as variance": (DiscreteGaussian(4), mutant_law(DiscreteGaussian(2))),
    "exponent without the 2": (DiscreteGaussian(100), mutant_law(DiscreteGaussian(50))),
    "scale 10 + 2 %": (TwoSidedGeometric(10), mutant_law(TwoSidedGeometric(10 * Fraction(102, 100)))),
    "epsilon 1 + 5 %": (
        best(Fraction(1), Fraction(1, 1000)),
        mutant_law(best(Fraction(105, 100), Fraction(1, 1000))),
    ),
    "delta for epsilon": (
        best(Fraction(1, 10), Fraction(1, 10**6)),
        mutant_law(best(Fraction(1, 10), Fraction(1, 100))),
    ),
    "Laplace for Gauss": (DiscreteGaussian(8), mutant_law(TwoSidedGeometric(2))),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_samplers_are_rejected(name: str) -> None:
    """A goodness-of-fit test that accepts these would accept the bugs shipped elsewhere for years."""
    law, (draw, _) = MUTANTS[name]
    assert fit(draw(), law) < ALPHA


@pytest.mark.parametrize("name", MUTANTS)
def test_power_is_stated(name: str) -> None:
    """A mutant rejected only most of the time would make the suite flaky: noncentral chi-square, 1 - 1e-6."""
    law, (_, pmf_at) = MUTANTS[name]
    first, pmf = exact_pmf(law)
    edges = bin_edges(pmf)
    right = np.add.reduceat(pmf, edges)
    wrong = np.add.reduceat(pmf_at(np.arange(len(pmf)) + first), edges)
    wrong += np.eye(len(wrong))[[0, -1]].sum(axis=0) * (1 - wrong.sum()) / 2
    noncentrality = N_DRAWS * ((wrong - right) ** 2 / right).sum()
    threshold = stats.chi2.isf(ALPHA, len(edges) - 1)
    # P(noncentral chi-square < mean - sqrt(2 x) stddev) <= exp(-x) (Birgé 2001, lemma 8.1); exp(-13.9) < 1e-6
    mean, stddev = len(edges) - 1 + noncentrality, (2 * (len(edges) - 1 + 2 * noncentrality)) ** 0.5
    assert mean - (2 * 13.9) ** 0.5 * stddev > threshold


def test_number_of_tests_is_within_the_share(request: pytest.FixtureRequest) -> None:
    """More tests than N_TESTS would raise the suite's false-alarm rate above SUITE_ALPHA."""
    here = [item for item in request.session.items if item.path == request.path]
    assert len(here) <= N_TESTS
