"""The registry of a data set: one ledger, never an older one; statements with dates; persons who attest named."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.commands import pgsr
from tests.helpers.small_release import reseal
from topdown.privacy.ledger import read_ledger

LEDGER = Path("toy") / "ledger" / "persons.jsonl"
BY = ("--by", "A. Person", "--reason", "disk lost")


def registry() -> Path:
    """Return the file of the registry."""
    (found,) = Path("toy").glob("ledger-*.registry")
    return found


def release(topdown, run: Path, out: str, *more: str):
    """Make a release of the toy land."""
    return topdown("generate", run, "--out", out, "--yes", "--workers", 1, *more, "--json")


def first_line() -> bytes:
    """Return the ledger as it was when it was made."""
    return LEDGER.read_bytes().splitlines(keepends=True)[0]


@pytest.fixture
def run(toy) -> Path:
    """Write the toy census with room for three releases."""
    return toy(
        Path("toy"), lambda text: re.sub('^rho_limit = "[0-9]+"', 'rho_limit = "6"', text, flags=re.MULTILINE)
    )


def test_a_ledger_put_back_to_its_first_line_is_refused(topdown, run):
    """The backup made after init would give a new account for every release: with its registry or without it."""
    assert release(topdown, run, "r0").code == 0
    LEDGER.write_bytes(first_line())
    assert release(topdown, run, "r1", "--again").document["code"] == "B008"
    registry().unlink()
    assert release(topdown, run, "r1", "--again").document["code"] == "B016"
    assert topdown("ledger", "new", run, "--json").document["code"] == "B016"
    run.write_text(re.sub('^id = "[0-9a-f]{16}".*\n', "", run.read_text(), flags=re.MULTILINE))
    assert topdown("ledger", "new", run, "--json").document["code"] == "B016"
    assert not Path("r1").exists()


def registry_is_there() -> bool:
    """Tell whether there is a registry."""
    return bool(list(Path("toy").glob("ledger-*.registry")))


def test_records_moved_to_another_disk_do_not_lose_their_ledger(topdown, run):
    """Records without their registry, and a ledger from the day it was made: nobody could tell what was spent."""
    assert release(topdown, run, "r0").code == 0
    Path("disk").mkdir()
    Path("toy/persons.csv").rename("disk/persons.csv")
    run.write_text(run.read_text().replace('"persons.csv"', '"../disk/persons.csv"'))
    LEDGER.write_bytes(first_line())
    assert release(topdown, run, "r1", "--again").document["code"] == "B016"
    assert topdown("ledger", "move", run, "--from", "toy", "--json").document["code"] == "B008"


def test_pgsr_refuses_a_ledger_put_back_to_its_first_line(practice):
    """The same for group sizes: the ledger's first line beside a registry that has seen more, or beside none."""
    run = practice / "run.toml"
    ledger = practice / "ledger" / "made-up-tiny.ledger.jsonl"
    pgsr("release", run, "--yes").ok()
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])
    again = ("release", run, "--out", practice / "r1", "--yes", "--json")
    assert pgsr(*again).refusal == "B008"
    next(practice.glob("ledger-*.registry")).unlink()
    assert pgsr(*again).refusal == "B016"


@pytest.mark.parametrize("named", ["persons.csv", "linked.csv"])
def test_a_second_ledger_for_the_same_records_is_refused(topdown, run, named):
    """Two ledgers would each state as everything what is only a part, in another folder and under another name too."""
    assert release(topdown, run, "r0").code == 0
    if named != "persons.csv":
        os.link("toy/persons.csv", f"toy/{named}")
    Path("second").mkdir()
    shutil.copy("toy/leaves.csv", "second/leaves.csv")
    said = topdown(
        *("init", "--records", f"toy/{named}", "--leaves", "second/leaves.csv", "--schema", "toy"),
        *("--settings", "toy", "--levels", "land=0,county=1,block=3"),
        *("--out", "second/run.toml", "--json"),
    )
    assert said.refusal == "B017"
    assert str(LEDGER.resolve()) in said.document["text"]
    assert not list(Path("second").rglob("*.jsonl"))
    other = Path("second/run.toml")
    assert not other.exists()
    text = re.sub("^data_set = .*$", 'data_set = "others"', run.read_text(), flags=re.MULTILINE)
    text = re.sub('^id = "[0-9a-f]{16}".*\n', "", text, flags=re.MULTILINE)
    other.write_text(text.replace('"persons.csv"', f'"../toy/{named}"'))
    assert topdown("ledger", "new", other, "--json").document["code"] == "B017"


def test_a_second_ledger_of_pgsr_is_refused(practice):
    """Another path for the ledger of the same groups is another account."""
    place = ("--ledger", practice / "b.jsonl", "--ledger-id", "")
    said = pgsr("ledger", "new", practice / "run.toml", *place, "--json")
    assert said.refusal == "B017"
    assert "made-up-tiny.ledger.jsonl" in said.document["text"]


def test_what_is_stated_from_an_old_copy_is_refused_or_says_so(topdown, run):
    """A copy of the first release's time leaves out the second: 77 in 100 where both together give more."""
    assert release(topdown, run, "toy/r0").code == 0
    run.write_text(run.read_text().replace("-r1", "-r2").replace('rho = "2"', 'rho = "1"'))
    assert release(topdown, run, "toy/r1").code == 0
    old = Path("toy/r0/ledger.jsonl")
    n, date = len(read_ledger(old).entries) - 1, read_ledger(old).entries[-1].time[:10]
    for command in (("audit", "--ledger", old), ("resolve", "toy/r0", "--targets", "tree", "--out", "again")):
        said = topdown(*command, "--json")
        assert said.refusal == "B061"
        assert str(LEDGER.resolve()) in said.document["fix"]
    shutil.copytree("toy/r0", "auditor/r0")
    copy = topdown("audit", "--ledger", "auditor/r0/ledger.jsonl", "--json").document
    assert copy["newest"] is False
    assert f"According to a copy that ends at record {n} of {date}, someone" in copy["secrets"][0]["sentence"]
    shown = topdown("audit", "--ledger", "auditor/r0/ledger.jsonl").out
    assert f"copy that ends at record {n} of {date}" in " ".join(shown.split())
    given = topdown("audit", "--ledger", "auditor/r0/ledger.jsonl", "--registry", "toy", "--json")
    assert given.document["code"] == "B061"
    whole = topdown("audit", "--ledger", LEDGER, "--json").document
    last = read_ledger(LEDGER).entries[-1]
    assert whole["newest"] is True
    assert whole["up_to"] == {"record": last.seq, "date": last.time[:10]}
    assert f"up to record {last.seq} of {last.time[:10]}, knows" in whole["secrets"][0]["sentence"]
    again = ("resolve", "toy/r0", "--targets", "tree", "--out", "again")
    topdown(*again, "--ledger", LEDGER, "--workers", 1, "--json").ok()
    stated = json.loads(Path("again/certificate.json").read_text())["privacy"]["everything_released"]
    assert stated["up_to"] == whole["up_to"]
    assert "According to a copy that ends at record" in stated["secrets"][0]["sentence"]
    assert topdown("verify", "again", "-q").code == 0


def test_an_attestation_and_a_refund_stand_in_everything_that_follows(topdown, run):
    """After a rollback and a lost registry the next release stated 2 where 4 was drawn, and nobody was named."""
    assert release(topdown, run, "r0").code == 0
    LEDGER.write_bytes(first_line())
    registry().unlink()
    for short in (("--by", "A. Person"), ("--reason", "x"), ("--by", "A\nB", "--reason", "x")):
        assert topdown("ledger", "attest", run, *short).code == 2
    assert topdown("ledger", "attest", run, *BY).code == 0
    assert release(topdown, run, "r1").code == 0
    date = read_ledger(LEDGER).entries[1].time[:10]
    line = f"Attested on {date} by A. Person: the ledger is complete (record 1: disk lost)."
    stated = json.loads(Path("r1/certificate.json").read_text())["privacy"]["everything_released"]
    assert stated["attestations"] == [{"record": 1, "date": date, "by": "A. Person", "reason": "disk lost"}]
    assert f", which A. Person attested on {date} to be complete, knows" in stated["secrets"][0]["sentence"]
    assert "everything charged" not in stated["secrets"][0]["sentence"]
    assert line in Path("r1/README.txt").read_text().replace("\n", " ")
    checked = topdown("verify", "r1", "--json")
    assert (checked.code, checked.document["ok"]) == (0, True)
    assert [c["warnings"] for c in checked.document["checks"] if c["warnings"]] == [[line]]
    assert line in " ".join(topdown("audit", "--ledger", LEDGER, width=300).out.split())
    assert "A. Person" in registry().read_text()


def test_a_certificate_that_hides_an_attestation_is_found(topdown, run):
    """Whoever renews certificate and manifest must still not lose the name, or give the ledger another date."""
    registry().unlink()
    assert topdown("ledger", "attest", run, *BY).code == 0
    assert release(topdown, run, "r0").code == 0
    file = Path("r0/certificate.json")
    whole = json.loads(file.read_text())
    for change in (
        {"attestations": []},
        {"up_to": {"record": 99, "date": "2020-01-01"}},
        {"ledger": "0" * 16},
    ):
        forged = json.loads(json.dumps(whole))
        forged["privacy"]["everything_released"].update(change)
        file.write_text(json.dumps(forged, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        reseal(Path("r0"))
        found = topdown("verify", "r0", "--json").document
        assert "V136" in json.dumps(found), change


def test_pgsr_names_who_attested(practice):
    """Certificate and verification of group sizes say what the ledger says."""
    run = practice / "run.toml"
    next(practice.glob("ledger-*.registry")).unlink()
    pgsr("ledger", "attest", run, *BY).ok()
    pgsr("release", run, "--yes").ok()
    stated = json.loads((practice / "release" / "certificate.json").read_text())["everything_released"]
    assert [one["by"] for one in stated["attestations"]] == ["A. Person"]
    assert "A. Person" in pgsr("verify", practice / "release").ok().out


def test_advice_on_backups_is_in_one_place(topdown, run):
    """`ledger new` said to keep ledger and registry together, the security page to keep them apart."""
    page = (Path(__file__).resolve().parents[2] / "SECURITY.md").read_text()
    assert len(re.findall("ledger show RUN.toml --head", page)) == 1
    for action in ("show", "new"):
        said = " ".join(topdown("ledger", action, run).out.split())
        assert "back" not in said
        assert "keep" not in said


def test_pgsr_asks_before_it_spends(practice):
    """A script that runs by mistake must not spend: without a terminal an approval is given, or nothing is charged."""
    run = practice / "run.toml"
    said = pgsr("release", run, "--json")
    assert said.refusal == "C084"
    plan = re.findall("--approve ([0-9a-f]{8})", said.document["fix"])[0]
    assert pgsr("release", run, "--approve", "00" + plan, "--json").refusal == "C083"
    assert len(read_ledger(practice / "ledger" / "made-up-tiny.ledger.jsonl").entries) == 1
    assert not (practice / "release").exists()
    pgsr("release", run, "--approve", plan).ok()


def test_a_moved_ledger_is_used_once_that_is_written_down(topdown, run, check):
    """A copy at another place has a lock of its own: both would be charged up to the limit."""
    shutil.copytree("toy/ledger", "toy/copy")
    text = run.read_text()
    run.write_text(text.replace('"ledger/', '"copy/'))
    assert release(topdown, run, "r0").document["code"] == "B018"
    assert topdown("ledger", "move", run, "--json").document["code"] == "B018"
    LEDGER.unlink()
    moved = topdown("ledger", "move", run, "--json")
    check(moved.document)
    assert (moved.code, release(topdown, run, "r0").code) == (0, 0)
    shown = topdown("ledger", "show", run).out
    assert "copy/persons.jsonl" in shown
    assert "ledger/persons.jsonl" in shown


def test_moved_records_take_their_registry_along(topdown, run):
    """Records that lie elsewhere are still the same people's."""
    assert release(topdown, run, "r0").code == 0
    Path("disk").mkdir()
    Path("toy/persons.csv").rename("disk/persons.csv")
    run.write_text(run.read_text().replace('"persons.csv"', '"../disk/persons.csv"').replace("-r1", "-r2"))
    assert topdown("ledger", "move", run).code == 2
    assert topdown("ledger", "move", run, "--from", "toy").code == 0
    assert not registry_is_there()
    assert release(topdown, run, "r1").code == 0
    assert json.loads(Path("r1/certificate.json").read_text())["privacy"]["everything_released"][
        "charged"
    ] == {"rho": "4"}


def test_the_head_that_is_kept_apart_is_that_of_the_last_line(topdown, run):
    """An office compares it with the ledger later: record N of the ledger must have this hash."""
    said = topdown("ledger", "show", run, "--head", width=300).out
    last = LEDGER.read_bytes().splitlines()[-1]
    assert f"record 0 of {json.loads(last)['time'][:10]}, head {hashlib.sha256(last).hexdigest()}" in said
    assert hashlib.sha256(registry().read_bytes().splitlines()[-1]).hexdigest() in said
    assert len(said.strip().splitlines()) == 1


def test_the_refusal_of_a_second_ledger_says_what_the_first_one_protects(topdown, run):
    """Told to use a ledger that then refuses the plan, an office would find no way on."""
    other = run.with_name("other.toml")
    text = run.read_text().replace('neighbours = "bounded"', 'neighbours = "add_remove"')
    lines = text.replace("persons.jsonl", "other.jsonl").splitlines()
    other.write_text(
        "\n".join(line for line in lines if not line.startswith("id = ") or "-r1" in line) + "\n"
    )
    said = topdown("ledger", "new", other)
    assert said.refusal == "B017"
    assert "it protects one person under bounded" in " ".join(said.err.split())
