"""The ledger of pgsr on its command line: where it lies, that it is made once, its registry, and charges taken back."""

import hashlib
import json
import sys

from tests.helpers.commands import on_terminal, run_pgsr
from topdown.privacy.ledger import read_ledger


def test_the_ledger_lies_with_the_data(practice, capsys, tmp_path):
    """Another output folder must not find an empty ledger: the second release of the same data is refused."""
    assert run_pgsr(capsys, "release", practice / "run.toml", "--yes", "--out", tmp_path / "here")[0] == 0
    assert (practice / "ledger" / "made-up-tiny.ledger.jsonl").is_file()
    assert not list(tmp_path.glob("*.jsonl"))
    code, _, err = run_pgsr(
        capsys, "release", practice / "run.toml", "--yes", "--out", tmp_path / "elsewhere" / "there"
    )
    assert code == 2
    assert "error[B013]" in err
    assert "this run spent  nothing" in err


def test_the_ledger_is_made_once_and_named(practice, capsys):
    """A lost or exchanged ledger must not be replaced by a new one without a word."""
    text = (practice / "run.toml").read_text()
    assert run_pgsr(capsys, "ledger", "new", practice / "run.toml")[0] == 0
    assert text == (practice / "run.toml").read_text()
    code, _, err = run_pgsr(capsys, "release", practice / "run.toml", "--yes", "--unit", "household")
    assert (code, "error[B007]" in err, "unit of privacy" in err) == (2, True, True)
    (practice / "ledger" / "made-up-tiny.ledger.jsonl").unlink()
    for command in (["ledger", "new"], ["release", "--yes"]):
        code, _, err = run_pgsr(capsys, *command, practice / "run.toml")
        assert (code, "error[B011]" in err) == (2, True)
        assert ("make it, once" in err) == (command[0] == "release")  # who has just tried gets other advice
    assert not (practice / "release").exists()


def test_the_registry_can_lie_apart_and_be_lost(practice, capsys, check, tmp_path):
    """Ledger and registry on one disk are put back together; a lost registry must not end all releases for ever."""
    for path in (*practice.glob("ledger*"), *practice.glob("ledger/*")):
        path.unlink() if path.is_file() else None
    lines = [row for row in (practice / "run.toml").read_text().splitlines() if "ledger_id" not in row]
    (practice / "run.toml").write_text("\n".join(lines) + "\n")
    apart = tmp_path / "other-disk"
    code, _, err = run_pgsr(capsys, "ledger", "new", practice / "run.toml", "--registry", apart)
    assert (code, "B019" in err) == (2, True)
    apart.mkdir()
    code, out, _ = run_pgsr(capsys, "ledger", "new", practice / "run.toml", "--registry", apart, "--json")
    made = json.loads(out)
    check(made)
    registry = apart / f"ledger-{made['ledger']}.registry"
    assert (0, "new", str(registry)) == (code, made["action"], made["registry"])
    assert run_pgsr(capsys, "release", practice / "run.toml", "--yes")[0] == 0
    registry.unlink()
    again = (
        "release",
        practice / "run.toml",
        "--yes",
        "--out",
        tmp_path / "second",
        *["--again", "--epsilon-limit", "1"],
    )
    code, _, err = run_pgsr(capsys, *again)
    assert (code, "B016" in err, "pgsr ledger attest" in " ".join(err.split())) == (2, True, True)
    code, out, _ = run_pgsr(
        capsys,
        "ledger",
        "attest",
        practice / "run.toml",
        "--by",
        "A. Person",
        "--reason",
        "disk replaced",
        "--json",
    )
    check(json.loads(out))
    assert (code, registry.is_file()) == (0, True)
    more = ("--epsilon-limit", "1", "--by", "A. Person", "--reason", "two releases")
    assert run_pgsr(capsys, "ledger", "limit", practice / "run.toml", *more)[0] == 0
    assert run_pgsr(capsys, *again)[0] == 0


def test_a_charge_can_be_taken_back_by_a_person(practice, capsys, check, tmp_path):
    """Noise nobody saw need not count for ever, but only with a name and a reason; what is published stays charged."""
    ledger = practice / "ledger" / "made-up-tiny.ledger.jsonl"
    void = ("ledger", "refund", practice / "run.toml", "--record", "1", "--reason", "power cut")
    assert run_pgsr(capsys, *void)[0] == 2
    assert run_pgsr(capsys, "ledger", "attest", practice / "run.toml")[0] == 2
    assert run_pgsr(capsys, "ledger", "new", practice / "run.toml", "--reason", "x")[0] == 2
    assert run_pgsr(capsys, "release", practice / "run.toml", "--yes")[0] == 0
    code, _, err = run_pgsr(capsys, *void, "--by", "A. Person")
    assert (code, "B009" in err) == (2, True)
    cut = next(i for i, row in enumerate(ledger.read_text().splitlines()) if '"kind":"begin"' in row)
    whole = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(whole[:cut]))
    next(practice.glob("*.registry")).unlink()
    assert (
        run_pgsr(capsys, "ledger", "attest", practice / "run.toml", "--by", "A", "--reason", "a test")[0] == 0
    )
    code, out, _ = run_pgsr(capsys, *void, "--by", "A. Person", "--json")
    document = json.loads(out)
    check(document)
    assert (code, document["action"], document["charged"]) == (0, "refund", {})


def test_other_groups_than_their_owner_delivered_are_refused_unspent(practice, capsys):
    """A table that was cut, doubled or exchanged on its way would be released, and paid for, without a word."""
    run, groups = practice / "run.toml", practice / "groups.csv"
    rows = [line.split(",") for line in groups.read_text().splitlines()[1:]]
    people = sum(int(size) * int(count) for _, size, count in rows)
    sound = {
        "--rows": len(rows),
        "--people": people,
        "--sha256": hashlib.sha256(groups.read_bytes()).hexdigest(),
    }
    wrong = (
        ("D081", {"--rows": len(rows) + 1}),
        ("D081", {"--people": people - 1}),
        ("D080", {"--sha256": "0" * 64}),
        ("C280", {"--sha256": "0"}),
        ("C280", {"--rows": -1}),
    )
    for code, other in wrong:
        options = [word for pair in (sound | other).items() for word in pair]
        _, out, _ = run_pgsr(capsys, "release", run, "--yes", *options, "--json")
        refused = json.loads(out)
        assert refused["code"] == code
        assert str(people) not in out
        assert dict(refused["details"])["this run spent"] == "nothing"
    assert len(read_ledger(practice / "ledger" / "made-up-tiny.ledger.jsonl").entries) == 1
    options = [str(word) for pair in sound.items() for word in pair]
    command = [sys.executable, "-m", "pgsr.cli", "release", str(run), *options]
    code, screen = on_terminal(command, b"no\n")
    assert (code, "agree with their control totals: rows, people, sha256" in screen) == (2, True)
    assert str(people) not in screen
    assert run_pgsr(capsys, "release", run, "--yes", *options)[0] == 0
