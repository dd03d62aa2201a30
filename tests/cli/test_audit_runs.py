"""`topdown audit --runs`: document, screen, exit codes, and what it refuses."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers import audited
from tests.helpers.attacked_land import make_extended
from tests.helpers.pages import run_page
from tests.helpers.rule_texts import exact
from tests.helpers.small_release import build

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "audit-runs.md"


@pytest.fixture(scope="module")
def land(tmp_path_factory):
    """Return the run file of the land of four levels."""
    return audited.write_land(tmp_path_factory.mktemp("land"))


def test_right_code_passes_and_the_screen_says_what_that_is_worth(topdown, land, check):
    """A pass that is read as proof would be the first false sentence of the audit."""
    said = topdown("audit", land, "--runs", 2000, "--json")
    made = said.document
    check(made)
    assert (said.code, made["type"], made["passes"], made["code"]) == (0, "topdown.audit.runs", True, None)
    assert (made["runs"], made["n_pairs"], made["false_alarm"]) == (2000, 50, "1/1000")
    for secret in made["secrets"]:
        for key in ("best_guess", "mu", "epsilon"):
            low, high = map(Fraction, secret[key])
            assert 0 < low < high
    screen = " ".join(topdown("audit", land, "--runs", 2000).out.split())
    assert "2,000 runs on each side of 50 pairs of made-up neighbours" in screen
    assert "That proves no claim right; a failure would prove it wrong" in screen
    assert "each: shown at least / claimed at most" in screen


@pytest.mark.slow
def test_claims_are_those_of_the_audit_without_runs(topdown, land):
    """Two numbers for one claim: what is held against the runs must be what is printed."""
    static = {s["name"]: s for s in topdown("audit", land, "--json").document["secrets"]}
    for secret in topdown("audit", land, "--runs", 1000, "--json").document["secrets"]:
        certified = static[secret["name"]]
        for stated, high in (
            (certified["best_guess"][1], secret["best_guess"][1]),
            (certified["epsilon"]["1e-10"][1], secret["epsilon"][1]),
        ):
            assert 0 <= Fraction(high) - Fraction(stated) <= Fraction(1, 10**6)


@pytest.mark.slow
def test_wrong_code_fails_with_a_code(topdown, land, check):
    """A script that publishes after an audit must see the failure."""
    with audited.silent("county", 1):
        said = topdown("audit", land, "--runs", 2000, "--json")
        text = topdown("audit", land, "--runs", 2000)
        quiet = topdown("audit", land, "--runs", 1000, "--quiet")
    check(said.document)
    assert (said.code, said.document["passes"], said.document["code"]) == (1, False, "A053")
    assert text.code == 1
    screen = " ".join(text.out.split())
    assert "A053: noise as it is drawn does not keep what is claimed" in screen
    assert "by detailed at county (likelihood ratio): μ at least" in screen
    assert "A053" in quiet.out


@pytest.mark.slow
def test_a_release_folder_is_enough(topdown, tmp_path, check):
    """An auditor has the release, not the run file and never the records."""
    release = build(tmp_path).folder
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    said = topdown("audit", release, "--runs", 1000, "--json")
    check(said.document)
    assert said.code == 0
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    plan = topdown("audit", release / "plan.json", "--runs", 1000, "--json")
    assert said.document["plan_hash"] == plan.document["plan_hash"]


@pytest.mark.slow
def test_disclosed_secrets_have_no_numbers(topdown, tmp_path, check):
    """No pair agrees where a secret is given away: a number there would speak of nothing."""
    text = audited.NOTHING + exact("blocks", "block", "total")
    run = audited.write_land(tmp_path, invariants=text)
    made = topdown("audit", run, "--runs", 1000, "--json").document
    check(made)
    gone = [s for s in made["secrets"] if s["status"] == "disclosed"]
    assert [s["name"] for s in gone] == [
        "place within one land",
        "place within one region",
        "place within one county",
    ]
    assert all(s.keys() == {"name", "status", "n_pairs"} and s["n_pairs"] == 0 for s in gone)
    assert all(p["from"]["geocode"] == p["to"]["geocode"] for p in made["pairs"])


@pytest.mark.slow
def test_an_extension_is_held_against_its_own_step(topdown, tmp_path, check):
    """What it extends is not drawn: held against the claim of both, a step with too little noise would pass."""
    toy = make_extended(tmp_path, "bounded")
    said = topdown("audit", toy.more, "--base", toy.base, "--runs", 1000, "--json")
    check(said.document)
    assert (said.code, said.document["n_pairs"], said.document["not_reached"]) == (0, 50, [])
    both = topdown("audit", toy.more, "--base", toy.base, "--json").document["secrets"][0]
    own = said.document["secrets"][0]
    assert own["name"] == both["name"] == "one person, everything"
    assert Fraction(own["best_guess"][1]) < Fraction(4, 5) < Fraction(both["best_guess"][0])
    screen = " ".join(topdown("audit", toy.more, "--base", toy.base, "--runs", 1000).out.split())
    assert "this step alone, not what it extends" in screen


def test_what_cannot_be_run_is_refused(topdown, land):
    """An audit that runs half of what was asked would be taken for the whole."""
    for more, code in (
        (("--runs", 999), "A051"),
        (("--runs", 10**8), "A051"),
        (("--runs", 1000, "--delta", "1e-5", "--delta", "1e-6"), "C005"),
        (("--runs", 1000, "--plot", "x.svg"), "C005"),
        (("--runs", 0), "A051"),
    ):
        assert topdown("audit", land, *more, "--json").refusal == code


def test_no_pair_is_no_audit(topdown, tmp_path):
    """An audit without a pair has shown nothing, and must not say that nothing beat the claim."""
    run = audited.write_almost_closed(tmp_path)
    stated = topdown("audit", run, "--json").document["secrets"]
    assert [s["name"] for s in stated if s["status"] != "disclosed"] == ["one person, everything"]
    assert topdown("audit", run, "--runs", 1000, "--json").refusal == "A052"


@pytest.mark.slow
def test_the_how_to_page_runs(topdown):
    """A command on the page that no longer works stops a reader at the first step."""
    printed = []
    assert run_page(PAGE, topdown, printed=printed) == 3
    assert printed == ["True 50\n"]
