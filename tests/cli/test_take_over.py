"""Ledgers of format 2, as the program of 23 and 25 November 2026 wrote them, taken over by one command."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.choices import LEDGER
from tests.helpers.commands import pgsr
from tests.helpers.compositions import loss_within
from tests.helpers.small_release import reseal
from topdown.measure.run_ledger import ledger_location_of_file
from topdown.privacy.ledger import Disk, TakenOver, find_former_ledger, read_ledger, take_over

FORMER = Path(__file__).resolve().parents[1] / "data" / "former_ledgers"
TOY, OPTIMAL, GROUPS, REGISTERED = (
    "9dff5672e42bf9fc",
    "d0f3613dc91d069f",
    "11eb872a59781c23",
    "90bd839a5758ea12",
)
SAID = ("--by", "A. Person", "--reason", "a new program")
TABLE = "unit,region,size\n" + "".join(f"{n},1{1 + n % 3},{1 + n % 4}\n" for n in range(30))
REGIONS = "region,parent,level\n1,,land\n" + "".join(f"1{n},1,county\n" for n in (1, 2, 3))


def former(name: str, witness: str = "") -> Path:
    """Put a former ledger, and its witness, where the former program had them."""
    Path("toy/old").mkdir(parents=True, exist_ok=True)
    if witness:
        shutil.copy(FORMER / witness, "toy")
    return Path(shutil.copy(FORMER / f"{name}.jsonl", "toy/old"))


@pytest.fixture
def run(topdown, toy) -> Path:
    """Write the toy census with limits of epsilon at a delta, and no ledger."""

    def edit(text: str) -> str:
        lines = [line for line in text.splitlines() if not line.startswith("rho_limit")]
        return "\n".join(lines).replace(
            "[ledger]\n", '[ledger]\nepsilon_limit = "40"\ndelta_limit = "1/1000"\n'
        )

    run = toy(Path("toy"), edit)
    shutil.rmtree("toy/ledger")
    next(Path("toy").glob("*.registry")).unlink()
    run.write_text(re.sub(r'id = "[0-9a-f]{16}".*\n', "", run.read_text()) + "\n")
    return run


def test_what_former_ledgers_held_counts_in_everything_that_follows(topdown, run, check):
    """A new ledger that forgot what was spent would let all of it be spent again, and say so to nobody."""
    rho = former("persons", f"ledger-{TOY}.witness.json")
    optimal = former("optimal")
    before = rho.read_bytes(), optimal.read_bytes()
    for path in (rho, optimal):
        said = topdown("ledger", "take-over", run, "--former", path, *SAID, "--json").ok()
        check(said.document)
    assert (rho.read_bytes(), optimal.read_bytes()) == before
    assert not Path(f"toy/ledger-{TOY}.witness.json").exists()  # the former program refuses to go on
    book = read_ledger(LEDGER)
    taken = [entry.event for entry in book.entries if isinstance(entry.event, TakenOver)]
    assert [(x.ledger, x.witness, len(x.charges), x.attested, x.refunded) for x in taken] == [
        (TOY, "agrees", 4, 1, 1),
        (OPTIMAL, "none", 1, 0, 0),
    ]
    # two releases and one that was stopped, a choice, optimal noise; what was taken back does not count
    assert {kind: str(x) for kind, x in book.charged.items()} == {
        "rho": "6",
        "epsilon": "1/2",
        "epsilon_delta": "2",
    }
    said = topdown("audit", "--ledger", LEDGER, "--json").ok()
    check(said.document)
    ((delta, box),) = said.document["secrets"][0]["epsilon"].items()
    loss_within([charge for _, charge in book.charges], delta, box)
    assert sum(row["n_unfinished"] for row in said.document["releases"]) == 1

    assert topdown("generate", run, "--out", "same", "--yes").refusal == "B013"
    run.write_text(run.read_text().replace("persons-r1", "next"))
    said = topdown("generate", run, "--out", "next", "--yes", "--workers", 1).ok()
    stated = json.loads(Path("next/certificate.json").read_text())["privacy"]["everything_released"]
    assert [one["taken_over"]["ledger"] for one in stated["attestations"]] == [TOY, OPTIMAL]
    assert stated["charged"]["rho"] == "8"
    assert "A. Person attested" in stated["secrets"][0]["sentence"]
    said = topdown("verify", "next")
    assert (said.code, f"ledger {TOY} of format 2" in " ".join(said.out.split())) == (0, True)
    assert f"ledger {OPTIMAL} of format 2" in " ".join(Path("next/README.txt").read_text().split())
    shown = topdown("ledger", "show", run)
    assert "no witness of it was found" in " ".join(shown.out.split())


def test_a_certificate_that_hides_a_take_over_is_found(topdown, run):
    """Whoever renews certificate and manifest must still not lose what was spent before, or who says that it is all."""
    assert topdown("ledger", "take-over", run, "--former", former("persons"), *SAID).code == 0
    run.write_text(run.read_text().replace("persons-r1", "next"))
    assert topdown("generate", run, "--out", "next", "--yes", "--workers", 1).code == 0
    whole = json.loads(Path("next/certificate.json").read_text())
    stated = whole["privacy"]["everything_released"]
    for change in (
        {"attestations": []},
        {
            "attestations": [
                one | {"taken_over": one["taken_over"] | {"witness": "agrees"}}
                for one in stated["attestations"]
            ]
        },
        {"charged": stated["charged"] | {"rho": "2"}},
    ):
        forged = json.loads(json.dumps(whole))
        forged["privacy"]["everything_released"].update(change)
        Path("next/certificate.json").write_text(
            json.dumps(forged, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        )
        reseal(Path("next"))
        assert "V136" in json.dumps(topdown("verify", "next", "--json").document), change


def test_a_former_ledger_that_was_put_back_is_refused(topdown, run):
    """Its witness knows of a release that it forgot, and the new ledger would forget it too."""
    old = former("early", f"ledger-{TOY}.witness.json")
    assert topdown("ledger", "take-over", run, "--former", old, *SAID).refusal == "B064"
    assert not LEDGER.exists()
    assert Path(f"toy/ledger-{TOY}.witness.json").exists()
    # without a witness nobody can know: that none was found is stated, and the newest copy replaces it later
    Path(f"toy/ledger-{TOY}.witness.json").unlink()
    assert topdown("ledger", "take-over", run, "--former", old, *SAID).code == 0
    assert str(read_ledger(LEDGER).charged["rho"]) == "2"
    newest = former("persons")
    assert topdown("ledger", "take-over", run, "--former", newest, *SAID).code == 0
    assert str(read_ledger(LEDGER).charged["rho"]) == "6"
    assert topdown("ledger", "take-over", run, "--former", old, *SAID).refusal == "B064"
    n = len(read_ledger(LEDGER).entries)
    assert topdown("ledger", "take-over", run, "--former", newest, *SAID).code == 0
    assert len(read_ledger(LEDGER).entries) == n  # taken over already: nothing is counted twice


def test_a_former_ledger_with_a_registry_is_taken_over(topdown, run):
    """The last of format 2 had a registry, which names them as the one ledger of the data set."""
    old = former("registered", f"ledger-{REGISTERED}.registry")
    assert topdown("ledger", "new", run).refusal == "B017"
    topdown("ledger", "take-over", run, "--former", old, *SAID).ok()
    (taken,) = read_ledger(LEDGER).taken_over.values()
    assert (taken.witness, taken.attested) == ("agrees", 1)
    assert topdown("ledger", "attest", run, *SAID).code == 0
    names = {path.name for path in Path("toy").glob("*.registry*")}
    assert f"ledger-{REGISTERED}.registry.taken-over" in names


def test_group_sizes_are_taken_over(tmp_path, monkeypatch, topdown, run):
    """Their steps had another name; a ledger of replaced persons cannot take them, under whatever name."""
    old = former("groups", f"ledger-{GROUPS}.witness.json")
    said = topdown("ledger", "take-over", run, "--former", old, *SAID)
    assert (said.code, "error[B065]" in said.err, "--former-name" in said.err) == (2, True, True)
    said = topdown("ledger", "take-over", run, "--former", old, "--former-name", "groups", *SAID)
    assert said.refusal == "B021"
    Path("groups.csv").write_text(TABLE)
    Path("regions.csv").write_text(REGIONS)
    Path("g.toml").write_text(
        'groups = "groups.csv"\nhierarchy = "regions.csv"\nsizes = 6\nepsilon = "1/2"\n'
    )
    limit = ("--epsilon-limit", "2")
    taking = ("ledger", "take-over", "g.toml", "--former", old, "--from", "toy", *limit, *SAID)
    pgsr(*taking).ok()
    (taken,) = read_ledger(Path("ledger/groups.ledger.jsonl")).taken_over.values()
    assert (taken.witness, [str(one.charge.loss) for one in taken.charges]) == ("agrees", ["1/2"])
    pgsr("release", "g.toml", *limit, "--out", "sizes", "--yes").ok()
    assert f"ledger {GROUPS} of format 2" in " ".join(pgsr("verify", "sizes").ok().out.split())
    assert f"ledger {GROUPS} of format 2" in " ".join(Path("sizes/README.txt").read_text().split())


@pytest.mark.parametrize(
    ("code", "damage"),
    [
        ("B006", lambda data: data.replace(b'"loss":"2"', b'"loss":"1"')),
        ("B006", lambda data: b"".join(data.splitlines(True)[:3] + data.splitlines(True)[4:])),
        ("B006", lambda data: data.replace(b"open", b"opem")),
        ("B006", lambda data: b"not a ledger\n"),
        ("B063", lambda data: b""),
    ],
)
def test_what_is_no_whole_former_ledger_is_refused(topdown, run, code, damage):
    """A changed charge, a missing line or another file would become the history of the data set."""
    old = former("persons")
    old.write_bytes(damage(old.read_bytes()))
    assert topdown("ledger", "take-over", run, "--former", old, *SAID).refusal == code
    assert not LEDGER.exists()


def test_a_ledger_of_today_needs_no_taking_over(topdown, run):
    """Taken over into itself, everything would be charged twice."""
    assert topdown("ledger", "new", run).code == 0
    assert topdown("ledger", "take-over", run, "--former", LEDGER, *SAID).refusal == "B063"
    said = topdown("ledger", "take-over", run, "--former", former("persons"), "--by", "A. Person")
    assert said.refusal == "C005"
    said = topdown("ledger", "take-over", run, "--former", former("persons"), "--by", " ", "--reason", "x")
    assert said.refusal == "B062"


class _StopError(Exception):
    """The machine stops."""


class _StoppingDisk(Disk):
    """A disk on which the machine stops before something is renamed to say that it was taken over."""

    def rename(self, source: Path, target: Path) -> None:
        if target.name.endswith(".taken-over"):
            raise _StopError
        super().rename(source, target)


def test_a_take_over_that_was_interrupted_is_finished_by_the_same_command(topdown, run):
    """A second count of the same charges, or a witness that stays, would follow from a crash between the two."""
    old = former("persons", f"ledger-{TOY}.witness.json")
    assert topdown("ledger", "new", run).code == 0
    place = ledger_location_of_file(run)
    found = find_former_ledger(place, old)
    with pytest.raises(_StopError):
        take_over(place, found, "A. Person", "a new program", _StoppingDisk())
    assert topdown("ledger", "take-over", run, "--former", old, *SAID).code == 0
    assert str(read_ledger(LEDGER).charged["rho"]) == "6"
    assert not Path(f"toy/ledger-{TOY}.witness.json").exists()
