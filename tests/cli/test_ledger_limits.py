"""The limit of a data set stands in its ledger: no run file states another one, and a person answers for a change."""

import json
from pathlib import Path

import pytest

from tests.helpers.choices import LEDGER, SITES, write_candidates
from tests.helpers.commands import pgsr
from tests.helpers.small_release import reseal
from topdown.privacy.ledger import read_ledger

BY = ("--by", "A. Person", "--reason", "board decision 12")


@pytest.fixture
def run(topdown, toy) -> Path:
    """Write the toy census, whose limit is rho 3, and release it once for rho 2."""
    run = toy(Path("toy"))
    assert topdown("generate", run, "--out", "one", "--yes", "--workers", 1).code == 0
    return run


def with_limit(run: Path, limit: str, name: str) -> Path:
    """Write a run file of another release with another limit."""
    path = run.with_name(f"{name}.toml")
    path.write_text(run.read_text().replace('rho_limit = "3"', limit).replace("persons-r1", name))
    return path


def test_a_second_run_file_with_a_larger_limit_spends_nothing(topdown, run):
    """Whoever edits a file, or writes a second one, could otherwise spend what nobody allowed."""
    write_candidates()
    before = LEDGER.read_bytes()
    for limit in ('rho_limit = "9"', 'epsilon_limit = "99"\ndelta_limit = "1/100"', 'rho_limit = "5/2"'):
        other = with_limit(run, limit, "two")
        for command in (
            ("generate", other, "--out", "two", "--yes"),
            ("select", "sites", other, *SITES, "--out", "two"),
            ("ledger", "new", other),
        ):
            said = topdown(*command)
            assert (said.code, "error[B066]" in said.err) == (2, True), (command, said.err)
    assert LEDGER.read_bytes() == before
    said = topdown("plan", with_limit(run, 'rho_limit = "9"', "two"))
    assert "the limit asked for is rho 9" in " ".join(said.out.split())


def test_who_changed_a_limit_stands_in_everything_that_follows(topdown, run, check):
    """A limit that was raised silently promises readers less than the office once decided."""
    other = with_limit(run, 'rho_limit = "9/2"', "two")
    assert topdown("ledger", "limit", other, "--by", "A. Person", "--reason", " ").refusal == "B062"
    said = topdown("ledger", "limit", other, *BY, "--json").ok()
    check(said.document)
    assert said.document["rho_limit"] == "9/2"
    assert [one.get("by") for one in said.document["limits"]] == [None, "A. Person"]
    assert topdown("ledger", "limit", other, *BY).refusal == "B009"
    assert topdown("generate", other, "--out", "two", "--yes", "--workers", 1).code == 0
    assert "error[B066]" in topdown("generate", run, "--out", "x", "--yes", "--again").err
    line = "by A. Person: rho 9/2"
    for text in (
        Path("two/README.txt").read_text(),
        topdown("verify", "two").out,
        topdown("ledger", "show", other).out,
    ):
        assert line in " ".join(text.split()), text
    audit = topdown("audit", "--ledger", LEDGER, "--json")
    check(audit.document)
    assert [one["rho_limit"] for one in audit.document["limits"]] == ["3", "9/2"]
    assert line in " ".join(topdown("audit", "--ledger", LEDGER).out.split())
    whole = json.loads(Path("two/certificate.json").read_text())
    stated = whole["privacy"]["everything_released"]["limits"]
    assert [one["rho_limit"] for one in stated] == ["3", "9/2"]
    for change in (stated[:1], [stated[0], stated[1] | {"by": "Nobody"}], []):
        forged = json.loads(json.dumps(whole))
        forged["privacy"]["everything_released"]["limits"] = change
        Path("two/certificate.json").write_text(
            json.dumps(forged, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        )
        reseal(Path("two"))
        assert "V136" in json.dumps(topdown("verify", "two", "--json").document), change


def test_group_sizes_have_room_for_one_release_until_a_person_says_more(practice):
    """Their ledger may have no limit: then a second release needs a decision, not an option."""
    run = practice / "run.toml"
    again = ("release", run, "--again", "--yes", "--out", practice / "more")
    more = ("--epsilon-limit", "9")
    pgsr("release", run, "--yes").ok()
    assert pgsr(*again).refusal == "B004"
    assert pgsr(*again, *more).refusal == "B066"
    assert pgsr("ledger", "limit", run, *BY).refusal == "C158"
    pgsr("ledger", "limit", run, *more, *BY).ok()
    pgsr(*again).ok()
    assert "by A. Person: epsilon 9 at delta 0" in " ".join(
        pgsr("verify", practice / "more").ok().out.split()
    )
    (ledger,) = (practice / "ledger").glob("*.jsonl")
    assert [str(limits) for _, limits in read_ledger(ledger).stated_limits] == ["epsilon 9 at delta 0"]
