"""`topdown select`: choices from real records, booked first, nothing said but the choice; wrong ones spend nothing."""

import json
import os
import shutil
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest

from examples.rhode_island_offices import choose, covers_of, people_of_tracts, share
from tests.helpers.choices import LEDGER, OFFICES, SITES, write_candidates
from tests.helpers.ledgers import limit_as_stated
from topdown import PlannedChoice, select
from topdown.app import select_check
from topdown.errors import TopdownError
from topdown.privacy.ledger import read_ledger


@pytest.fixture
def run(topdown, toy) -> Path:
    """Write the toy census with candidates beside it; return the run file."""
    write_candidates()
    return toy(Path("toy"))


def test_sites_are_chosen_charged_and_verified(topdown, run, check):
    """The whole way: a choice that no ledger paid for, or no auditor can check, is no release."""
    said = topdown("select", "sites", run, *SITES, "--out", "offices", "--json").ok()
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
    assert (paid.loss, paid.loss_name) == (Fraction(1, 2), "epsilon")
    rho = read_ledger(LEDGER).composed().rho
    assert rho == Fraction(1, 2) * (odds - 1) / (odds + 1) < Fraction(1, 8)


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
    run.write_text(run.read_text().replace("rho_limit = ", 'rho_limit = "100" # '))
    limit_as_stated(run)
    order = ("select", "order", run, "--candidates", "offices.csv", "--epsilon", "1", "--yes", "--json")
    for out, more in (("order", ("--most-records", 500)), ("choices", ())):
        said = topdown(*order, "--out", out, *more)
        check(said.document)
        check(json.loads(Path(out, "selection.json").read_text()))
        assert sorted(said.document["chosen"]) == ["East", "North", "South", "West"]
    watched = ("select", "frequent", run, "--query", "sex * age", "--query", "dwelling", "--level", "county")
    said = topdown(*watched, "--more-than", 1, "--epsilon", "8", "--out", "often", "--yes", "--json").ok()
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
        ).ok()
        asked = json.loads(Path(out, "selection.json").read_text())["question"]
        districts = {one["name"]: one["district"] for one in asked["candidates"]}
        assert len({districts[name] for name in said.document["chosen"]}) == 2
    near = ("select", "sites", run, "--candidates", "places.csv", "--radius", 3, "--centres", "centres.csv")
    assert topdown(*near, "--k", 1, "--epsilon", "1/2", "--yes", "--out", "near").code == 0
    assert (
        "for one site" in topdown(*near, "--k", 1, "--epsilon", "3", "--out", "x").err
    )  # then nobody can be asked
    covered = Path("near/public/coverage.csv").read_text()
    assert {"North"} == {line.split(",")[0] for line in covered.splitlines()[1:]}
    assert (
        covered.count("North") == 5
    )  # 1 or 2 km north, and 0.83 km west for each block: three and two of four


def test_choices_and_releases_are_one_composition(topdown, run, check):
    """A release after a choice that states its own loss alone forgets what the choice told."""
    assert topdown("select", "sites", run, *SITES, "--out", "offices").code == 0
    alone = topdown("audit", "--ledger", LEDGER, "--json").document["secrets"][0]
    assert alone["epsilon"] == {"0": ["0", "0.5"]}
    topdown("generate", run, "--out", "release", "--yes", "--workers", 1).ok()
    said = topdown("audit", "--ledger", LEDGER, "--json").document
    check(said)
    assert [r["what"] for r in said["releases"]] == ["choice", "release"]
    own = topdown("audit", "release", "--json").document["secrets"][0]
    together = said["secrets"][0]
    assert float(together["epsilon"]["1e-10"][0]) == pytest.approx(float(own["epsilon"]["1e-10"][0]))
    most = float(own["epsilon"]["1e-10"][1])
    assert most < float(together["epsilon"]["1e-10"][1]) < most + 0.5  # composed, not added up
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
    topdown("select", "sites", run, *SITES, "--out", "offices").ok()
    document = topdown("audit", "--ledger", LEDGER, "--json").document
    check(document)
    presence, replaced = document["secrets"]
    assert (document["charged"], presence["epsilon"]) == ({"epsilon": "1/2"}, {"0": ["0", "0.5"]})
    assert replaced["epsilon"] == {"0": ["0", "1"]}
    certificate = json.loads(Path("offices/certificate.json").read_text())
    assert "whether one person's answers were there at all" in certificate["sentence"]
    assert topdown("verify", "offices").code == 0


def test_the_same_choice_is_not_paid_twice_unasked(topdown, run):
    """A second draw of the same choice tells more, and is more often a slip than meant."""
    assert topdown("select", "sites", run, *SITES, "--out", "one").code == 0
    refused = topdown("select", "sites", run, *SITES, "--out", "two")
    assert refused.refusal == "B013"
    assert "a new choice" in refused.err
    assert topdown("select", "sites", run, *SITES, "--out", "one").refusal == "C086"
    before = Path("one/result.json").read_bytes()
    assert topdown("select", "sites", run, *SITES, "--out", "one", "--resume").code == 0
    assert before == Path("one/result.json").read_bytes()
    assert len(read_ledger(LEDGER).intents) == 1
    assert topdown("select", "sites", run, *SITES, "--out", "two", "--again").code == 0
    assert len(read_ledger(LEDGER).intents) == 2
    assert topdown("verify", "two").code == 0


def test_a_choice_that_comes_out_the_same_again_is_told_from_the_first(topdown, run):
    """Two draws with one outcome are two charges; each folder must be found to be its own, not the other's."""
    Path("one.csv").write_text("candidate,geocode\nNorth,1101\n")
    wish = ("select", "order", run, "--candidates", "one.csv", "--epsilon", "1/4", "--yes")
    for out, more in (("first", ()), ("second", ("--again",))):
        assert topdown(*wish, "--out", out, *more).code == 0
    assert Path("first/result.json").read_bytes() == Path("second/result.json").read_bytes()
    for out in ("first", "second"):
        assert topdown("verify", out).code == 0
    journal = Path("second/choice/journal.json")
    journal.write_bytes(Path("first/choice/journal.json").read_bytes())
    assert topdown("verify", "second").code == 1


def test_the_limit_of_the_ledger_holds_for_choices(topdown, run):
    """A choice beyond the limit that is drawn all the same spends what was not granted."""
    run.write_text(run.read_text().replace("rho_limit = ", 'rho_limit = "1/100" # '))
    limit_as_stated(run)
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
    assert said.refusal == "B007"
    assert "unit of privacy" in said.err


def test_errors_of_records_show_nothing_of_them(topdown, run):
    """A value in a message is a value published."""
    people = Path("toy/persons.csv")
    people.write_text(people.read_text() + "1101,home,SECRET,18_64,77\n")
    said = topdown("select", "sites", run, *SITES, "--out", "x")
    assert said.refusal == "D031"
    assert "SECRET" not in said.err + said.out
    assert "77" not in said.err + said.out
    assert not read_ledger(LEDGER).intents


def test_nobody_to_ask_and_no_approval(topdown, run):
    """A script that forgot to approve must not spend."""
    assert topdown("select", "sites", run, *SITES[:-1], "--out", "x").refusal == "C084"
    assert not read_ledger(LEDGER).intents


def test_the_self_check_is_a_command(topdown, check):
    """Whoever doubts the promise can compute the ratios of the shipped code."""
    said = topdown("select", "--self-check", "--json").ok()
    check(said.document)
    assert said.document["holds"]
    assert "11/7" in {row["worst"] for row in said.document["ratios"]}
    assert "All ratios are within" in topdown("select", "--self-check").out
    for more in (("sites",), ("--k", 3), ("--epsilon", "1")):
        assert "C005" in topdown("select", "--self-check", *more).err
    assert "C005" in topdown("select").err


def test_a_stop_comes_after_the_draw_and_says_what_is_spent(topdown, run):
    """Stopped half way, a choice would be drawn and paid for twice; "nothing is spent" would be untrue."""
    planned = select(run, "sites", "1/2", candidates="offices.csv", k=2)
    asked = planned.request
    answer = asked.question.answer

    def stopped(leaves, chance):
        os.kill(os.getpid(), signal.SIGINT)
        return answer(leaves, chance)

    wrapped = replace(asked, question=replace(asked.question, answer=stopped))
    with pytest.raises(KeyboardInterrupt) as raised:
        PlannedChoice(wrapped).choose("offices")
    (note,) = raised.value.__notes__
    loss = asked.spend.intent(("answer",), 1, "j").loss
    assert f"this run spent: epsilon {loss}; a finished choice is kept, go on with --resume" == note
    planned.choose("offices", resume=True)
    assert len(read_ledger(LEDGER).intents) == 1
    assert topdown("verify", "offices").code == 0


def test_a_full_disk_costs_no_choice(topdown, run, monkeypatch):
    """A choice that was drawn where no file could hold it was charged again, after "what was drawn is kept"."""
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 1000))
        said = topdown("select", "sites", run, *SITES, "--out", "offices")
    assert (said.code, "error[D050]" in said.err, "this run spent  nothing" in said.err) == (2, True, True)
    assert not read_ledger(LEDGER).intents
    assert topdown("select", "sites", run, *SITES, "--out", "offices", "--resume").code == 0
    assert len(read_ledger(LEDGER).intents) == 1


@pytest.mark.parametrize(
    ("refused", "code"), [("offices/manifest.json", "D050"), ("toy/ledger-*.registry", "B019")]
)
def test_a_disk_that_refuses_something_after_the_charge_says_how_to_go_on(topdown, run, refused, code):
    """Told to run the same command again, people got C086, and the next folder would have been paid for."""
    planned = select(run, "sites", "1/2", candidates="offices.csv", k=2)
    asked = planned.request
    place = next(Path().glob(refused), Path(refused))
    in_the_way = place.with_name(place.name + ".tmp")

    def answer(leaves, chance):
        in_the_way.mkdir()
        return asked.question.answer(leaves, chance)

    wrapped = replace(asked, question=replace(asked.question, answer=answer))
    with pytest.raises(TopdownError, match=place.name) as raised:
        PlannedChoice(wrapped).choose("offices")
    assert (raised.value.code, "with --resume" in raised.value.fix) == (code, True)
    in_the_way.rmdir()
    planned.choose("offices", resume=True)
    assert topdown("verify", "offices").code == 0
    assert len(read_ledger(LEDGER).intents) == 1


def test_a_program_can_do_the_same(topdown, run):
    """What only the command line can do is done by scripts that read screens."""
    asked = select(run, "sites", "1/2", candidates="offices.csv", k=2)
    assert not read_ledger(LEDGER).intents
    made = asked.choose("offices")
    assert len(made.chosen) == 2
    assert select_check().holds


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--k", 0), "C193"),
        (("--k", 5), "C193"),
        (("--epsilon", "0"), "C191"),
        (("--epsilon", "11"), "C191"),
        (("--epsilon", "nan"), "A001"),
        (("--epsilon", "1_0/20"), "A001"),
        (("--epsilon", "+1"), "A001"),
        (("--epsilon", "１"), "A001"),
        (("--k", "+1"), "C005"),
        (("--k", "1_0"), "C005"),
        (("--k", "１"), "C005"),
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
    assert topdown("select", "sites", run, *SITES, "--out", "x", *options, "--json").refusal == code
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
    assert said.refusal == code
    assert not read_ledger(LEDGER).intents


DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "rhode_island_2010"


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the blocks of Rhode Island lie outside the project, in ../shared"
)
def test_twelve_of_all_tracts_for_a_million_people(topdown):
    """A choice that is private and far from the best, or takes minutes, helps nobody."""
    files = ("--records", DATA / "persons.csv.gz", "--leaves", DATA / "blocks.csv.gz")
    made = (
        *["init", "--schema", "pl94", "--settings", "pl94_2020"],
        *files,
        *["--registry", ".", "--out", "run.toml"],
    )
    assert topdown(*made).code == 0
    private, best = choose(Path("run.toml"), DATA / "persons.csv.gz", Path())
    people = people_of_tracts(DATA / "persons.csv.gz")
    covers = covers_of(sorted(people))
    assert share(private, covers, people) > 0.95 * share(best, covers, people)
    assert topdown("verify", "offices").code == 0
    drawn = Path("offices.svg").read_text()
    ElementTree.fromstring(drawn)  # noqa: S314 our own
    assert drawn.count("#0b6e99") - drawn.count('fill="#0b6e99" fill-opacity') == len(private)
