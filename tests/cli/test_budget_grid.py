"""`budget_grid`: each point says what a plan with that budget would say of itself."""

from fractions import Fraction

import pytest

from tests.cli.test_plan_budget import write
from tests.helpers.failing import fails_with
from topdown import app, plan
from topdown.errors import ConfigError


@pytest.mark.parametrize("kind", ["bounded", "add_remove", "geometric"])
def test_a_point_is_what_a_plan_of_its_budget_says(toy, tmp_path, kind):
    """A board decides by these numbers: each must be that of the plan that follows from the decision."""
    context = plan(write(tmp_path / "a", toy, kind)).prepared.context
    grid = app.budget_grid(context, [Fraction(1, 2), Fraction(4)])
    assert [point.epsilon for point in grid] == [Fraction(1, 2), 4]
    for n, point in enumerate(grid):
        made = plan(write(tmp_path / str(n), toy, kind, str(point.budget)))
        row = app.certified_loss(made.prepared.context.policy)
        assert point.certified_epsilon <= point.epsilon
        assert (point.loss_name, point.right_in_100) == (made.plan.loss_name, row.right_in_100)
        low, high = (Fraction(x) for x in next(iter(row.epsilon.values())))
        assert Fraction(99, 100) * low <= point.certified_epsilon <= Fraction(101, 100) * high
        noise = {(q.level, q.query): q.stddev for q in made.summary.queries}
        estimates = {(q.level, q.query): q.stddev for q in app.mean_deviations(made.prepared.context)}
        assert {(e.level, e.query): e.noise for e in point.errors if e.noise is not None} == noise
        assert {(e.level, e.query): e.estimate for e in point.errors if e.estimate is not None} == estimates
        assert estimates or kind == "geometric"
    small, large = grid
    assert small.right_in_100 < large.right_in_100
    assert all(a.noise is None or a.noise > b.noise for a, b in zip(small.errors, large.errors, strict=True))


@pytest.mark.parametrize(
    ("epsilons", "delta", "code"),
    [
        ([], "1e-10", "C325"),
        (["1", "1"], "1e-10", "C325"),
        (range(1, 22), "1e-10", "C325"),
        (["0"], "1e-10", "C151"),
        (["1"], "1", "C152"),
    ],
)
def test_a_grid_without_a_meaning_is_refused(toy, tmp_path, epsilons, delta, code):
    """A grid with a hole, or an epsilon that no budget keeps, must not be drawn."""
    context = plan(toy(tmp_path / "a")).prepared.context
    with fails_with(code, ConfigError):
        app.budget_grid(context, [Fraction(e) for e in epsilons], Fraction(delta))
