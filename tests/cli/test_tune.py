"""`topdown tune`: other shares of the same budget, from public files only."""

import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.pages import run_page
from topdown.app import tuned_for_others
from topdown.plan import load_run_file, prepare

TREE = '[estimates]\ntargets = "tree"\ncoverage = "9/10"\n\n[budget]'
GOALS = 'type = "topdown.goals"\nversion = 1\n\n[[goal]]\nlevel = "county"\nquery = "total"\ngoal = "1/2"\n'


def tree(text: str) -> str:
    """Ask for the tree estimate; of a larger geography's settings, with shares that are not all used."""
    text = text.replace("[budget]", TREE).replace('share = "1/2"', 'share = "5/14"', 1)
    unused = text[text.rindex("[[level]]") :].replace('name = "block"', 'name = "house"')
    unused = unused.replace('share = "5/14"', 'share = "1/7"')
    return text + unused


@pytest.fixture
def run(toy, tmp_path):
    """Write a run file with the tree estimate."""
    return toy(tmp_path / "census", tree)


def ratios(document: dict) -> dict[tuple[str, str], float]:
    """Return deviations after by before."""
    return {
        (at["level"], at["query"]): at["after"] / at["before"]
        for at in document["deviations"]
        if at["before"]
    }


def test_the_budget_is_shared_out_anew_and_nothing_else_changes(topdown, check, run, tmp_path):
    """A tuned file that cost a last digit more, lost a table or a rule, would be another release."""
    (tmp_path / "goals.toml").write_text(GOALS)
    tuned = run.parent / "tuned.toml"
    done = topdown("tune", run, "--out", tuned, "--goals", tmp_path / "goals.toml", "--json").ok()
    check(done.document)
    old, new = prepare(run).context.plan, prepare(tuned).context.plan
    assert (old.loss, old.budget, old.unspent, old.levels[0].rounding) == (
        new.loss, new.budget, new.unspent, new.levels[0].rounding,
    )  # fmt: skip
    assert {m.query for at in old.levels for m in at.measurements} == {
        m.query for at in new.levels for m in at.measurements
    }
    before, after = load_run_file(run), load_run_file(tuned)
    same = (
        "schema",
        "invariants",
        "neighbours",
        "mechanism",
        "release",
        "input",
        "geography",
        "ledger",
        "budget",
        "base",
    )
    assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
    assert (before.level[-1], before.estimates.coverage) == (after.level[-1], after.estimates.coverage)
    assert Fraction(1) == sum(at.share for at in after.level)
    assert all(Fraction(1) == sum(at.queries.values()) for at in after.level)
    assert new.plan_hash == done.document["plan_hash"]
    gains = ratios(done.document)
    assert gains["county", "total"] < 0.85
    assert gains["county", "total"] < min(gain for at, gain in gains.items() if at != ("county", "total"))


def test_only_public_files_are_opened_and_only_one_is_written(topdown, run):
    """Whoever tunes before the records exist must be able to; who has a ledger must find it untouched."""
    for path in run.parent.iterdir():
        if path.name not in (run.name, "leaves.csv"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    there = {path: path.read_bytes() for path in run.parent.iterdir()}
    assert topdown("tune", run, "--out", run.parent / "a.toml").code == 0
    assert topdown("tune", run, "--out", run.parent / "b.toml", "-q").code == 0
    made = {path: path.read_bytes() for path in run.parent.iterdir()}
    assert made[run.parent / "a.toml"] == made[run.parent / "b.toml"]
    assert there == {path: data for path, data in made.items() if path.name not in ("a.toml", "b.toml")}


def test_the_page_runs(topdown, toy):
    """A line on the page that no longer works stops a reader at the first step."""
    toy(Path("town"), tree)
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "shares.md"
    text = page.read_text(encoding="utf-8")
    goals = text[text.index('type = "topdown.goals"') :].split("```")[0]
    Path("goals.toml").write_text(goals, encoding="utf-8")
    assert run_page(page, topdown) == 2


@pytest.mark.slow
def test_tuned_shares_with_other_estimates_are_a_warning(topdown, run):
    """Shares that leave a level to those below it make it worse where nothing comes from below."""
    tuned = run.parent / "tuned.toml"
    assert topdown("tune", run, "--out", tuned).code == 0
    assert tuned_for_others(load_run_file(tuned)) == []
    tuned.write_text(tuned.read_text().replace('targets = "tree"', 'targets = "own"'))
    assert "B031" in {at["code"] for at in topdown("plan", tuned, "--json").document["warnings"]}


@pytest.mark.parametrize(
    ("code", "edit", "out", "goals"),
    [
        ("C213", ('targets = "tree"', 'targets = "own"'), "tuned.toml", ""),
        ("C213", ('"discrete_gaussian"', '"geometric"'), "tuned.toml", ""),
        ("C132", ("", ""), "run.toml", ""),
        ("C132", ("", ""), "leaves.csv", ""),
        ("C215", ("", ""), "../tuned.toml", ""),
        ("C214", ("", ""), "tuned.toml", GOALS.replace("county", "country")),
        ("C214", ("", ""), "tuned.toml", GOALS.replace("total", "dwelling")),
        ("C214", ("", ""), "tuned.toml", GOALS.replace("1/2", "0")),
        ("C214", ("", ""), "tuned.toml", GOALS + GOALS[GOALS.index("[[goal]]") :]),
        ("C214", ("", ""), "tuned.toml", 'least_detailed = "2/3"\n' + GOALS),
        ("C014", ("", ""), "tuned.toml", GOALS.replace('"1/2"', "0.5")),
    ],
)
def test_what_is_refused(topdown, run, tmp_path, code, edit, out, goals):
    """A refusal must have a name, and must leave every file as it was."""
    text = run.read_text()
    if "geometric" in edit[1]:
        text = text.replace("rho =", "epsilon =").replace('coverage = "9/10"\n', "")
    run.write_text(text.replace(*edit) if edit[0] else text)
    (tmp_path / "goals.toml").write_text(goals)
    there = {path: path.read_bytes() for path in run.parent.iterdir() if path.is_file()}
    more = ["--goals", tmp_path / "goals.toml"] if goals else []
    assert topdown("tune", run, "--out", run.parent / out, "--force", *more, "--json").refusal == code
    assert there == {path: path.read_bytes() for path in run.parent.iterdir() if path.is_file()}
    assert not (run.parent / "../tuned.toml").exists()
