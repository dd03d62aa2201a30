"""A unit of several records, a household of at most three persons: planned, checked, charged, released and audited."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.households import EXACT, MOST, UNIT, people, write_households, write_records
from topdown.cli import main
from topdown.measure import create_run_ledger
from topdown.plan import read_plan
from topdown.privacy import Relation
from topdown.privacy.ledger import LedgerBinding, read_ledger
from topdown.verify import verify


@pytest.fixture(scope="module", params=["bounded", pytest.param("add_remove", marks=pytest.mark.slow)])
def land(request, tmp_path_factory) -> Path:
    """Release the toy land under a relation; return the folder with its run file and `release/`."""
    folder = tmp_path_factory.mktemp("households")
    run = write_households(folder, request.param)
    create_run_ledger(run)
    assert main(["generate", str(run), "--out", str(folder / "release"), "--yes", "--workers", "1"]) == 0
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    """Write a run file with its ledger, for records that a test writes."""
    made = write_households(tmp_path)
    create_run_ledger(made)
    return made


def test_the_whole_way(topdown, land, check):
    """A step that takes a household for one person would state three times less than is lost."""
    release = land / "release"
    assert verify(release).ok
    certificate = json.loads((release / "certificate.json").read_text())
    check(certificate)
    privacy = certificate["privacy"]
    assert (privacy["unit"], privacy["loss_name"], privacy["loss"]) == (UNIT, "epsilon", "2")
    book = read_ledger(land / "ledger.jsonl")
    assert book.binding == LedgerBinding("toy", privacy["neighbours"], UNIT)
    assert {law.shift for _, charge in book.charges for law in charge.laws} == {3}
    assert privacy["everything_released"]["secrets"][0]["epsilon"] == {"0": ["2", "2"]}
    audit = topdown("audit", release, "--json").document
    check(audit)
    assert audit["certificate_agrees"] is True
    runs = topdown("audit", release, "--runs", 1000, "--json")
    assert (runs.code, runs.document["passes"]) == (0, True)


def test_the_loss_is_that_of_all_records_of_one_household(land):
    """Noise for single records keeps its epsilon for one person, and not for the three of a household."""
    plan = read_plan(land / "release" / "plan.json")
    moved = 3 * (2 if plan.neighbours == "bounded" else 1)
    for level in plan.levels:
        for m in level.measurements:
            assert m.loss == Fraction(moved) / m.parameter
    assert sum(m.loss for level in plan.levels for m in level.measurements) == 2


def test_screens_and_papers_speak_of_households_and_count_persons(topdown, land):
    """A reader who counts households where persons are meant takes the release for another one."""
    release = land / "release"
    readme = (release / "README.txt").read_text()
    screens = [topdown("plan", land / "run.toml").out, topdown("audit", release).out, readme]
    report = (release / "report.html").read_text()
    assert f"Privacy of one {UNIT}" in " ".join(screens[0].split())
    for text in (*screens, report):
        assert "one household" in " ".join(text.split()), text
        assert f"{UNIT} record" not in text
        assert f"{UNIT}'s" not in text
    assert "standard deviation in persons" in screens[0]
    assert "every other household's answers" in " ".join(readme.split())
    assert "person records in 5 block areas" in " ".join(readme.split())
    assert "differ by all records of one unit" in report
    assert "Suspicions about all records of one unit" in report
    assert "change of one record" not in report
    relation = json.loads((release / "plan.json").read_text())["neighbours"]
    presence = "a test of which of two answers they are can detect more" in report
    assert presence == (relation == "add_remove"), "the dots are about presence, where that is the relation"
    topdown("export", release, "--to", "sims", "--out", land / "sims.txt", "--force").ok()
    assert "Statistical unit: person." in (land / "sims.txt").read_text()


@pytest.mark.parametrize("size", [3, 4])
def test_no_household_has_more_records_than_the_bound(topdown, run, size):
    """One household of four moves counts by four: nothing that is stated would hold for it."""
    large = [("111", "home", "female", "18_64", "large")] * size
    write_records(run.parent / "records.csv", people() + large)
    made = topdown("generate", run, "--out", "release", "--yes", "--workers", 1)
    assert made.code == (0 if size == 3 else 2), made.err
    assert ("A083" in made.err) == (size == 4)
    assert bool(read_ledger(run.parent / "ledger.jsonl").charges) == (size == 3)
    if size == 4:
        assert "large" not in made.out + made.err
        assert "large" in (run.parent / "PRIVATE-input-errors.csv").read_text()


def test_a_count_is_so_many_records_of_the_household(topdown, tmp_path):
    """Rows of the same person kind, counted once, would hide a household beyond the bound."""
    run = write_households(tmp_path, count=True)
    create_run_ledger(run)
    text = (tmp_path / "records.csv").read_text()
    (tmp_path / "records.csv").write_text(
        text + "111,home,female,18_64,large,2\n111,home,male,0_17,large,2\n"
    )
    assert topdown("generate", run, "--out", tmp_path / "release", "--yes", "--workers", 1).refusal == "A083"


def test_records_without_the_column_are_refused(topdown, run):
    """Without it nobody knows how many records a household has."""
    lines = (run.parent / "records.csv").read_text().splitlines()
    (run.parent / "records.csv").write_text("".join(line.rpartition(",")[0] + "\n" for line in lines))
    made = topdown("generate", run, "--out", "release", "--yes", "--workers", 1)
    assert (made.code, "D023" in made.err, "'household'" in made.err) == (2, True, True)


def test_records_of_no_household_are_one_household(topdown, run):
    """Records whose household nobody wrote down would else be one unit of any size."""
    with (run.parent / "records.csv").open("a") as file:
        file.write("111,home,female,18_64,\n" * 4)
    assert topdown("generate", run, "--out", "release", "--yes", "--workers", 1).refusal == "A083"


def test_the_truth_may_have_the_column_or_not(topdown, land):
    """An office compares the release with the very records; made-up people of other tools have no households."""
    topdown("evaluate", land / "release", "--truth", land / "records.csv", "--run", land / "run.toml").ok()
    topdown("synth", land / "run.toml", "--people", 80, "--out", "people").ok()
    topdown("simulate", land / "run.toml", "--truth", "people/persons.csv.gz", "--out", "tried").ok()


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("A080", {"unit": "household of at most 1 persons"}),
        ("A080", {"unit": "household of at most 1001 persons"}),
        ("A080", {"unit": "household of up to 4 persons"}),
        ("A081", {"mechanism": "discrete_gaussian"}),
        ("A082", {"rules": EXACT}),
        ("A082", {"rules": MOST}),
        ("C022", {"unit": "sex of at most 4 persons"}),
    ],
)
def test_what_is_not_proved_is_refused(topdown, tmp_path, code, changes):
    """What is stated of a household must hold however its records spread, and whatever is published beside."""
    assert topdown("plan", write_households(tmp_path, **changes)).refusal == code


def test_verify_refuses_a_plan_that_nobody_can_judge(land, tmp_path):
    """A forged plan of Gaussian noise for households would be judged as if the records stayed together."""
    for put, why, old in (
        ('"discrete_gaussian"', "is not checked", '"geometric"'),
        ("of up to 3 persons", "is no unit of privacy", "of at most 3 persons"),
    ):
        folder = shutil.copytree(land / "release", tmp_path / put[1:5])
        plan = folder / "plan.json"
        plan.write_text(plan.read_text().replace(old, put, 1))
        found = [finding for check in verify(folder).checks for finding in check.findings]
        assert any(finding.code == "V010" and why in finding.text for finding in found), found[:3]


ADDED = """
[[attribute]]
name = "trade"
labels = ["farm", "other"]
"""
LEVEL = """
[[level]]
name = "{name}"
share = "1/3"
passes = [{{ table = "detailed" }}]
rounding = [{{ table = "detailed", weight = 1 }}]
[level.queries]
"trade" = "1/2"
"detailed" = "1/2"
"""


def test_an_extension_protects_the_same_unit(topdown, land, tmp_path, check):
    """The noise of the base is for its own unit: stated for a larger one it would be three times too little."""
    for path in land.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    schema = (land / "homes.toml").read_text() + ADDED
    for name, unit in (("same", UNIT), ("larger", UNIT.replace("3", "4")), ("single", "person")):
        text = schema.replace('name = "homes"', f'name = "{name}"').replace(UNIT, unit)
        (tmp_path / f"{name}.toml").write_text(text)
        policy = (land / "policy.toml").read_text()
        rules = policy[: policy.index("[[at_least]]")].replace('schema = "homes"', f'schema = "{name}"')
        (tmp_path / f"rules-{name}.toml").write_text(rules)
        run = (land / "run.toml").read_text().replace("homes.toml", f"{name}.toml")
        run = run.replace("policy.toml", f"rules-{name}.toml").replace("toy-r1", "toy-r2")
        levels = "".join(LEVEL.format(name=level) for level in ("land", "county", "block"))
        (tmp_path / "more.toml").write_text(run[: run.index("[[level]]")] + levels + "[base]\n")
        made = topdown("audit", tmp_path / "more.toml", "--base", land / "release", "--json")
        if name != "same":
            assert "C092" in made.out + made.err, made.err
            continue
        assert made.code == 0, made.out
        check(made.document)
        steps = [float(step["secrets"][0]["epsilon"]["0"][1]) for step in made.document["steps"]]
        assert float(made.document["secrets"][0]["epsilon"]["0"][1]) == pytest.approx(sum(steps))
        assert steps[0] == 2


@pytest.mark.parametrize("most", [1, 2, 4])
def test_nothing_is_spent_where_verify_reads_another_bound(topdown, run, monkeypatch, most):
    """Where the writers take a unit for a smaller one, noise is too small; verify has its own reading of the bound."""
    unit = type(Relation.named("bounded", UNIT).unit)
    true = unit.read
    monkeypatch.setattr(unit, "read", lambda text: replace(true(text), most_records=most))
    made = topdown("generate", run, "--out", "release", "--yes", "--workers", 1)
    assert made.code != 0
    assert "C077" in made.err or "A083" in made.err or "A080" in made.err, made.err
    assert not read_ledger(run.parent / "ledger.jsonl").charges


def test_a_choice_cannot_be_charged_to_a_ledger_of_households(topdown, run):
    """A choice keeps its epsilon for one record."""
    chosen = topdown(
        "select", "frequent", run, "--query", "sex", "--epsilon", "1/2", "--out", "chosen", "--yes"
    )
    assert chosen.refusal == "B021"
    assert not read_ledger(run.parent / "ledger.jsonl").charges
