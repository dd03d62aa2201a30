"""A choice really killed: one draw for each charge, and an end; its folder changed: found out, manifest or not."""

import json
from pathlib import Path

import pytest

from tests.helpers.killed import trials
from tests.helpers.ledgers import with_ledger
from tests.helpers.runs import write_census
from topdown import verify
from topdown.publish import write_manifest

KILLER = Path(__file__).with_name("choice_killer.py")


@pytest.fixture
def census(tmp_path) -> Path:
    """Write a run file, leaves, records and candidates of a land of four blocks; return its folder."""
    codes = ["1101", "1102", "1201", "1202"]
    people = [(code, "home", "female", "18_64", 3) for code in codes]
    with_ledger(write_census(tmp_path, [(code, 9, 0, 0) for code in codes], people, rho_limit="100"))
    (tmp_path / "offices.csv").write_text("candidate,geocode\nA,1101\nB,1102\nC,12\n")
    return tmp_path


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
    found = trials(KILLER, census, "1", "1")
    assert len(found) > 60
    check(found)
    assert {1, 2} == {trial["intents"] for trial in found}


def test_a_few_real_kills_of_a_choice(census):
    """The same at some steps: before the charge, between charge and answer, and while the choice is sealed."""
    found = trials(KILLER, census, "9", "18")
    assert len(found) >= 4
    check(found)


def reseal(folder: Path) -> None:
    """Write the manifest over files that were changed, as somebody would who hides it."""
    document = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").unlink()
    write_manifest(folder, document["plan_hash"])


def edit(path: Path, **changes: object) -> None:
    """Change keys of a document, canonically."""
    document = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n")


def swapped(folder: Path) -> list[str]:
    """Return what was chosen in the other order."""
    return json.loads((folder / "result.json").read_text())["chosen"][::-1]


CHANGES = {
    "another order": ("V191", lambda f: edit(f / "result.json", chosen=swapped(f))),
    "no candidate": ("V191", lambda f: edit(f / "result.json", chosen=["North", "Nowhere"])),
    "more said": ("V191", lambda f: edit(f / "result.json", covered=7)),
    "a smaller epsilon": ("V190", lambda f: edit(f / "selection.json", epsilon="1/3")),
    "another coverage": ("V190", lambda f: (f / "public/coverage.csv").write_text("candidate,geocode\n")),
    "a better guess": ("V132", lambda f: edit(f / "certificate.json", best_guess=["0.5", "0.5"])),
    "a better sentence": ("V140", lambda f: edit(f / "certificate.json", sentence="All is safe.")),
    "fewer attempts": ("V140", lambda f: edit(f / "certificate.json", n_attempts=0)),
    "a stranger": ("V003", lambda f: (f / "sample.csv").write_text("1101\n")),
    "no ledger": ("V021", lambda f: (f / "ledger.jsonl").write_text("{}\n")),
    "another journal": ("V026", lambda f: (f / "choice/journal.json").write_text("{}\n")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_choices_are_found_out(choice, name):
    """Whoever changes a file renews the manifest too; what is checked must not rest on it."""
    code, change = CHANGES[name]
    assert verify(choice).ok
    change(choice)
    codes = {finding["code"] for c in verify(choice).to_json()["checks"] for finding in c["findings"]}
    assert codes & {"V001", "V006"} or name == "a stranger"
    reseal(choice)
    assert code in {finding["code"] for c in verify(choice).to_json()["checks"] for finding in c["findings"]}
