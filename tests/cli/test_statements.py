"""What is said about privacy knows exact statistics and bases; every printed end has the truth on its right side."""

import json
import re
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.extension import Land, make_land
from tests.helpers.policies import BLOCKS, exact, inexact_toy
from topdown.app import generate_release
from topdown.app.screens import decimal
from topdown.formats import json_bytes
from topdown.plan import load_invariants, load_schema, prepare, run_file_text
from topdown.privacy import protected_attributes
from topdown.publish import certified_privacy, claims_of, statement_of, steps_of, usual_epsilon
from topdown.resources import find
from topdown.verify import verify

CODES = [
    f"44001{tract}{group}{block}"
    for tract in ("000100", "000200")
    for group in "12"
    for block in ("001", "002")
]
LEVELS = ("state", "county", "tract", "block_group", "block")


def redistricting(folder: Path, invariants: str) -> Path:
    """Write the public side of eight blocks under a bundled policy; return the run file."""
    schema = load_schema(find("schemas", "pl94", folder))
    columns = load_invariants(find("invariants", invariants, folder), schema).columns
    rows = [",".join([code, *("1" for _ in columns)]) for code in CODES]
    (folder / "leaves.csv").write_text("\n".join([",".join(["geocode", *columns]), *rows]) + "\n")
    run = folder / "run.toml"
    text = run_file_text("pl94", "pl94_2020", folder / "none.csv", folder / "leaves.csv", run, LEVELS)
    text = text.replace('invariants = "pl94_2020"', f'invariants = "{invariants}"')
    run.write_text(text)
    return run


def test_places_that_exact_counts_give_away_are_not_protected(topdown, check, tmp_path):
    """With exact block counts the block of a person who is known otherwise can be read off: no number may be shown."""
    said = topdown("audit", redistricting(tmp_path, "pl94_block_population"), "--json").document
    check(said)
    rows = {row["name"]: row for row in said["secrets"]}
    for level in LEVELS[:-1]:
        row = rows[f"place within one {level}"]
        assert (row["status"], row["exact"]) == ("disclosed", ["block population"])
        assert row["sentence"] == "disclosed by: block population"
        assert not {"epsilon", "right_in_100", "best_guess"} & set(row)
    assert rows["one person, everything"]["status"] == "conditional"
    assert {rows[f"{a} only"]["status"] for a in ("hhgq", "votingage", "hispanic", "cenrace")} == {
        "protected"
    }
    assert said["conditional_on"] == ["block population"]
    assert "both of which fit what is exact (block population) and the public facts," in said["sentence"]
    plan = topdown("plan", tmp_path / "run.toml").out
    assert "place within one block_group: disclosed by: block population" in plan


def test_state_totals_leave_places_inside_a_state(tmp_path):
    """The 2020 policy keeps only the state exact: moving inside it shows in no exact number."""
    policy = prepare(redistricting(tmp_path, "pl94_2020")).context.policy
    assert {change.status for change in policy.changes} == {"protected"}
    assert policy.conditional_on == ("state population",)


def test_an_empty_guarantee_is_refused(topdown, toy, tmp_path):
    """With add_remove every neighbour differs in an exact total: planned or run, it must be refused by name."""
    run = toy(
        tmp_path / "toy", lambda text: text.replace('neighbours = "bounded"', 'neighbours = "add_remove"')
    )
    for line in (("plan", run), ("audit", run), ("generate", run, "--out", "release", "--yes")):
        said = topdown(*line)
        assert (said.code, "error[C120]" in said.err, "population of the land" in said.err) == (2, True, True)
    assert not list(tmp_path.glob("toy/plan*.json"))
    said = topdown("plan", run, "--json").document
    assert (said["code"], said["key"]) == ("C120", "neighbours")


def test_every_pair_apart_is_refused(topdown, toy, tmp_path):
    """If the whole table of the land and the total of every block are exact no two neighbours agree."""
    text = inexact_toy() + exact("all", "land", "detailed") + BLOCKS
    run = toy(tmp_path / "toy", lambda t: t.replace('invariants = "toy"', 'invariants = "own.toml"'))
    (run.parent / "own.toml").write_text(text)
    said = topdown("plan", run)
    assert (said.code, "error[C120]" in said.err, '"all"' in said.err) == (2, True, True)


def test_presence_is_what_add_remove_speaks_of(topdown, check, toy, tmp_path):
    """One record more or less is not a replaced one: both rows, the sentence about the first, the larger beside it."""

    def edit(text: str) -> str:
        text = text.replace('neighbours = "bounded"', 'neighbours = "add_remove"')
        return text.replace('invariants = "toy"', 'invariants = "own.toml"')

    run = toy(tmp_path / "toy", edit)
    (run.parent / "own.toml").write_text(inexact_toy())
    said = topdown("audit", run, "--json").document
    check(said)
    presence, replaced = said["secrets"][:2]
    assert (presence["kind"], replaced["kind"]) == ("presence", "everything")
    assert Fraction(replaced["rho"]) == 2 * Fraction(presence["rho"]) == 4
    assert replaced["n_counts_moved"] == 2 * presence["n_counts_moved"]
    assert (presence["right_in_100"], replaced["right_in_100"]) == (85, 93)
    assert "whether one person's answers were there at all" in said["sentence"]
    assert "at most 85 times in 100" in said["sentence"]
    screen = " ".join(topdown("plan", run).out.split())
    whether = "(a coin: 50) whether one record was there at all"
    assert f"an attacker is right at most 85 times in 100 {whether}" in screen
    assert "at most 93 times in 100 which of two answers" in screen
    check(topdown("plan", run, "--json").document)


def test_geometric_plans_have_rows_too(topdown, check, toy, tmp_path):
    """Every policy has rows: epsilon at delta 0 is the exact sum, and disclosed stays disclosed."""

    def edit(text: str) -> str:
        return text.replace('"discrete_gaussian"', '"geometric"').replace("rho =", "epsilon =")

    run = toy(tmp_path / "toy", edit)
    said = topdown("audit", run, "--json").document
    check(said)
    rows = {row["name"]: row for row in said["secrets"]}
    assert rows["one person, everything"]["epsilon"] == {"0": ["2", "2"]}
    assert rows["one person, everything"]["right_in_100"] == 61  # by epsilon alone: e^2 / (1 + e^2) = 0.8808
    assert {row["status"] for row in said["secrets"]} == {"protected"}
    assert topdown("audit", run).code == 0
    assert "right at most 61 times" in topdown("plan", run).out
    assert topdown("generate", run, "--out", tmp_path / "out", "--yes", "--workers", "1").code == 0
    assert topdown("audit", tmp_path / "out", "--json").document["secrets"] == said["secrets"]
    assert topdown("verify", tmp_path / "out").code == 0


@pytest.fixture(scope="module")
def land(tmp_path_factory) -> tuple[Land, Path]:
    """Make a base almost without noise, extend it at next to no cost, and extend that once more."""
    land = make_land(tmp_path_factory.mktemp("land"), 3, n_blocks=5, rho="4000")
    text = land.run.read_text().replace('rho = "1"', 'rho = "1/1000"')
    land.run.write_text(text)
    generate_release(prepare(land.run, land.base), land.folder / "more", base=land.base)
    (land.folder / "third.toml").write_text(text.replace('id = "full"', 'id = "third"'))
    more = land.folder / "more"
    generate_release(prepare(land.folder / "third.toml", more), land.folder / "third", base=more)
    return land, land.folder / "third"


@pytest.mark.slow
def test_an_extension_is_stated_together_with_its_base(topdown, check, land):
    """A base of rho 4000 extended with rho 1/1000 was certified as 51 in 100 while its table equalled the truth."""
    more = land[0].folder / "more"
    certificate = json.loads((more / "certificate.json").read_text())
    check(certificate)
    privacy = certificate["privacy"]
    assert (privacy["loss"], privacy["loss_with_base"]) == ("1/1000", "4000001/1000")
    first = privacy["secrets"][0]
    assert (first["rho"], first["right_in_100"]) == ("4000001/1000", 100)
    assert "at most 100 times in 100" in privacy["sentence"]
    assert privacy["epsilon"] == first["epsilon"]
    rows = [{r["name"]: r["right_in_100"] for r in step["secrets"]} for step in privacy["steps"]]
    assert [step["release"] for step in privacy["steps"]] == ["plain", "full"]
    assert [r["one person, everything"] for r in rows] == [100, 51]
    assert rows[0]["kind only"] == 100  # the base asks for the dwelling, which the kind decides
    assert rows[0]["job only"] == 50
    said = topdown("audit", more, "--json").document
    check(said)
    assert [r | {"sentence": ""} for r in said["secrets"]] == [
        r | {"sentence": ""} for r in privacy["secrets"]
    ]
    assert said["certificate_agrees"] is True
    plan = topdown("plan", land[0].run, "--base", land[0].base, "--out", land[0].folder / "p.json")
    assert "this step, 4000001/1000" in plan.out
    assert "right at most 100 times in 100" in plan.out
    same = topdown("audit", land[0].run, "--base", land[0].base, "--json").document
    assert same["secrets"] == said["secrets"]
    assert topdown("audit", land[0].run).code == 2  # an extension cannot be stated without its base
    assert topdown("verify", more).code == 0


@pytest.mark.slow
def test_a_chain_is_stated_whole(topdown, land, tmp_path):
    """The loss of the first of three releases must not be lost on the way, nor its plan be exchanged."""
    third = land[1]
    said = topdown("audit", third, "--json").document
    assert [step["release"] for step in said["steps"]] == ["plain", "full", "third"]
    assert said["secrets"][0]["rho"] == "2000001/500"
    assert verify(third).ok
    oldest = third / "base" / "base" / "plan.json"
    assert oldest.read_bytes() == (land[0].base / "plan.json").read_bytes()
    copy = Path(shutil.copytree(third, tmp_path / "copy"))
    document = json.loads((copy / "base" / "base" / "plan.json").read_text())
    document["release"]["title"] = "Another"
    (copy / "base" / "base" / "plan.json").write_text(json.dumps(document))
    assert not verify(copy).check("base").ok
    assert topdown("audit", copy).code != 0


@pytest.mark.slow
def test_another_geography_is_refused(topdown, land):
    """Levels are matched by name: areas of another tree would be composed as if they were the same."""
    folder = land[0].folder
    text = land[0].run.read_text().replace("prefix_lengths = [0, 1, 3]", "prefix_lengths = [0, 2, 3]")
    (folder / "other.toml").write_text(text)
    said = topdown("plan", folder / "other.toml", "--base", land[0].base)
    assert (said.code, "error[C092]" in said.err, "geography" in said.err) == (2, True, True)


def test_a_certificate_that_hides_a_disclosed_secret_contradicts(topdown, check, toy, tmp_path):
    """Audit must notice a certificate that calls protected what exact statistics give away."""
    text = inexact_toy() + BLOCKS
    run = toy(tmp_path / "toy", lambda t: t.replace('invariants = "toy"', 'invariants = "own.toml"'))
    (run.parent / "own.toml").write_text(text)
    release = tmp_path / "release"
    assert topdown("generate", run, "--out", release, "--yes", "--workers", "1").code == 0
    said = topdown("audit", release)
    assert (said.code, "place within one county: disclosed by: blocks" in said.out) == (0, True)
    certificate = json.loads((release / "certificate.json").read_text())
    check(certificate)
    row = next(r for r in certificate["privacy"]["secrets"] if r["name"] == "place within one county")
    assert row["sentence"] == "disclosed by: blocks"
    readme = " ".join((release / "README.txt").read_text().split())
    assert certificate["privacy"]["sentence"] in readme
    assert "Not protected: place within one county, disclosed by: blocks." in readme
    row["status"] = "protected"
    (release / "certificate.json").write_bytes(json_bytes(certificate))
    assert topdown("audit", release).code == 1
    row["status"] = "disclosed"
    certificate["privacy"]["curve"][0]["power"] = ["0.01", "0.0100000001"]
    (release / "certificate.json").write_bytes(json_bytes(certificate))
    said = topdown("audit", release)
    assert (said.code, "privacy.curve[0].power" in said.out) == (1, True)


EXACT = {"engine": "ball", "digits": 40}


def test_the_screen_of_a_gaussian_release_says_no_less(tmp_path, pgsr_cli):
    """The screen shows the upper end of the certificate, as it stands there."""
    (tmp_path / "h.csv").write_text("region,parent,level\n0,,nation\n1,0,state\n2,0,state\n")
    (tmp_path / "g.csv").write_text("region,size,count\n1,1,5\n2,3,7\n")
    files = ("--groups", tmp_path / "g.csv", "--hierarchy", tmp_path / "h.csv", "--sizes", "4")
    asked = ("release", *files, "--rho", "2/7", "--simulate", "1", "--truth-is-public", "made up here")
    said = [
        pgsr_cli(*asked, *more, "--out", tmp_path / str(i)).ok().out
        for i, more in enumerate(((), ("--json",)))
    ]
    stated = json.loads(said[1])["privacy"]
    certified = json.loads((tmp_path / "0" / "certificate.json").read_text())["privacy"]
    assert certified == stated
    (shown,) = re.findall(r"ε\s+at\s+most\s+([0-9.e-]+)", said[0])
    assert shown == certified["secrets"][0]["epsilon"]["1e-10"][1]
    (loss,) = re.findall(r"ρ\s([0-9.]+)", said[0])
    assert Fraction(loss) >= Fraction(2, 7)


def test_audit_and_certificate_enclose_the_truth(toy, topdown, tmp_path):
    """Every secret's ends, and the shorter numbers of the screen above them."""
    run = toy(tmp_path)
    policy = prepare(run).context.policy
    found = statement_of(policy)
    (step,) = steps_of(policy)
    for row, secret in zip(
        found["secrets"], protected_attributes(step.measurements, claims_of(policy)), strict=True
    ):
        if secret.loss is None:
            assert "epsilon" not in row
        elif secret.loss.rho:
            _between(row["epsilon"]["1e-10"], secret.loss.epsilon("1e-10", **EXACT))
            guess = secret.loss.best_guess(**EXACT)
            _between(row["best_guess"], guess)
            assert row["right_in_100"] >= 100 * guess.upper
    whole = protected_attributes(step.measurements, claims_of(policy))[0].loss.epsilon("1e-10", **EXACT)
    _between(certified_privacy(policy).epsilon["1e-10"], whole)
    assert Fraction(usual_epsilon(policy.plan.loss, policy.plan.loss_name)) >= whole.upper
    assert decimal(whole.upper, 3, up=True) in topdown("audit", run).out


def test_the_plan_screen_rounds_up(toy, topdown, tmp_path):
    """Whoever approves a plan reads its epsilon and the loss of every level there."""
    run = toy(tmp_path)
    stated = topdown("plan", run, "--json").document
    shown = topdown("plan", run).out
    high = Fraction(stated["privacy"]["certified"]["epsilon"]["1e-10"][1])
    (printed,) = re.findall(r"ε\s+([0-9.]+) at δ 1e-10, certified", shown)
    assert high <= Fraction(printed) < high + Fraction(1, 10**8)
    for level in stated["levels"]:
        (printed,) = re.findall(
            rf"^\s+{level['level']}\s.*\s([0-9]+\.[0-9]{{4}})\s+[0-9.]+ %$", shown, re.MULTILINE
        )
        assert Fraction(printed) >= Fraction(level["loss"])


def _between(pair, truth):
    """Check that stated ends hold an exact enclosure."""
    low, high = map(Fraction, pair)
    assert low <= truth.lower <= truth.upper <= high
