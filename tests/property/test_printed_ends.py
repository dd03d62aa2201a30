"""Every printed end of an interval, read back as an exact decimal, has the truth on its right side."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsr import Budget, Plan, Sizes, tree_of
from pgsr.level_noise import calibrate
from pgsr.privacy_section import privacy_section
from topdown.app.screens import loss
from topdown.privacy import Enclosure, fixed, rational, significant
from topdown.privacy.accountant import Composition, account_document

EXACT = {"engine": "ball", "digits": 40}
NUMBERS = st.builds(
    lambda n, d, shift: Fraction(n, d) * Fraction(10) ** shift,
    st.integers(-(10**25), 10**25),
    st.integers(1, 10**25),
    st.one_of(st.integers(-12, 12), st.integers(-400, 400)),
)


@given(NUMBERS, st.integers(1, 40))
def test_significant_digits_are_outward_and_tight(value, digits):
    """Tiny, huge, negative: the text is a bound, and no further off than its last digit."""
    low, high = (Fraction(significant(value, digits, up=up)) for up in (False, True))
    assert low <= value <= high
    assert high - low <= abs(value) / 10 ** (digits - 1)


@given(NUMBERS, st.integers(0, 40))
def test_fixed_digits_are_outward_and_tight(value, digits):
    """A screen has room for few decimals; they must be on the right side too."""
    low, near, high = (Fraction(fixed(value, digits, up=up)) for up in (False, None, True))
    assert low <= value <= high
    assert high - low <= Fraction(1, 10**digits)
    assert abs(near - value) * 2 <= Fraction(1, 10**digits)
    assert Fraction(loss("rho", value).split("\u00a0")[1]) >= value


@given(NUMBERS, NUMBERS, st.integers(1, 20))
def test_texts_of_an_enclosure_enclose_it(one, two, digits):
    """What stands in a document must hold everything that the engine's interval holds."""
    box = Enclosure(min(one, two), max(one, two))
    low, high = map(Fraction, box.texts(digits))
    assert low <= box.lower <= box.upper <= high


RHOS = [Fraction(n, 7 * 10**k) for k in (0, 2, 4) for n in (1, 2, 3, 5, 8, 11, 13, 17)]


@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_a_gaussian_release_encloses_its_epsilon(rho):
    """Printed to nearest, all 24 of these had the true epsilon outside."""
    tree = tree_of([[-1], [0, 0]])
    plan = Plan(Sizes(4), Budget(rho=rho, shares=("1/3", "2/3")), relations=("move",))
    noise = calibrate("tail", tree, plan.sizes, plan.budget, plan.steps)
    (row,) = privacy_section(plan, tree, noise)["secrets"]
    whole = Composition.of([(variance, 1, 1) for variance in noise.parameters])
    _between(row["epsilon"]["1e-10"], whole.epsilon("1e-10", **EXACT))
    _between(row["best_guess"], whole.best_guess(**EXACT))
    assert Fraction(row["right_in_100"]) >= 100 * whole.best_guess(**EXACT).lower


@pytest.mark.parametrize("rhos", ["1/7", "11/10000*20,73/10000*18", "1/1000", "13/3"])
def test_account_encloses_the_truth(rhos):
    """Document and usual formulas of `topdown account`, at small and large budgets."""
    document = account_document(rhos, epsilons=["1/2"], deltas=["1e-10", "1e-30"], alphas=["1/20"])
    paid = {rational(m["rho"], "rho"): m["count"] for m in document["measurements"]}
    whole = Composition.from_rho(paid, document["neighbours"])
    for delta, pair in document["epsilon"].items():
        truth = whole.epsilon(delta, **EXACT)
        _between(pair, truth)
        for column in ("bun_steinke", "canonne_kamath_steinke"):
            assert Fraction(document["usual"][column][delta]) >= truth.lower
    _between(document["delta"]["1/2"], whole.delta("1/2", **EXACT))
    _between(document["trade_off"]["1/20"], whole.trade_off("1/20", **EXACT))
    _between(document["best_guess"], whole.best_guess(**EXACT))


def _between(pair, truth):
    """Check that stated ends hold an exact enclosure."""
    low, high = map(Fraction, pair)
    assert low <= truth.lower <= truth.upper <= high
