"""Which levels the tree estimate covers, every reason named; and its judge states no less than an estimate is off."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import to_builtins

from tests.helpers import policies, solved
from tests.helpers.small_release import make_context
from tests.helpers.solved import solve_answers
from tests.helpers.tree_census import with_tree
from topdown.plan import Pass, PublicContext, load_settings, plan_from_document
from topdown.resources import find
from topdown.solve.tree import LeafPath, Measured, choose_levels, normal_residual_persons
from topdown.solve.tree import coverage as covered

WITH_TREE = '[estimates]\ntargets = "tree"\n\n[budget]'


def reasons(context: PublicContext) -> list[str]:
    """Return why each level is left to its own measurements, "" where it is not."""
    return [at.why for at in choose_levels(context).levels]


def test_a_plan_without_the_table_has_the_hash_it_had(tmp_path: Path) -> None:
    """Older releases must be read and hash as before; only a plan that asks for the tree estimate says so."""
    (tmp_path / "own").mkdir()
    plain = solved.make_census(tmp_path / "plain", 1).context.plan
    said = solved.toy_run().replace("[budget]", WITH_TREE.replace("tree", "own"))
    own = solved.make_census(tmp_path / "own", 1, run=said)
    tree = solved.make_census(tmp_path / "tree", 1, run=solved.toy_run().replace("[budget]", WITH_TREE))
    assert plain.plan_hash == own.context.plan.plan_hash
    assert "estimates" not in plain.to_document()
    assert tree.context.plan.to_document()["estimates"] == {"targets": "tree"}
    assert plain.plan_hash != tree.context.plan.plan_hash
    assert tree.context.plan == plan_from_document(tree.context.plan.to_document())


def test_what_excludes_every_level_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that quietly was not fitted to the tree would be taken for one that is."""
    toy = with_tree(solved.make_census(tmp_path / "toy", 2)).context
    assert reasons(toy) == ["", "", "nothing is below the areas of this level"]
    geometric = make_context(tmp_path / "geometric", "geometric")
    assert {"the noise is not discrete Gaussian"} == set(reasons(geometric))
    soft = policies.make_census(tmp_path / "soft", 2, policies.FEW)
    assert {"there are rules of the kind no_more_than"} == set(reasons(soft.context))
    levels = toy.plan.levels
    leaf = replace(levels[-1], measurements=levels[-1].measurements[:1])
    vague = replace(toy, plan=replace(toy.plan, levels=(*levels[:-1], leaf)))
    assert {"the queries of level block do not tell every cell apart"} == set(reasons(vague))
    monkeypatch.setattr(covered, "MOST_DENSE", 8)
    assert {"dwelling, age have 9 values together, more than 8"} == set(reasons(toy))
    monkeypatch.setattr(covered, "MOST_DENSE", 64)
    monkeypatch.setattr(covered, "MOST_AXES", 0)
    assert {"more than 0 attributes are neither recoded nor closed by a rule"} == set(reasons(toy))


def test_what_cuts_across_product_axes_is_written_out_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lattice step cannot keep such a table: small matrices are written out, else the level is own."""
    toy = with_tree(solved.make_census(tmp_path, 2)).context
    assert choose_levels(toy).in_lattice == (True, True, False)
    county = toy.plan.levels[1]
    passes = (Pass(table="sex", queries=("total",)), county.passes[-1])
    crossed = replace(
        toy,
        plan=replace(
            toy.plan, levels=(toy.plan.levels[0], replace(county, passes=passes), toy.plan.levels[2])
        ),
    )
    assert choose_levels(crossed).in_lattice == (True, False, False)
    assert reasons(crossed)[:2] == ["", ""]
    monkeypatch.setattr(covered, "MOST_STACKED", 10)
    assert (
        reasons(crossed)[1]
        == "the table 'sex' of a pass cuts across attributes that the estimate keeps apart"
    )
    assert reasons(toy)[:2] == ["", ""]


def test_a_release_that_no_level_is_covered_of_says_so(tmp_path: Path) -> None:
    """Its table is that of own measurements, and its document says why."""
    census = policies.make_census(tmp_path, 3, policies.FEW)
    asked = with_tree(census)
    answers, exact = solved.noisy(census, 4), policies.exact_values(census)
    own, tree = solve_answers(census.context, answers, exact), solve_answers(asked.context, answers, exact)
    assert own.leaves.whole().count.tolist() == tree.leaves.whole().count.tolist()
    assert not own.document.statistics
    assert {"there are rules of the kind no_more_than"} == {at.why for at in tree.document.statistics.targets}
    assert list(to_builtins(tree.document.statistics)) == ["targets"]


def test_settings_with_the_tree_differ_in_nothing_else(tmp_path: Path) -> None:
    """They are sold as the same budget, noise and root."""
    tree, plain = (
        load_settings(find("settings", name, tmp_path))
        for name in ("pl94_2020_tree", "pl94_2020_marginal_first")
    )
    assert plain.level == tree.level
    assert (plain.budget, plain.mechanism, plain.neighbours) == (tree.budget, tree.mechanism, tree.neighbours)
    assert tree.estimates is not None
    assert tree.estimates.targets == "tree"
    assert plain.estimates is None


ROWS, COLUMNS = [0, 0, 1, 1], [0, 1, 0, 1]


@pytest.mark.parametrize("with_cells", [False, True])
def test_an_estimate_off_along_the_flattest_direction_shows_in_full(with_cells: bool) -> None:
    """Two margins of three open cells tell them apart with less curvature than either has weight."""
    labels, weights = [ROWS, COLUMNS], [1.0, 1.0]
    if with_cells:
        labels, weights = [*labels, [0, 1, 2, 3]], [*weights, 0.5]
    leaf = Measured(np.array(labels), np.array([0, 2, 4][: len(labels)]), np.array(weights))
    cells, truth = np.array([0, 1, 2]), np.array([5.0, 3.0, 2.0, 0.0])
    curvature = np.zeros((3, 3))
    for of, weight in zip(labels, weights, strict=True):
        curvature += weight * (np.array(of)[cells][:, None] == np.array(of)[cells])
    off = np.zeros(4)
    off[cells] = np.linalg.eigh(curvature)[1][:, 0]
    answers = np.concatenate([np.bincount(of, weights=truth) for of in labels])
    exact, wrong = (LeafPath(cells, (x,), (), (answers,)) for x in (truth, truth + off))
    assert normal_residual_persons([leaf], [exact], []) == pytest.approx(0.0, abs=1e-12)
    assert normal_residual_persons([leaf], [wrong], []) >= np.abs(off).max() * (1 - 1e-12)
