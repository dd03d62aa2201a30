"""`topdown generate`, `verify`, `evaluate`: approval, folders, results, documents."""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers.commands import on_terminal
from tests.helpers.ledgers import n_intents
from tests.helpers.schemas import check_release
from topdown.plan import prepare


def _hash(run: Path) -> str:
    return prepare(run).context.plan.plan_hash


def test_no_terminal_needs_an_approval(topdown, toy, tmp_path):
    """A script must not spend a budget by accident, and must be told the hash to approve."""
    run = toy(tmp_path / "toy")
    said = topdown("generate", run, "--out", "release")
    assert said.refusal == "C084"
    assert f"--approve {_hash(run)[:8]}" in said.err
    assert not Path("release").exists()
    assert n_intents(run.parent / "ledger" / "persons.jsonl") == 0


@pytest.mark.parametrize("answer", ["zzzz", "", "abc"])
def test_wrong_approval_spends_nothing(topdown, toy, tmp_path, answer):
    """An approval that is another plan's, or too short to mean one, must not count."""
    run = toy(tmp_path / "toy")
    assert topdown("generate", run, "--out", "release", "--approve", answer).refusal == "C083"
    short = topdown("generate", run, "--out", "release", "--approve", _hash(run)[:3])
    assert (short.code, "shorter than 4" in short.err) == (2, True)
    assert n_intents(run.parent / "ledger" / "persons.jsonl") == 0


def test_a_block_that_several_rules_close_is_not_measured(topdown):
    """Without housing and quarters each rule alone leaves cells open: writer and verifier must take them together."""
    assert topdown("synth", "--people", 400, "--out", "made").code == 0
    leaves = Path("made/blocks.csv.gz")
    rows = gzip.decompress(leaves.read_bytes()).decode().split()
    rows.append(f"{int(rows[-1].split(',')[0]) + 1}{',0' * rows[0].count(',')}")
    leaves.write_bytes(gzip.compress("\n".join([*rows, ""]).encode()))
    assert topdown("generate", "made/run.toml", "--out", "release", "--yes").code == 0
    measured = pq.read_table("release/measurements/block").column("node").to_pylist()
    assert set(measured) == {row.split(",")[0] for row in rows[1:-1]}
    assert topdown("verify", "release").code == 0


def test_changed_run_file_is_refused(topdown, toy, tmp_path):
    """plan.json is a promise: what was approved is what runs, or nothing."""
    run = toy(tmp_path / "toy")
    topdown("plan", run)
    toy(tmp_path / "toy", lambda text: text.replace('rho = "2"', 'rho = "1"'))
    said = topdown("generate", run.parent / "plan.json", "--out", "release", "--yes")
    assert said.refusal == "C082"
    assert "budget 2 -> 1" in said.err
    assert not Path("release").exists()


def test_altered_plan_is_refused(topdown, toy, tmp_path):
    """Somebody who edits plan.json by hand must be told, not obeyed."""
    run = toy(tmp_path / "toy")
    topdown("plan", run)
    plan = run.parent / "plan.json"
    plan.write_text(plan.read_text().replace('"budget": "2"', '"budget": "3"'))
    assert topdown("generate", plan, "--out", "release", "--yes").refusal == "C018"


def test_whole_run(topdown, toy, tmp_path, check):
    """generate, again, resume: one spend, a hint, the same noise; every document as its schema says."""
    run = toy(tmp_path / "toy")
    topdown("plan", run)
    plan = "toy/plan.json"
    approve = ("--approve", _hash(run)[:8], "--workers", 1)
    first = topdown("generate", plan, "--out", "release", *approve, "--json", "--log-json", "log.jsonl")
    assert (first.code, first.err.count("Traceback")) == (0, 0)
    check(first.document)
    assert {"ledger", "measure", "solve", "publish"} <= {
        json.loads(line)["stage"] for line in Path("log.jsonl").read_text().splitlines()
    }
    again = topdown("generate", plan, "--out", "release", *approve)
    assert again.refusal == "C086"
    assert f"topdown generate {plan} --out release --resume" in again.err
    people = Path("release/microdata/persons.parquet").read_bytes()
    resumed = topdown("generate", plan, "--out", "release", *approve, "--resume")
    assert (resumed.code, people) == (0, Path("release/microdata/persons.parquet").read_bytes())
    assert "charged so far ρ 2\n" in topdown("plan", run).out.replace("\u00a0", " ")
    other = toy(tmp_path / "toy", lambda text: text.replace('rho = "2"', 'rho = "1"'))
    assert topdown("generate", other, "--out", "release", "--yes").code == 2


def test_failure_after_the_measurement_tells_what_is_spent(topdown, toy, tmp_path):
    """An error in a later stage must not leave people guessing whether this run has spent anything."""
    run = toy(tmp_path / "toy")
    assert topdown("generate", run, "--out", "release", "--yes", "-q", "--workers", 1).code == 0
    part = Path("release/measurements/block/part-000.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    said = topdown("generate", run, "--out", "release", "--yes", "--resume", "--workers", 1)
    assert said.code == 1
    assert re.search(r"this run spent +nothing", said.err)


def test_release_documents_fit_their_schemas(release):
    """A document that left its schema would break every reader."""
    check_release(release)


def test_verify_passes_and_fails(topdown, release, tmp_path, check):
    """A flipped byte must give exit code 1, the file, and what to do."""
    good = topdown("verify", release).ok()
    assert re.search(r"✓ (\d+) of \1 checks passed", good.out)
    copy = tmp_path / "copy"
    shutil.copytree(release, copy)
    people = copy / "microdata" / "persons.parquet"
    data = bytearray(people.read_bytes())
    data[len(data) // 2] ^= 1
    people.write_bytes(data)
    bad = topdown("verify", "copy")
    assert bad.code == 1
    assert "✗ manifest" in bad.out
    assert "V001" in bad.out
    assert "copy/microdata/persons.parquet" in bad.out
    assert "All findings: --json" in bad.out
    ascii_only = topdown("verify", "copy", "--ascii")
    assert ascii_only.out.isascii()
    assert "FAIL manifest" in ascii_only.out
    document = topdown("verify", "copy", "--json").document
    check(document)
    assert not document["ok"]
    assert len(topdown("verify", "copy", "-q").out.splitlines()) == 1


@pytest.mark.parametrize("width", [46, 80])
def test_verify_fits(topdown, release, tmp_path, monkeypatch, width):
    """Check texts must wrap beside their names on any screen."""
    monkeypatch.chdir(release.parent)
    said = topdown("verify", "release", width=width)
    assert max(map(len, said.out.splitlines())) <= width


def test_verify_wants_a_release(topdown, tmp_path):
    """A mistyped folder is a user error, not a failed check."""
    assert topdown("verify", tmp_path / "nothing").code == 2
    assert topdown("verify", tmp_path).refusal == "C088"


def test_evaluate_is_marked(topdown, release, check):
    """What is computed from true records must say so at the top and the bottom, and stay out of the release."""
    truth = release.parent / "persons.csv"
    said = topdown("evaluate", release, "--truth", truth).ok()
    assert "CONFIDENTIAL" in said.out.splitlines()[0]
    assert "CONFIDENTIAL" in said.out.splitlines()[-1]
    document = topdown("evaluate", release, "--truth", truth, "--json", "--out", "error.json").document
    check(document)
    assert Path("error.json").stat().st_mode & 0o777 == 0o600
    assert topdown("evaluate", release, "--truth", truth, "--out", release / "e.json").code == 2
    narrow = topdown("evaluate", release, "--truth", truth, "--details", width=46)
    assert max(map(len, narrow.out.splitlines())) <= max(46, len(str(release)) + 20)


@pytest.mark.slow
def test_prompt_on_a_terminal(toy, tmp_path):
    """On a terminal a person types the first four characters; a wrong answer and Ctrl-C spend nothing."""
    run = toy(tmp_path / "toy")
    command = [sys.executable, "-m", "topdown.cli", "generate", str(run), "--out", str(tmp_path / "release")]
    code, screen = on_terminal(command, b"nope\n")
    assert (code, "not approved" in screen) == (2, True)
    code, screen = on_terminal(command, b"\x03")
    assert (code, "nothing is spent" in screen) == (130, True)
    assert n_intents(run.parent / "ledger" / "persons.jsonl") == 0
    code, screen = on_terminal([*command, "--workers", "1"], _hash(run)[:4].encode() + b"\n", columns=46)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
    assert [line for line in re.split(r"[\r\n]+", plain) if len(line) > 46 and "/" not in line] == []
    assert "━" in screen
    assert "what an auditor would run" in screen


@pytest.mark.slow
def test_demo_replaces_only_its_own(topdown, tmp_path, check):
    """The demo runs twice in one place, and never removes a folder or file that it did not make."""
    first = topdown("demo", "--workers", 1, "--json").ok()
    check(first.document)
    again = topdown("demo", "--workers", 1).ok()
    assert "topdown verify demo-release/" in again.out
    (tmp_path / "demo-release" / "mine.txt").write_text("mine")
    assert topdown("demo").refusal == "C085"
    assert (tmp_path / "demo-release" / "mine.txt").exists()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    assert topdown("demo", "--out", "photos").code == 2


def test_audit_of_run_plan_and_release(topdown, toy, tmp_path, release, check):
    """All three ways to name a plan give the same certified loss, and a false certificate fails."""
    run = toy(tmp_path / "toy")
    topdown("plan", run)
    documents = [
        topdown("audit", path, "--json").document for path in (run, run.parent / "plan.json", release)
    ]
    for document in documents:
        check(document)
        assert document["secrets"] == documents[0]["secrets"]
    said = topdown("audit", run, "--plot", "curve.svg")
    assert (said.code, "times in 100" in said.out) == (0, True)
    assert Path("curve.svg").read_text().startswith("<svg")
    assert topdown("audit", run, "--plot", "curve.svg").code == 2
    copy = tmp_path / "copy"
    shutil.copytree(release, copy)
    path = copy / "certificate.json"
    certificate = json.loads(path.read_text())
    certificate["privacy"]["epsilon"] = {"1e-10": ["1.0", "1.1"]}
    path.write_text(json.dumps(certificate))
    assert topdown("audit", copy).code == 1


def test_account(topdown, check):
    """The account of a composition, its document, and what it refuses; every line says for which relation."""
    asked = ("account", "--rho", "11/10000*20,73/10000*18", "--delta", "1e-10")
    for relation, moved, words in (
        ("bounded", 76, "a record replaced"),
        ("add_remove", 38, "a record added or removed"),
    ):
        said = topdown(*asked, "--neighbours", relation, "--json").ok()
        check(said.document)
        assert said.document["rho"] == "767/5000"
        assert (relation, moved) == (said.document["neighbours"], said.document["n_counts_moved"])
        shown = topdown(*asked, "--neighbours", relation, width=200).out
        assert all(words in line for line in shown.splitlines() if "ρ" in line or "formulas" in line)
    assert topdown(*asked, "--json").document == topdown(*asked, "--neighbours", "bounded", "--json").document
    narrow = topdown("account", "--rho", "1/2", width=46)
    assert max(map(len, narrow.out.splitlines())) <= 46
    proxy = topdown("account", "--dhc2020", "--proxy", "--json").document
    check(proxy)
    assert proxy["worst"]["1e-10"]["epsilon"][0].startswith("24.45649395")
    for wrong in ((), ("--rho", "1", "--dhc2020"), ("--rho", "nine"), ("--rho", "1", "--delta", "2")):
        assert topdown("account", *wrong).code == 2
    for wrong in ("1e400", "1e-999999999", "1*1" + "0" * 400, "1e-99999999999999999999"):
        assert "A040" in topdown("account", "--rho", wrong, "--json").out
    vast = topdown("account", "--rho", "1*1000000000000000000", "--json").document
    assert vast["engine"].startswith("bounds")


def test_an_interrupt_after_the_charge_never_says_that_nothing_is_spent(
    topdown, toy, tmp_path, monkeypatch, check
):
    """Ctrl-C while the result was being shown said "Nothing is spent" of a release that was paid for."""
    run = toy(tmp_path / "toy")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("topdown.app.commands.release_commands.show_release", interrupted)
    said = topdown("generate", run, "--out", "release", "--yes", "--json")
    assert (said.code, said.document["code"], said.document["details"]) == (130, "X130", [["spent", "2"]])
    check(said.document)
    assert "is spent and its noise is kept" in said.document["text"]
