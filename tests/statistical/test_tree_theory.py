"""What theory says of the whole-tree estimate on Rhode Island, and what `topdown tune` gives for it."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import topdown
from tests.helpers.tree_census import on_one_pattern
from topdown.app import mean_deviations
from topdown.plan import PublicContext, RunFileAnswers, prepare, run_file_text
from topdown.practice import uniform_deviations
from topdown.solve import query_of_labels
from topdown.solve.tree import (
    LatticeForm,
    answer_variance,
    expected_deviations,
    lattice_form,
    open_values,
    regular_inverse,
)

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "rhode_island_2010"
LEVELS = ("state", "county", "tract", "block_group", "block")
QUERIES = ("total", "votingage", "hispanic", "cenrace", "detailed")
# Change of the mean deviation, per cent, from a theory of households only, which is what three blocks in four hold.
EXPECTED = {
    "state": ((-11.0, -5.0), (-11.0, -5.0), (-11.0, -5.0), (-11.0, -5.0)),
    "county": ((-15.0, -2.0),) * 5,
    "tract": ((-22.5, -21.5), (-25.5, -24.0), (-17.5, -16.5), (-18.5, -17.0), (-34.0, -32.5)),
    "block_group": ((-11.0, -3.0),) * 5,
    "block": ((-0.1, 0.0),) * 5,
}


def linear(context: PublicContext, form: LatticeForm) -> dict[tuple[str, str], float]:
    """Return mean deviations of linear TopDown: V_c = s (1 - 1/m) + V_parent / m^2, s from a level's own queries."""
    lattice, geography = form.lattice, context.geography
    t = np.flatnonzero(open_values(lattice, context.rules.class_of_cell, context.rules.open[0])[0])
    out, v = {}, np.zeros((1, lattice.n_components, len(t), len(t)))
    for depth, level in enumerate(geography.levels):
        own = regular_inverse(form.own[depth].on(t))
        if depth == 0:
            ones = np.ones(len(t))
            half = own[0] @ ones
            v[0] = own
            v[0, 0] -= np.outer(half, half) / (ones @ half)  # the total is exact
            here = np.ones(1, dtype=bool)
        else:
            here = context.rules.inhabited[depth]
            m = np.bincount(level.parent[here], minlength=len(v)).astype(float)[level.parent][
                :, None, None, None
            ]
            v = own * (1 - 1 / np.maximum(m, 1)) + v[level.parent] / np.maximum(m, 1) ** 2
        for name in QUERIES:
            query = query_of_labels(lattice, context.plan.query(name).labels)
            chosen = [1 if query.kept >> a & 1 else n for a, n in enumerate(lattice.sizes)]
            groups = np.unique(query.group[t])
            found = [
                np.sqrt(answer_variance(lattice, v[here], (query.group[t] == g).astype(float), chosen)).mean()
                for g in groups
            ]
            out[level.name, name] = float(np.mean(found))
    return out


def outside(tree: dict[tuple[str, str], float], plain: dict[tuple[str, str], float]) -> list[str]:
    """Name what gains more or less than theory says."""
    found = []
    for level, ranges in EXPECTED.items():
        for query, (least, most) in zip(QUERIES[-len(ranges) :], ranges, strict=True):
            gain = 100 * (tree[level, query] / plain[level, query] - 1)
            if not least <= gain <= most:
                found.append(f"{level} {query} {gain:.2f}")
    return found


@pytest.mark.slow
@pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared with the Rhode Island blocks is not beside the checkout"
)
def test_the_tree_gains_what_theory_says(tmp_path: Path) -> None:
    """A weight lost in the sweep, or an information counted twice, changes the gain at some level."""
    run = tmp_path / "run.toml"
    answers = RunFileAnswers(prefix_lengths=(2, 5, 11, 12, 15), data_set="rhode_island")
    files = DATA / "persons.csv.gz", DATA / "blocks.csv.gz"
    run.write_text(run_file_text("pl94", "pl94_2020_tree", *files, run, LEVELS, answers), encoding="utf-8")
    context = on_one_pattern(prepare(run).context)
    form = lattice_form(context)
    assert isinstance(form, LatticeForm)
    plain = linear(context, form)
    tree = {(at.level, at.query): at.stddev for at in expected_deviations(context)}
    assert tree["state", "total"] < 0.01
    assert outside(tree, plain) == []
    assert outside({place: 1.05 * value for place, value in tree.items()}, plain) != []
    assert outside({place: 0.95 * value for place, value in tree.items()}, plain) != []
    model = uniform_deviations(context, form, QUERIES)
    shares = [
        np.array([float(m.loss / context.plan.loss) for m in at.measurements]) for at in context.plan.levels
    ]
    places = [(level, query) for level in LEVELS for query in QUERIES]
    for theory, by_model in ((tree, model.deviations(shares)), (plain, model.linear(shares))):
        assert [theory[at] for at in places] == pytest.approx(by_model.ravel().tolist(), rel=1e-7, abs=1e-2)


GOALS = {("tract", "total"): "39/50", ("block", "total"): "4/5", ("block", "detailed"): "17/20"}


@pytest.mark.slow
@pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared with the Rhode Island blocks is not beside the checkout"
)
def test_the_settings_are_what_tune_gives(tmp_path: Path) -> None:
    """Settings edited by hand, or made for other goals than their header says, would not be what they claim."""
    answers = RunFileAnswers(prefix_lengths=(2, 5, 11, 12, 15), data_set="rhode_island")
    files = DATA / "persons.csv.gz", DATA / "blocks.csv.gz"
    for name in ("pl94_2020_tree", "pl94_tuned"):
        run = tmp_path / f"{name}.toml"
        run.write_text(run_file_text("pl94", name, *files, run, LEVELS, answers), encoding="utf-8")
    goals = [
        f'[[goal]]\nlevel = "{level}"\nquery = "{query}"\ngoal = "{goal}"\n'
        for (level, query), goal in GOALS.items()
    ]
    (tmp_path / "goals.toml").write_text('type = "topdown.goals"\nversion = 1\n' + "".join(goals))
    made = (
        topdown.plan(tmp_path / "pl94_2020_tree.toml")
        .tune(tmp_path / "new.toml", goals=tmp_path / "goals.toml")
        .document
    )
    bundled = prepare(tmp_path / "pl94_tuned.toml").context
    assert made.loss == f"{bundled.plan.loss}"
    for level, new in zip(bundled.plan.levels, made.levels, strict=True):
        assert abs(Fraction(new.after) - level.share) < Fraction(1, 500)
    expected = {(at.level, at.query): at.stddev for at in mean_deviations(bundled)}
    assert [at.after for at in made.deviations] == pytest.approx(list(expected.values()), rel=0.02, abs=1e-3)
    worse = {(at.level, at.query) for at in made.deviations if at.after > at.before}
    assert worse <= {("state", "hhgq"), ("state", "hhinstlevels"), ("county", "hhgq"), ("tract", "detailed")}
