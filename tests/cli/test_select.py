"""`topdown select`: choices from real records, booked first, and nothing said but the choice."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.cli.conftest import write_toy
from topdown.api import selection
from topdown.cli import main
from topdown.commands.select import _stopped
from topdown.ledger.ledger import read_ledger
from topdown.screen.console import Screen

LEDGER = Path("toy") / "ledger" / "persons.jsonl"
OFFICES = "candidate,geocode\nNorth,1101\nNorth,1102\nSouth,12\nEast,1301\nEast,1302\nWest,1104\n"
SIDES = (
    "candidate,geocode,side\nNorth,1101,a\nNorth,1102,a\nSouth,12,a\nEast,1301,b\nEast,1302,b\nWest,1104,b\n"
)
PLACES = "candidate,latitude,longitude\nNorth,41.5,-71.5\nFar,43,-71.5\nSouth,41.6,-71.6\n"
SITES = ("--candidates", "offices.csv", "--k", 2, "--epsilon", "1/2", "--yes")


def centres() -> str:
    """Return a centre for each leaf: one county a kilometre north of the other."""
    rows = [f"1{c}{b:02d},{41.5 + c / 111:.4f},-71.5{b}\n" for c in (1, 2, 3) for b in (1, 2, 3, 4)]
    return "geocode,latitude,longitude\n" + "".join(rows)


@pytest.fixture
def run(topdown, toy) -> Path:
    """Write the toy census with candidates beside it; return the run file."""
    Path("offices.csv").write_text(OFFICES)
    Path("sides.csv").write_text(SIDES)
    Path("places.csv").write_text(PLACES)
    Path("centres.csv").write_text(centres())
    return toy(Path("toy"))


def test_sites_are_chosen_charged_and_verified(topdown, run, check):
    """The whole way: a choice that no ledger paid for, or no auditor can check, is no release."""
    said = topdown("select", "sites", run, *SITES, "--out", "offices", "--json")
    assert said.code == 0, said.err
    check(said.document)
    assert {"North", "South", "East", "West"} > set(said.document["chosen"])
    assert len(set(said.document["chosen"])) == 2
    for name in ("selection", "certificate", "manifest", "result"):
        check(json.loads(Path(f"offices/{name}.json").read_text()))
    verified = topdown("verify", "offices", "--json")
    assert (verified.code, verified.document["ok"]) == (0, True)
    check(verified.document)
    assert [what[:25] for what in verified.document["not_checked"]] == ["that the choice was drawn"]
    (paid,) = read_ledger(LEDGER).intents.values()
    odds = paid.exp_epsilon
    assert paid.loss == Fraction(1, 2) * (odds - 1) / (odds + 1) < Fraction(1, 8)


def test_nothing_about_the_sample_leaves(topdown, run):
    """Sample size, coverage or gains in a file would be a second answer that nobody paid for."""
    assert topdown("select", "sites", run, *SITES, "--out", "offices").code == 0
    files = {p.relative_to("offices").as_posix() for p in Path("offices").rglob("*") if p.is_file()}
    drawn = {"choice/answer/part-000.json", "choice/journal.json", "result.json", "ledger.jsonl"}
    assert files == drawn | {"certificate.json", "manifest.json", "selection.json", "public/coverage.csv"}
    result = json.loads(Path("offices/result.json").read_text())
    assert set(result) == {"type", "version", "plan_hash", "chosen", "frequent"}
    # records change: everything that is written before the draw stays the same, byte for byte
    people = Path("toy/persons.csv")
    people.write_text(people.read_text().replace(",4\n", ",400\n"))
    assert topdown("select", "sites", run, *SITES, "--out", "more", "--again").code == 0
    for name in ("selection.json", "public/coverage.csv"):
        assert Path("offices", name).read_bytes() == Path("more", name).read_bytes()


def test_orders_and_frequent_answers(topdown, run, check):
    """Each kind of choice goes the same way, and keeps to what could be chosen."""
    run.write_text(run.read_text().replace("limit = ", 'limit = "100" # '))
    order = ("select", "order", run, "--candidates", "offices.csv", "--epsilon", "1", "--yes", "--json")
    for out, more in (("order", ("--most-records", 500)), ("choices", ())):
        said = topdown(*order, "--out", out, *more)
        check(said.document)
        check(json.loads(Path(out, "selection.json").read_text()))
        assert sorted(said.document["chosen"]) == ["East", "North", "South", "West"]
    watched = ("select", "frequent", run, "--query", "sex * age", "--query", "dwelling", "--level", "county")
    said = topdown(*watched, "--more-than", 1, "--epsilon", "8", "--out", "often", "--yes", "--json")
    assert said.code == 0, said.err
    check(said.document)
    assert {one["query"] for one in said.document["frequent"]} <= {"sex * age", "dwelling"}
    assert {one["area"] for one in said.document["frequent"]} <= {"11", "12", "13"}
    found = [one["values"] for one in said.document["frequent"] if one["query"] == "sex * age"]
    assert {"sex": "female", "age": "18_64"} in found  # 19 of 31 in each county
    for folder in ("order", "choices", "often"):
        assert topdown("verify", folder).code == 0


def test_districts_by_column_and_places_within_a_radius(topdown, run):
    """A limit that is not kept, or a radius in other units, chooses other sites than were asked for."""
    for out, per, table in (("column", "side", "sides.csv"), ("level", "county", "offices.csv")):
        said = topdown(
            "select", "sites", run, *SITES, "--candidates", table, "--per", per, "--out", out, "--json"
        )
        assert said.code == 0, said.err
        asked = json.loads(Path(out, "selection.json").read_text())["question"]
        districts = {one["name"]: one["district"] for one in asked["candidates"]}
        assert len({districts[name] for name in said.document["chosen"]}) == 2
    near = ("select", "sites", run, "--candidates", "places.csv", "--radius", 3, "--centres", "centres.csv")
    assert topdown(*near, "--k", 1, "--epsilon", "1/2", "--yes", "--out", "near").code == 0
    covered = Path("near/public/coverage.csv").read_text()
    assert {"North"} == {line.split(",")[0] for line in covered.splitlines()[1:]}
    assert (
        covered.count("North") == 5
    )  # 1 or 2 km north, and 0.83 km west for each block: three and two of four


def test_choices_and_releases_are_one_composition(topdown, run, check):
    """A release after a choice that states its own loss alone forgets what the choice told."""
    assert topdown("select", "sites", run, *SITES, "--out", "offices").code == 0
    alone = topdown("audit", "--ledger", LEDGER, "--json").document["secrets"][0]
    assert alone["epsilon"]["1e-10"] == ["0", "0.5"]
    made = topdown("generate", run, "--out", "release", "--yes", "--workers", 1)
    assert made.code == 0, made.err
    said = topdown("audit", "--ledger", LEDGER, "--json").document
    check(said)
    assert [r["what"] for r in said["releases"]] == ["choice", "release"]
    own = topdown("audit", "release", "--json").document["secrets"][0]
    together = said["secrets"][0]
    assert float(together["epsilon"]["1e-10"][0]) == pytest.approx(float(own["epsilon"]["1e-10"][0]))
    assert float(together["epsilon"]["1e-10"][1]) == pytest.approx(float(own["epsilon"]["1e-10"][1]) + 0.5)
    assert together["right_in_100"] >= own["right_in_100"]
    quoted = json.loads(Path("release/certificate.json").read_text())["privacy"]["everything_released"]
    assert quoted["secrets"] == said["secrets"]
    assert topdown("verify", "release").code == 0
    assert "(choice)" in topdown("audit", "--ledger", LEDGER).out
    certificate = Path("release/certificate.json")
    certificate.write_text(certificate.read_text().replace(together["epsilon"]["1e-10"][1], "0.7"))
    text = topdown("verify", "release", "--json").document
    assert "V136" in str(text) or "V132" in str(text)


def test_a_ledger_of_epsilon_takes_choices_of_presence(topdown, toy, check):
    """Under add_remove and epsilon the charge is epsilon itself, and a row for a replaced record stands beside it."""
    Path("offices.csv").write_text(OFFICES)
    other = {"rho =": "epsilon =", '"bounded"': '"add_remove"', '"discrete_gaussian"': '"geometric"'}

    def edit(text: str) -> str:
        for old, new in (*other.items(), ('invariants = "toy"', 'invariants = "none.toml"')):
            text = text.replace(old, new)
        return text.replace("ignore = []", 'ignore = ["homes", "dormitories", "barracks"]')

    Path("toy").mkdir()
    Path("toy/none.toml").write_text(
        'type = "topdown.invariants"\nversion = 1\nname = "none"\ntitle = "None"\nschema = "toy"\nsource = "made up"\n'
    )
    run = toy(Path("toy"), edit)
    said = topdown("select", "sites", run, *SITES, "--out", "offices")
    assert said.code == 0, said.err
    document = topdown("audit", "--ledger", LEDGER, "--json").document
    check(document)
    presence, replaced = document["secrets"]
    assert (document["charged"], presence["epsilon"]) == ("1/2", {"0": ["0", "0.5"]})
    assert replaced["epsilon"] == {"0": ["0", "1"]}
    certificate = json.loads(Path("offices/certificate.json").read_text())
    assert "whether one person's answers were there at all" in certificate["sentence"]
    assert topdown("verify", "offices").code == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--k", 0), "C193"),
        (("--k", 5), "C193"),
        (("--epsilon", "0"), "C191"),
        (("--epsilon", "11"), "C191"),
        (("--epsilon", "nan"), "A001"),
        (("--epsilon", "1/" + "3" * 60), "C191"),
        (("--per", "nowhere"), "C195"),
        (("--per", "block"), "C195"),
        (("--most", 0), "C193"),
        (("--radius", 3), "C194"),
        (("--radius", 3, "--centres", "centres.csv"), "C194"),
        (("--candidates", "places.csv"), "C194"),
        (("--candidates", "nowhere.csv"), "D001"),
        (("--most-records", 9), "C005"),
        (("--out", "toy"), "C132"),
    ],
)
def test_wrong_questions_spend_nothing(topdown, run, options, code):
    """What is accepted silently would be paid for and answer something else."""
    said = topdown("select", "sites", run, *SITES, "--out", "x", *options, "--json")
    assert (said.code, said.document["code"]) == (2, code)
    assert not read_ledger(LEDGER).intents
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ("candidate,geocode\nNorth,9999\n", "D062"),
        ("candidate,geocode,side\nNorth,1101,a\nNorth,1102,b\n", "D062"),
        ("candidate,geocode\n", "D003"),
        ("name,geocode\nNorth,1101\n", "D004"),
        ("candidate,geocode,note\nNorth,1101,x\n", "D040"),
        ("candidate,latitude,longitude\nNorth,141,-71\n", "D062"),
        ("candidate,latitude,longitude\nNorth,41,-71\nNorth,42,-71\n", "D062"),
        ("candidate,latitude,longitude\nNorth,0,0\n", "C192"),
    ],
)
def test_wrong_candidates_are_refused(topdown, run, table, code):
    """A geocode with a lost zero that is skipped leaves people without a site that covers them."""
    Path("bad.csv").write_text(table)
    more = ("--radius", 3, "--centres", "centres.csv") if "latitude" in table else ()
    more += ("--per", "side") if "side" in table else ()
    said = topdown(
        "select", "sites", run, *SITES, "--k", 1, "--out", "x", "--candidates", "bad.csv", *more, "--json"
    )
    assert (said.code, said.document["code"]) == (2, code)
    assert not read_ledger(LEDGER).intents


def test_the_same_choice_is_not_paid_twice_unasked(topdown, run):
    """A second draw of the same choice tells more, and is more often a slip than meant."""
    assert topdown("select", "sites", run, *SITES, "--out", "one").code == 0
    refused = topdown("select", "sites", run, *SITES, "--out", "two")
    assert (refused.code, "error[B013]" in refused.err) == (2, True)
    assert "a new choice" in refused.err
    again = topdown("select", "sites", run, *SITES, "--out", "one")
    assert (again.code, "error[C086]" in again.err) == (2, True)
    before = Path("one/result.json").read_bytes()
    assert topdown("select", "sites", run, *SITES, "--out", "one", "--resume").code == 0
    assert before == Path("one/result.json").read_bytes()
    assert len(read_ledger(LEDGER).intents) == 1
    assert topdown("select", "sites", run, *SITES, "--out", "two", "--again").code == 0
    assert len(read_ledger(LEDGER).intents) == 2
    assert topdown("verify", "two").code == 0


def test_the_limit_of_the_ledger_holds_for_choices(topdown, run):
    """A choice beyond the limit that is drawn all the same spends what was not granted."""
    run.write_text(run.read_text().replace("limit = ", 'limit = "1/100" # '))
    said = topdown("select", "sites", run, *SITES, "--out", "x")
    assert (said.code, "error[B004]" in said.err, "--epsilon" in said.err) == (2, True, True)
    assert "nothing" in said.err.split("this run spent")[-1]
    assert not read_ledger(LEDGER).intents


def test_a_ledger_of_households_takes_no_choice_of_persons(topdown, run):
    """Flags of persons do not protect a household: the ledger says whose answers are protected."""
    toml = Path("toy/household.toml")
    schema = Path(__file__).resolve().parents[2] / "schemas" / "toy.toml"
    toml.write_text(schema.read_text().replace('unit = "person"', 'unit = "household"'))
    run.write_text(run.read_text().replace('schema = "toy"', 'schema = "household.toml"'))
    said = topdown("select", "sites", run, *SITES, "--out", "x")
    assert (said.code, "error[B007]" in said.err) == (2, True)
    assert "unit of privacy" in said.err


def test_errors_of_records_show_nothing_of_them(topdown, run):
    """A value in a message is a value published."""
    people = Path("toy/persons.csv")
    people.write_text(people.read_text() + "1101,home,SECRET,18_64,77\n")
    said = topdown("select", "sites", run, *SITES, "--out", "x")
    assert (said.code, "error[D031]" in said.err) == (2, True)
    assert "SECRET" not in said.err + said.out
    assert "77" not in said.err + said.out
    assert not read_ledger(LEDGER).intents


def test_nobody_to_ask_and_no_approval(topdown, run):
    """A script that forgot to approve must not spend."""
    said = topdown("select", "sites", run, *SITES[:-1], "--out", "x")
    assert (said.code, "error[C084]" in said.err) == (2, True)
    assert not read_ledger(LEDGER).intents


@pytest.fixture(scope="module")
def chosen(tmp_path_factory) -> Path:
    """Make a choice once; copy it before changing it."""
    folder = tmp_path_factory.mktemp("chosen")
    run = write_toy(folder)
    (folder / "offices.csv").write_text(SIDES)
    options = [
        "--candidates",
        str(folder / "offices.csv"),
        "--k",
        "2",
        "--per",
        "side",
        "--epsilon",
        "1/2",
        "--yes",
    ]
    assert main(["select", "sites", str(run), *options, "--out", str(folder / "offices"), "--quiet"]) == 0
    return folder / "offices"


def reseal(folder: Path) -> None:
    """Write the manifest over files that were changed, as somebody would who hides it."""
    from topdown.publish.manifest import write_manifest

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
def test_changed_choices_are_found_out(chosen, tmp_path, name):
    """Whoever changes a file renews the manifest too; what is checked must not rest on it."""
    code, change = CHANGES[name]
    folder = tmp_path / "choice"
    shutil.copytree(chosen, folder)
    from topdown import verify

    assert verify(folder).ok
    change(folder)
    assert "V001" in str(verify(folder).to_json()) or name == "a stranger"
    reseal(folder)
    assert code in {finding["code"] for c in verify(folder).to_json()["checks"] for finding in c["findings"]}


def test_the_self_check_is_a_command(topdown, check):
    """Whoever doubts the promise can compute the ratios of the shipped code."""
    said = topdown("select", "check", "--json")
    assert said.code == 0
    check(said.document)
    assert said.document["holds"]
    assert "11/7" in {row["worst"] for row in said.document["ratios"]}
    assert "All ratios are within" in topdown("select", "check").out


def test_a_stop_comes_after_the_draw_and_says_what_is_spent(topdown, run):
    """Stopped half way, a choice would be drawn and paid for twice; "nothing is spent" would be untrue."""
    asked = selection.select_plan(run, selection.Sites(selection.Cover("offices.csv"), 2), "1/2")
    answer = asked.question.answer

    def stopped(leaves, chance):
        os.kill(os.getpid(), signal.SIGINT)
        return answer(leaves, chance)

    wrapped = replace(asked, question=replace(asked.question, answer=stopped))
    with pytest.raises(KeyboardInterrupt) as raised:
        selection.select(wrapped, "offices")
    (note,) = raised.value.__notes__
    loss = asked.spend.intent(("answer",), 1, "j").loss
    assert f"this run spent: rho {loss}; what was drawn is kept, go on with --resume" == note
    shown = _stopped(Screen.open(), raised.value)
    assert shown == 130
    selection.select(asked, "offices", resume=True)
    assert len(read_ledger(LEDGER).intents) == 1
    assert topdown("verify", "offices").code == 0


def test_a_program_can_do_the_same(topdown, run):
    """What only the command line can do is done by scripts that read screens."""
    wish = selection.Sites(selection.Cover("offices.csv"), 2)
    asked = selection.select_plan(run, wish, "1/2")
    assert not read_ledger(LEDGER).intents
    made = selection.select(asked, "offices")
    assert len(made.chosen) == 2
    assert selection.select_check().holds
