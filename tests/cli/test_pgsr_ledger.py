"""The ledger of pgsr on its command line: where it lies, that it is made once, its registry, and charges taken back."""

import hashlib
import sys

from tests.helpers.commands import on_terminal, pgsr
from topdown.privacy.ledger import read_ledger


def test_the_ledger_lies_with_the_data(practice, tmp_path):
    """Another output folder must not find an empty ledger: the second release of the same data is refused."""
    released = ("release", practice / "run.toml", "--yes", "--out")
    pgsr(*released, tmp_path / "here").ok()
    assert (practice / "ledger" / "made-up-tiny.ledger.jsonl").is_file()
    assert not list(tmp_path.glob("*.jsonl"))
    said = pgsr(*released, tmp_path / "elsewhere" / "there")
    assert said.refusal == "B013"
    assert "this run spent  nothing" in said.err


def test_the_ledger_is_made_once_and_named(practice):
    """A lost or exchanged ledger must not be replaced by a new one without a word."""
    text = (practice / "run.toml").read_text()
    pgsr("ledger", "new", practice / "run.toml").ok()
    assert text == (practice / "run.toml").read_text()
    said = pgsr("release", practice / "run.toml", "--yes", "--unit", "household")
    assert (said.refusal, "unit of privacy" in said.err) == ("B007", True)
    (practice / "ledger" / "made-up-tiny.ledger.jsonl").unlink()
    for command in (["ledger", "new"], ["release", "--yes"]):
        said = pgsr(*command, practice / "run.toml")
        assert said.refusal == "B011"
        assert ("make it, once" in said.err) == (
            command[0] == "release"
        )  # who has just tried gets other advice
    assert not (practice / "release").exists()


def test_the_registry_can_lie_apart_and_be_lost(practice, check, tmp_path):
    """Ledger and registry on one disk are put back together; a lost registry must not end all releases for ever."""
    for path in (*practice.glob("ledger*"), *practice.glob("ledger/*")):
        path.unlink() if path.is_file() else None
    lines = [row for row in (practice / "run.toml").read_text().splitlines() if "ledger_id" not in row]
    (practice / "run.toml").write_text("\n".join(lines) + "\n")
    apart = tmp_path / "other-disk"
    new = ("ledger", "new", practice / "run.toml", "--registry", apart, "--json")
    assert pgsr(*new).refusal == "B019"
    apart.mkdir()
    made = pgsr(*new).ok().document
    check(made)
    registry = apart / f"ledger-{made['ledger']}.registry"
    assert ("new", str(registry)) == (made["action"], made["registry"])
    released = ("release", practice / "run.toml", "--yes")
    pgsr(*released).ok()
    registry.unlink()
    again = (*released, "--out", tmp_path / "second", "--again", "--epsilon-limit", "1")
    said = pgsr(*again)
    assert (said.refusal, "pgsr ledger attest" in " ".join(said.err.split())) == ("B016", True)
    by = ("--by", "A. Person", "--reason", "disk replaced")
    check(pgsr("ledger", "attest", practice / "run.toml", *by, "--json").ok().document)
    assert registry.is_file()
    pgsr("ledger", "limit", practice / "run.toml", "--epsilon-limit", "1", *by).ok()
    pgsr(*again).ok()


def test_a_charge_can_be_taken_back_by_a_person(practice, check, tmp_path):
    """Noise nobody saw need not count for ever, but only with a name and a reason; what is published stays charged."""
    ledger = practice / "ledger" / "made-up-tiny.ledger.jsonl"
    void = ("ledger", "refund", practice / "run.toml", "--record", "1", "--reason", "power cut")
    assert pgsr(*void).code == 2
    assert pgsr("ledger", "attest", practice / "run.toml").code == 2
    assert pgsr("ledger", "new", practice / "run.toml", "--reason", "x").code == 2
    pgsr("release", practice / "run.toml", "--yes").ok()
    assert pgsr(*void, "--by", "A. Person").refusal == "B009"
    cut = next(i for i, row in enumerate(ledger.read_text().splitlines()) if '"kind":"begin"' in row)
    whole = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(whole[:cut]))
    next(practice.glob("*.registry")).unlink()
    pgsr("ledger", "attest", practice / "run.toml", "--by", "A", "--reason", "a test").ok()
    document = pgsr(*void, "--by", "A. Person", "--json").ok().document
    check(document)
    assert (document["action"], document["charged"]) == ("refund", {})


def test_other_groups_than_their_owner_delivered_are_refused_unspent(practice):
    """A table that was cut, doubled or exchanged on its way would be released, and paid for, without a word."""
    run, groups = practice / "run.toml", practice / "groups.csv"
    rows = [line.split(",") for line in groups.read_text().splitlines()[1:]]
    people = sum(int(size) * int(count) for _, size, count in rows)
    digest = hashlib.sha256(groups.read_bytes()).hexdigest()
    sound = {"--rows": len(rows), "--people": people, "--sha256": digest}
    wrong = (
        ("D081", {"--rows": len(rows) + 1}),
        ("D081", {"--people": people - 1}),
        ("D080", {"--sha256": "0" * 64}),
        ("C280", {"--sha256": "0"}),
        ("C280", {"--rows": -1}),
    )
    for code, other in wrong:
        options = [word for pair in (sound | other).items() for word in pair]
        said = pgsr("release", run, "--yes", *options, "--json")
        assert said.refusal == code
        assert str(people) not in said.out
        assert dict(said.document["details"])["this run spent"] == "nothing"
    assert len(read_ledger(practice / "ledger" / "made-up-tiny.ledger.jsonl").entries) == 1
    options = [str(word) for pair in sound.items() for word in pair]
    command = [sys.executable, "-m", "pgsr.cli", "release", str(run), *options]
    code, screen = on_terminal(command, b"no\n")
    assert (code, "agree with their control totals: rows, people, sha256" in screen) == (2, True)
    assert str(people) not in screen
    pgsr("release", run, "--yes", *options).ok()
