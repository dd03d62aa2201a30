"""What a solve cannot do is refused with the plan, before anything is spent."""

from pathlib import Path

import pytest

from tests.helpers import policies, solved
from tests.helpers.failing import fails_with
from tests.helpers.ledgers import with_ledger
from topdown.app import generate_release
from topdown.app.plan_summary import plan_summary
from topdown.errors import ConfigError
from topdown.model import public_constraints
from topdown.plan import prepare
from topdown.solve.tree import coverage as foreseen

LIMITED = {"caps": 12, "blocks, caps, nested": 12, "counties": 0, "blocks, mixed": 0, "nested": 0}


def census_of(folder: Path, policy: str) -> solved.Census:
    """Return a land of twelve blocks."""
    return policies.make_census(folder, 5, policies.POLICIES[policy])


@pytest.mark.parametrize("policy", LIMITED)
def test_pieces_are_counted_as_they_are_made(policy: str, tmp_path: Path) -> None:
    """A count that differs refuses plans that can be solved, or lets a split of seven million pieces through."""
    context = census_of(tmp_path, policy).context
    plan = context.plan
    regions = public_constraints(plan.schema, plan.invariants, context.geography, context.rules)
    counted = regions.n_pieces(0, 0)
    assert counted == len(regions.pieces(0, 0).unit)
    assert counted == LIMITED[policy] or (not LIMITED[policy] and counted < 12)
    first = [regions.n_pieces(1, county) for county in range(len(context.geography.levels[1]))]
    assert max(first) <= counted


def test_too_many_pieces_are_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root of a nation with an upper bound in each block would be one network of seven million pieces."""
    census_of(tmp_path, "caps")
    prepared = prepare(with_ledger(tmp_path / "run.toml"))
    before = prepared.ledger_path.read_bytes()
    monkeypatch.setattr(foreseen, "MOST_PIECES", 12)
    foreseen.check_solve(prepared.context)
    monkeypatch.setattr(foreseen, "MOST_PIECES", 11)
    with fails_with("C235", ConfigError) as caught:
        plan_summary(prepared)
    assert "12 pieces" in str(caught.value)
    with fails_with("C235", ConfigError):
        generate_release(prepared, tmp_path / "release")
    assert before == prepared.ledger_path.read_bytes()


def test_plans_without_limits_are_never_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nation under the 2020 rules has seven million leaves, alike in a few hundred pieces, or in need of none."""
    monkeypatch.setattr(foreseen, "MOST_PIECES", 1)
    foreseen.check_solve(solved.make_census(tmp_path, 3).context)
