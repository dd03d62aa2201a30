"""Deviations as functions of shares: the same as a plan's, with the derivative they have."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.solved import make_census
from tests.helpers.tree_census import on_one_pattern
from topdown.arrays import Floats
from topdown.plan import PublicContext
from topdown.practice import UniformDeviations, WantedDeviations, best_shares, uniform_deviations
from topdown.solve.tree import LatticeForm, expected_deviations, lattice_form

NAMES = ("total", "sex * age", "detailed")


def model_of(context: PublicContext) -> UniformDeviations:
    """Return the model of a census."""
    form = lattice_form(context)
    assert isinstance(form, LatticeForm)
    return uniform_deviations(context, form, NAMES)


def shares_of(context: PublicContext) -> list[Floats]:
    """Return the shares of its plan."""
    plan = context.plan
    return [np.array([float(m.loss / plan.loss) for m in level.measurements]) for level in plan.levels]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_deviations_are_those_of_the_plan(tmp_path: Path, seed: int) -> None:
    """Shares would be tuned for another tree if leaves that stand for several were counted once, or a level twice."""
    context = on_one_pattern(make_census(tmp_path, seed, n_blocks=9).context)
    found = model_of(context).deviations(shares_of(context))
    expected = {(at.level, at.query): at.stddev for at in expected_deviations(context)}
    places = [(level.name, name) for level in context.plan.levels for name in NAMES]
    assert [expected[at] for at in places] == pytest.approx(found.ravel().tolist(), rel=1e-9, abs=1e-5)


@pytest.mark.parametrize("seed", [4, 5])
def test_derivatives_are_differences(tmp_path: Path, seed: int) -> None:
    """With a term of the gradient lost, the search ends early at shares that are not the best."""
    context = make_census(tmp_path, seed, n_blocks=9).context
    model, shares = model_of(context), shares_of(context)
    weights = np.random.default_rng(seed).random((len(shares), len(NAMES)))
    by_share = np.concatenate(model.with_gradient(shares, lambda _: weights)[1])
    whole, found = np.concatenate(shares), []
    cuts = np.cumsum([len(part) for part in shares])[:-1]
    for i, share in enumerate(whole):
        step = np.zeros(len(whole))
        step[i] = 1e-5 * share
        up, down = (model.deviations(np.split(whole + sign * step, cuts)) for sign in (1, -1))
        found.append(float(((up - down) * weights).sum() / (2 * step[i])))
    assert found == pytest.approx(by_share.tolist(), rel=1e-5, abs=1e-6)


def test_the_search_finds_what_no_small_change_betters(tmp_path: Path) -> None:
    """A search that stops anywhere, or that breaks a least share, would still print a table that looks right."""
    context = make_census(tmp_path, 6, n_blocks=9).context
    model, start = model_of(context), shares_of(context)
    wished = model.deviations(start)
    wished[1, 0] /= 2  # the county's total is worth more than it got
    worthless = tuple(
        np.array([d == 0 and m.query == "total" for m in level.measurements])
        for d, level in enumerate(context.plan.levels)
    )
    least = tuple(
        np.array([(m.query == "detailed") / 8 for m in level.measurements]) for level in context.plan.levels
    )
    best = best_shares(model, start, WantedDeviations(wished, worthless, least))

    def worst(shares: list[Floats]) -> float:
        live = wished > 1e-6
        return float((model.deviations(shares)[live] / wished[live]).max())

    assert worst(best) < 0.9 * worst(start)
    assert sum(float(part.sum()) for part in best) == pytest.approx(1.0)
    assert all((part + 1e-12 >= floor * part.sum()).all() for part, floor in zip(best, least, strict=True))
    rng = np.random.default_rng(7)
    for _ in range(40):
        other = [part * np.exp(0.05 * rng.normal(size=len(part))) for part in best]
        whole = sum(float(part.sum()) for part in other)
        assert worst([part / whole for part in other]) > 0.99 * worst(best)
