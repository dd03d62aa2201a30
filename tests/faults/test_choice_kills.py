"""The real process of a choice, really killed: one draw for each charge, and always an end that an auditor accepts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.ledgers import with_ledger
from tests.helpers.runs import write_census

KILLER = Path(__file__).with_name("choice_killer.py")


@pytest.fixture
def census(tmp_path) -> Path:
    """Write a run file, leaves, records and candidates of a land of four blocks; return its folder."""
    codes = ["1101", "1102", "1201", "1202"]
    people = [(code, "home", "female", "18_64", 3) for code in codes]
    with_ledger(write_census(tmp_path, [(code, 9, 0, 0) for code in codes], people, rho_limit="100"))
    (tmp_path / "offices.csv").write_text("candidate,geocode\nA,1101\nB,1102\nC,12\n")
    return tmp_path


def trials(census: Path, *arguments: str) -> list[dict]:
    """Run the killer; return its trials."""
    command = [sys.executable, str(KILLER), str(census), *arguments]
    out = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert out.returncode == 0, out.stderr
    return [json.loads(line) for line in out.stdout.splitlines()]


def check(found: list[dict]) -> None:
    """Hold every trial against the rules of the protocol."""
    for trial in found:
        assert len(set(trial["begun"])) == len(trial["begun"]), trial
        assert trial["intents"] <= 2, trial
        assert trial["charged"] == str(trial["intents"]), trial
        assert trial["kept"], trial
        assert trial["left"] == [], trial
        assert trial["drawn"] >= 1, trial
        assert trial["commits"] == trial["intents"], trial
        assert trial["verified"], trial
    assert not found[-1]["killed"]
    assert found[-1]["intents"] == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_choice_never_draws_twice_for_one_charge(census):
    """Killed at any write, sync or rename and run again: a second draw for one charge would be a free answer."""
    found = trials(census, "1", "1")
    assert len(found) > 60
    check(found)
    assert {1, 2} == {trial["intents"] for trial in found}


def test_a_few_real_kills_of_a_choice(census):
    """The same at some steps: before the charge, between charge and answer, and while the choice is sealed."""
    found = trials(census, "9", "18")
    assert len(found) >= 4
    check(found)
