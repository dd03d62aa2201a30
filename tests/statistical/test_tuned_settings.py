"""pl94_tuned is what `topdown tune` gives for Rhode Island, and serves its goals."""

from fractions import Fraction
from pathlib import Path

import pytest

from topdown.app import mean_deviations, tune
from topdown.plan import RunFileAnswers, prepare, run_file_text

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "rhode_island_2010"
LEVELS = ("state", "county", "tract", "block_group", "block")
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
    made = tune(
        tmp_path / "pl94_2020_tree.toml", tmp_path / "new.toml", goals=tmp_path / "goals.toml"
    ).document
    bundled = prepare(tmp_path / "pl94_tuned.toml").context
    assert made.loss == f"{bundled.plan.loss}"
    for level, new in zip(bundled.plan.levels, made.levels, strict=True):
        assert abs(Fraction(new.after) - level.share) < Fraction(1, 500)
    expected = {(at.level, at.query): at.stddev for at in mean_deviations(bundled)}
    assert [at.after for at in made.deviations] == pytest.approx(list(expected.values()), rel=0.02, abs=1e-3)
    worse = {(at.level, at.query) for at in made.deviations if at.after > at.before}
    assert worse <= {("state", "hhgq"), ("state", "hhinstlevels"), ("county", "hhgq"), ("tract", "detailed")}
