"""The whole descent on random tiny censuses of any shape, under constraints that real people meet."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import policies, solved
from tests.helpers.depth import repeats
from tests.helpers.random_census import draw, make_random_census
from topdown.errors import ConfigError
from topdown.model import split_polytopes as polytopes
from topdown.solve import Solved, solve_answers

seeds = st.integers(0, 10_000_000)
SIZES = st.sampled_from([0.0, 0.3, 3.0, 30.0, 300.0])  # of the noise, against the planned one


def census_of(seed: int, *, plain: bool = False) -> solved.Census:
    """Return a random census; constraints that the plan refuses are drawn again by hypothesis."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return make_random_census(Path(folder), seed, plain=plain)
        except ConfigError as error:
            assume(error.code not in ("C073", "C074"))
            if error.code == "C120":  # nobody could be anybody else
                assert not draw(seed, plain=plain).some_can_change()
                assume(False)
            raise


def solve_all(census: solved.Census, seed: int, size: float) -> Solved:
    """Solve a census from noisy answers and check that everything was solved and proved."""
    exact, tables = policies.exact_values(census), policies.exact_tables(census)
    result = solve_answers(census.context, solved.noisy(census, seed, size=size), exact, tables=tables)
    policies.check_promises(census, result.leaves.whole())
    assert not len(result.leaves.whole().count) or result.leaves.whole().count.min() > 0
    for level in result.document.levels:
        assert level.n_unconverged == 0
        assert level.max_kkt_residual_persons <= 1e-5
        assert level.n_roundings_optimal == level.n_roundings
    return result


@pytest.mark.deep
@given(seeds, SIZES)
@settings(max_examples=repeats(15, 160), deadline=None)
def test_every_census_can_be_released(seed: int, size: float) -> None:
    """Noise is paid for before the first split: after it there must be no infeasible area and no unproved answer."""
    census = census_of(seed)
    result = solve_all(census, seed + 1, size)
    assert result.document.failsafe == []
    if size == 0.0 and census.context.plan.invariants.exact:
        n = result.leaves.n_nodes
        np.testing.assert_array_equal(result.leaves.whole().dense(0, n), census.truth[-1].dense(0, n))


@pytest.mark.deep
@given(seeds, SIZES)
@settings(max_examples=repeats(8, 80), deadline=None)
def test_without_limits_the_failsafe_keeps_every_promise(seed: int, size: float) -> None:
    """Where limits are not kept (more kinds than MAX_KINDS), the failsafe alone must lead to a release."""
    census = census_of(seed, plain=True)  # what the plan accepts for any number of kinds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polytopes, "MAX_KINDS", 0)
        result = solve_all(census, seed + 1, size)
    for use in result.document.failsafe:
        assert use.distance >= 2
        assert use.constraints
        assert use.smallest
