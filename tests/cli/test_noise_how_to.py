"""The how-to page of the best noise: every command run, every line compared, every snippet executed."""

from pathlib import Path

from tests.helpers.pages import run_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "optimal-noise.md"


def test_the_page_runs_and_says_what_it_says(topdown, toy, tmp_path, monkeypatch):
    """A command or a figure on the page that no longer holds misleads whoever follows it."""
    monkeypatch.chdir(tmp_path)
    toy(tmp_path)
    assert run_page(PAGE, topdown) == 16
    assert (tmp_path / "law.json").exists()
    assert (tmp_path / "law.svg").exists()


def test_one_count_beside_the_discrete_gaussian(topdown):
    """The page says: below a ninth of its variance, at epsilon 1 and delta 1/1000000."""
    found = topdown(
        *["noise", "--epsilon", "1", "--delta", "1/1000000", "--loss", "l2", "--compare", "--json"]
    ).document
    other = next(o for o in found["others"] if o["name"] == "discrete Gaussian")
    assert 9 * float(found["variance"]) < float(other["expected_loss"])
