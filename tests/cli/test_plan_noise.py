"""`topdown plan --compare-noise`: what it prints is what it computed, and it changes nothing else."""

import json
from fractions import Fraction

import pytest

import topdown as package
from tests.helpers.schemas import problems
from topdown.formats import document_schema

WISH = "1:1/1000000"


def test_the_document_claims_no_less_than_was_found(topdown, toy, tmp_path):
    """A variance or delta rounded down would claim more privacy or less noise than there is."""
    run = toy(tmp_path / "toy")
    said = topdown("plan", run, "--compare-noise", WISH, "--json").ok()
    assert problems(said.document, document_schema("plan_summary")) == []
    noise = said.document["noise_compared"]
    found = package.plan(run).compare_noise("1/1000000", 1)
    assert (noise["epsilon"], noise["delta"], noise["better"]) == ("1", "1/1000000", "discrete_gaussian")
    assert found.optimal_delta <= Fraction(noise["optimal_delta"]) <= Fraction(1, 10**6)
    assert found.gaussian_delta <= Fraction(noise["gaussian_delta"]) <= Fraction(1, 10**6)
    for shown, one in zip(noise["queries"], found.queries, strict=True):
        assert one.optimal_variance <= Fraction(shown["optimal_variance"])
        assert one.gaussian_variance <= Fraction(shown["gaussian_variance"])
        assert (one.epsilon, one.delta) == (Fraction(shown["epsilon"]), Fraction(shown["delta"]))


def test_the_plan_stays_as_it_is(topdown, toy, tmp_path):
    """A comparison that changed the plan would change what generate draws."""
    run = toy(tmp_path / "toy")
    assert topdown("plan", run, "--out", tmp_path / "plain.json").code == 0
    said = topdown("plan", run, "--compare-noise", "1/1000000", "--out", tmp_path / "compared.json").ok()
    assert "ρ 2.0000 to spend" in said.out.replace("\u00a0", " ")
    assert (tmp_path / "plain.json").read_bytes() == (tmp_path / "compared.json").read_bytes()
    assert "noise_compared" not in json.loads((tmp_path / "compared.json").read_text())


@pytest.mark.parametrize("width", [46, 80, 120])
def test_every_line_fits(topdown, toy, tmp_path, width):
    """A line wider than the screen is broken by the terminal where nobody wants it."""
    toy(tmp_path / "toy")
    said = topdown("plan", "toy/run.toml", "--compare-noise", WISH, width=width)
    shown = said.out[said.out.index("Noise compared") : said.out.index("Nothing is spent")]
    assert max(map(len, shown.splitlines())) <= width
    assert 'A run file has the second kind with mechanism = "optimal"' in " ".join(shown.split())


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ("1:1/100", "C154"),
        ("1:0", "C152"),
        ("200:1/1000000", "C151"),
        ("1:", "A001"),
        ("x", "A001"),
        ("", "A001"),
    ],
)
def test_what_cannot_be_compared_is_refused(topdown, toy, tmp_path, wish, code):
    """A slip in the numbers ends with a page and exit code 2, and writes no plan."""
    toy(tmp_path / "toy")
    said = topdown("plan", "toy/run.toml", "--compare-noise", wish, "--out", tmp_path / "p.json")
    assert said.refusal == code
    assert not (tmp_path / "p.json").exists()
