"""A release with optimal noise, from run file to audit: every document and screen says epsilon and delta, never rho."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from tests.cli.conftest import write_toy
from tests.helpers.optimal_runs import optimal
from topdown.cli import main
from topdown.measure import create_run_ledger
from topdown.plan import run_file_text
from topdown.privacy.ledger import read_ledger
from topdown.verify import verify

LEDGER = Path("toy") / "ledger" / "persons.jsonl"
FALSE_HERE = re.compile(r"\brho\b|ρ|\bpure\b|\bzCDP\b|at every δ|1e-10", re.IGNORECASE)


@pytest.fixture(scope="module")
def land(tmp_path_factory) -> Path:
    """Release the toy land with optimal noise; return the folder of `toy/` and `release/`."""
    folder = tmp_path_factory.mktemp("optimal")
    run = write_toy(folder / "toy", lambda text: optimal(text, limit="1/100000"))
    assert main(["generate", str(run), "--out", str(folder / "release"), "--yes", "--workers", "1"]) == 0
    return folder


@pytest.fixture
def released(land: Path) -> Path:
    """Return the release."""
    return land / "release"


def test_the_whole_way(topdown, land, released, check):
    """A step that takes the law for another would stop here, or state another promise than was charged."""
    assert topdown("verify", released).code == 0
    assert verify(released).ok
    certificate = json.loads((released / "certificate.json").read_text())
    check(certificate)
    check(json.loads((released / "plan.json").read_text()))
    privacy = certificate["privacy"]
    assert tuple(privacy[k] for k in ("loss_name", "loss", "delta")) == ("epsilon_delta", "4", "1/100000")
    plan = json.loads((released / "plan.json").read_text())
    queries = [m for level in plan["levels"] for m in level["measurements"]]
    assert {m["law"] for m in queries} == {"optimal_integer"}
    assert Fraction(privacy["delta"]) == sum(Fraction(m["delta"]) for m in queries)
    book = read_ledger(land / LEDGER)
    assert ({"epsilon_delta": 4}, Fraction(1, 100_000)) == (book.charged, book.charged_delta)
    run = land / "toy" / "run.toml"
    assert topdown("plan", run, "--json").document["ledger"]["charged_delta"] == "1/100000"
    assert "charged so far ε 4, δ 1/100000\n" in topdown("plan", run).out.replace("\u00a0", " ")
    assert "ε 4, δ 1/100000\n" in topdown("ledger", "show", run).out.replace("\u00a0", " ")
    for language in ("en", "de"):
        page = land / f"{language}.html"
        assert topdown("report", released, "--out", page, "--language", language).code == 0
        said = re.sub("<[^>]*>", "", page.read_text())
        assert said.count("4, delta 1/100000") == 4
        assert "epsilon_delta" not in said
    audit = topdown("audit", released, "--json").document
    check(audit)
    assert audit["certificate_agrees"] is True
    assert audit["composed"] == privacy["composed"]
    ledger = topdown("audit", "--ledger", land / LEDGER, "--json").document
    check(ledger)
    assert (ledger["charged_delta"], [r["delta"] for r in ledger["releases"]]) == ("1/100000", ["1/100000"])
    runs = topdown("audit", released, "--runs", 1000, "--json")
    check(runs.document)
    assert (runs.code, runs.document["delta"]) == (0, "1/100000")


def test_the_ledger_says_both_limits(topdown, land, check):
    """A limit of delta that nobody sees is one that nobody keeps."""
    text = (land / "toy" / "run.toml").read_text()
    shown = topdown("ledger", "show", land / "toy" / "run.toml", "--json").document
    check(shown)
    assert (shown["epsilon_limit"], shown["delta_limit"]) == ("9", "1/100000")
    assert (shown["charged"], shown["charged_delta"]) == ({"epsilon_delta": "4"}, "1/100000")
    assert text == (land / "toy" / "run.toml").read_text()


def test_a_changed_law_is_shown_in_a_line(topdown, toy):
    """Thousands of weights on the screen would hide what else changed."""
    run = toy(Path("toy"), optimal)
    assert topdown("plan", run, "--out", "old.json").code == 0
    run.write_text(run.read_text().replace('delta = "1/100000"', 'delta = "1/200000"', 1))
    said = topdown("generate", "old.json", "--out", "release", "--yes")
    assert said.refusal == "C082"
    assert len(said.err) < 3000


def test_no_screen_and_no_file_for_people_speaks_of_rho(topdown, land, released):
    """A reader who is told of rho, or of an epsilon for every delta, is told of a guarantee that there is not."""
    readme = (released / "README.txt").read_text()
    assert "Epsilon 4, delta 1/100000" in readme
    screens = [
        topdown("plan", land / "toy" / "run.toml").out.replace("better: discrete", ""),
        topdown("audit", released).out,
        topdown("audit", "--ledger", land / LEDGER).out,
        topdown("verify", released).out,
        readme,
    ]
    for text in screens:
        assert not FALSE_HERE.search(text), FALSE_HERE.search(text)
    assert "ε 4.0000, δ 0.00001 to spend" in screens[0].replace("\u00a0", " ")


def test_the_plan_says_which_noise_is_better(topdown, toy, check):
    """For a few queries the noise of single counts is better; for more it is not."""
    many = topdown("plan", toy(Path("toy"), optimal), "--json").document
    check(many)
    assert many["privacy"]["gaussian_needs"] == "less"
    assert "better: discrete Gaussian noise" in " ".join(topdown("plan", "toy/run.toml").out.split())
    one = topdown("plan", toy(Path("one"), lambda text: one_query(optimal(text, "1", "1/1000000"))), "--json")
    check(one.document)
    assert one.document["privacy"]["gaussian_needs"] == "more"


def one_query(text: str) -> str:
    """Return a run file that measures the detailed table alone at each level."""
    text = re.sub(r"passes = \[.*?\]\n(?=rounding)", _PASSES, text, flags=re.DOTALL)
    return re.sub(r'\[level.queries\]\n("[^\n]*\n)*', '[level.queries]\n"detailed" = 1\n', text)


_PASSES = 'passes = [{ queries = ["detailed"], table = "detailed" }]\n'


def test_delta_is_refused_before_anything_is_read(topdown, land):
    """A second release over the limit of delta must leave records and ledger alone."""
    again, ledger = land / "toy" / "again.toml", land / LEDGER
    text = (land / "toy" / "run.toml").read_text()
    again.write_text(text.replace('id = "persons-r1"', 'id = "persons-r2"'))
    before = ledger.read_bytes()
    said = topdown("generate", again, "--out", "two", "--yes", "--workers", 1)
    assert (said.code, "B023" in said.err, "δ" in said.err) == (2, True, True)
    assert before == ledger.read_bytes()
    assert "generate will refuse it" in " ".join(topdown("plan", again).out.split())


def test_init_writes_both_limits_for_such_settings(topdown, toy, tmp_path):
    """A run file that init makes of optimal settings must be one that plan takes."""
    run = toy(Path("toy"))
    for registry in Path("toy").glob("*.registry"):
        registry.unlink()
    settings = (Path(__file__).resolve().parents[2] / "settings" / "toy.toml").read_text()
    Path("best.toml").write_text(optimal(settings + "\n").replace('name = "toy"', 'name = "best"', 1))
    tables = run.parent / "persons.csv", run.parent / "leaves.csv"
    text = run_file_text("toy", "best.toml", *tables, run, ("land", "county", "block"))
    assert 'delta_limit = "1/50000"' in text
    text = text.replace("prefix_lengths = []", "prefix_lengths = [1, 2, 4]")
    run.write_text(text.replace("persons.jsonl", "other.jsonl"))
    create_run_ledger(run)
    assert topdown("plan", run).code == 0


def test_an_extension_is_refused(topdown, released, toy):
    """An extension whose loss is not stated together with its base would hide half of it."""
    run = toy(Path("toy"), optimal)
    run.write_text(run.read_text() + "\n[base]\n")
    assert topdown("plan", run, "--base", released).refusal == "C157"
