"""Public functions do what the commands of their names do: same bytes, same refusals, same ledger."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import topdown
from tests.helpers.extension import make_land
from tests.helpers.failing import fails_with, stopping_at
from tests.helpers.folders import files
from tests.helpers.sections import cut_small
from topdown.cli import main
from topdown.errors import SPEND_NOTE, BudgetError
from topdown.process import STOP_SIGNALS

MEASURED = ("plan.json", "public", "measurements", "base")


def forget(release: Path) -> None:
    """Remove all that is made from the measurements."""
    for path in release.iterdir():
        if path.name not in MEASURED:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def own(town, tmp_path) -> Path:
    """Return a town of one's own, not released yet; return its run file."""
    made = topdown.synth(tmp_path / "in", schema="toy", people=300, seed=5)
    assert made.run_file is not None
    return made.run_file


def test_generate_gives_the_bytes_of_the_command(own, tmp_path):
    """From the same measurements the two ways in must make one release, and charge nothing for the second."""
    out, ledger = tmp_path / "release", topdown.plan(own).prepared.ledger_path
    assert main(["generate", str(own), "--out", str(out), "--yes", "--quiet", "--csv", "--workers", "1"]) == 0
    by_command, charged = files(out), ledger.read_bytes()
    forget(out)
    made = topdown.generate(own, out, csv=True, resume=True)
    assert by_command == files(out)
    assert charged == ledger.read_bytes()
    assert (str(out), 300) == (made.release, made.n_records)


def test_extend_gives_the_bytes_of_the_command(tmp_path):
    """An extension by a program must rest on the same checks and make the same release."""
    land, out = make_land(tmp_path, 3), tmp_path / "more"
    made = topdown.extend(land.run, land.base, out)
    assert made.checks.ok
    by_call, ledger = files(out), (tmp_path / "ledger.jsonl").read_bytes()
    forget(out)
    asked = ["extend", str(land.run), "--base", str(land.base), "--out", str(out), "--resume", "--yes", "-q"]
    assert main([*asked, "--workers", "1"]) == 0
    assert by_call == files(out)
    assert ledger == (tmp_path / "ledger.jsonl").read_bytes()


def test_a_plan_with_a_base_is_not_generated(tmp_path):
    """The base's own verification would be left out."""
    land = make_land(tmp_path, 4)
    planned = topdown.plan(land.run, base=land.base)
    for call in (
        lambda: topdown.generate(planned, tmp_path / "more"),
        lambda: topdown.generate(land.run, tmp_path / "more"),
    ):
        with fails_with("C097"):
            call()
    with fails_with("C005"):
        topdown.extend(planned, tmp_path, tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_verify_finds_what_the_command_finds(town, tmp_path, capsys):
    """A flipped byte is one finding, whoever asks."""
    assert topdown.verify(town.release).ok
    bad = shutil.copytree(town.release, tmp_path / "bad")
    table = bad / "tables" / "total" / "block.parquet"
    table.write_bytes(table.read_bytes()[:-20] + b"x" * 20)
    found = topdown.verify(bad).to_json()
    assert main(["verify", str(bad), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    seconds = {"seconds": 0}
    for document in (found, said):
        document |= seconds
        document["checks"] = [check | seconds for check in document["checks"]]
    assert said == found
    assert not found["ok"]
    again = topdown.verify(town.release, solve=True)
    assert (again.ok, again.checks[-1].name) == (True, "solved again")


def test_folders_are_checked_as_by_the_command(town, own, tmp_path):
    """A program that releases into a used folder would lose files, or spend twice."""
    full = tmp_path / "full"
    full.mkdir()
    (full / "letter.txt").write_text("mine")
    for out, more, code in (
        (full, {}, "C085"),
        (tmp_path / "empty", {"resume": True}, "C087"),
        (own.parent, {}, "C132"),
        ("", {}, "C136"),
        (tmp_path / "new", {"workers": 0}, "C005"),
    ):
        with fails_with(code):
            topdown.generate(own, out, **more)
    with fails_with("C086"):
        topdown.generate(town.run, town.release)
    assert files(full) == {"letter.txt": b"mine"}


def test_a_second_spend_is_refused_and_says_so(town, tmp_path):
    """The same plan in another folder costs the budget again; the error must say that this run spent nothing."""
    with pytest.raises(topdown.TopdownError) as refused:
        topdown.generate(town.run, tmp_path / "twice")
    assert [f"{SPEND_NOTE}nothing"] == refused.value.__notes__
    assert refused.value.code[0] == "B"


@pytest.mark.parametrize("left", ["geography.parquet.tmp", "leaves.parquet.tmp"])
def test_a_run_that_was_killed_while_it_wrote_public_files_goes_on(own, tmp_path, left):
    """Half a public file is this engine's own: with C085 neither the command nor --resume went on."""
    out = tmp_path / "release"
    (out / "public").mkdir(parents=True)
    (out / "public" / left).write_bytes(b"PAR1")
    assert topdown.generate(own, out, resume=True).checks.ok


def test_an_extension_that_was_killed_while_it_copied_its_base_goes_on(tmp_path, monkeypatch):
    """A large base has its records in parts, which were taken for somebody else's files."""
    cut_small(monkeypatch)
    land, out = make_land(tmp_path, 3, n_blocks=7), tmp_path / "more"
    part = land.base / "microdata" / "persons" / "part-000.parquet"
    left = out / "base" / "persons" / "part-000.parquet.tmp"
    left.parent.mkdir(parents=True)
    left.write_bytes(part.read_bytes()[:9])
    assert topdown.extend(land.run, land.base, out, resume=True).checks.ok


def test_what_another_process_charged_meanwhile_is_not_this_runs(own, tmp_path):
    """Of two runs of one plan at once the refused one said "this run spent", and to go on with noise it never had."""

    def report(event):
        if (
            event.stage == "preflight" and event.done == event.total
        ):  # before this run looks into the ledger again
            command = [
                sys.executable,
                "-m",
                "topdown.cli",
                "generate",
                own,
                "--out",
                tmp_path / "first",
                "--yes",
            ]
            subprocess.run(command, check=True, capture_output=True)

    with pytest.raises(BudgetError) as raised:
        topdown.generate(own, tmp_path / "late", report=report)
    assert (raised.value.code, raised.value.__notes__) == ("B013", [f"{SPEND_NOTE}nothing"])


def test_an_interrupt_says_what_is_spent(own, tmp_path):
    """A program that catches Ctrl-C must know whether it paid."""
    with pytest.raises(KeyboardInterrupt) as stopped:
        topdown.generate(own, tmp_path / "release", report=stopping_at("solve"))
    assert stopped.value.__notes__[0].startswith(f"{SPEND_NOTE}ρ")
    assert topdown.generate(own, tmp_path / "release", resume=True).checks.ok


def test_handlers_of_the_program_are_given_back(own, tmp_path):
    """A program's own handler of SIGTERM must be there again after a release."""
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with pytest.raises(topdown.TopdownError):
        topdown.generate(own, tmp_path, resume=True)
    assert before == [signal.getsignal(number) for number in STOP_SIGNALS]


def test_audits_print_what_the_command_prints(town, capsys):
    """A number that depends on who asks is no certified number."""
    found = topdown.audit(town.release, deltas=("1e-10", "1e-6"))
    asked = ["--delta", "1e-10", "--delta", "1e-6", "--json"]
    assert main(["audit", str(town.release), *asked]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found.document))
    assert (found.agrees, "times in 100" in found.sentence) == (True, True)
    ledger = topdown.plan(town.run).prepared.ledger_path
    assert main(["audit", "--ledger", str(ledger), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    whole = topdown.audit_ledger(ledger)
    assert (said["charged"], said["head"]) == (whole.charged, whole.head)
    assert (topdown.audit(town.run).agrees, topdown.audit(town.run).contradictions) == (None, None)


def test_audit_runs_judges_the_drawing_code(town):
    """The attack by runs must be within reach of a program too."""
    made = topdown.audit_runs(town.release, 2000)
    assert (made.passes, made.extends, made.document.runs) == (True, False, 2000)


def test_evaluate_is_confidential_and_written_for_its_owner(town, tmp_path):
    """The truth's errors must not lie open, whoever computed them."""
    truth = town.run.parent / "persons.csv.gz"
    found = topdown.evaluate(town.release, truth, out=tmp_path / "error.json")
    assert found.confidential
    assert found.n_records.true == 400
    assert (tmp_path / "error.json").stat().st_mode & 0o777 == 0o600
    with fails_with("C080"):
        topdown.evaluate(town.release, truth, out=tmp_path / "error.json")


def test_evaluate_tells_what_did_not_converge(town, tmp_path, capsys):
    """Errors of splits that ended away from their optimum would be taken for those of the noise."""
    truth, release = town.run.parent / "persons.csv.gz", tmp_path / "release"
    shutil.copytree(town.release, release)
    found = topdown.evaluate(release, truth).solver
    assert (found.n_unconverged, found.worst_persons < found.target_persons == 1e-5) == (0, True)
    stated = json.loads((release / "solve.json").read_text())
    assert found.n_splits == sum(level["n_splits"] for level in stated["levels"])
    stated["levels"][0] |= {"n_unconverged": 2, "max_kkt_residual_persons": 0.5}
    (release / "solve.json").write_text(json.dumps(stated))
    assert main(["evaluate", str(release), "--truth", str(truth)]) == 0
    assert f"2 of {found.n_splits} splits further than 1e-05 persons" in capsys.readouterr().out
    (release / "solve.json").write_text("{}")
    with fails_with("V090", match="report"):
        topdown.evaluate(release, truth)


def test_simulate_gives_the_replicates_of_the_command(town, tmp_path):
    """One seed, one simulation: in memory, on the disk and from the command line."""
    truth, seen = town.run.parent / "persons.csv.gz", []
    found = topdown.simulate(town.run, truth, seed=7, replicates=2, each=seen.append)
    assert [replicate.number for replicate in seen] == [0, 1]
    topdown.simulate(topdown.plan(town.run), truth, seed=7, replicates=2, out=tmp_path / "try", keep=True)
    asked = ["simulate", str(town.run), "--truth", str(truth), "--out", str(tmp_path / "cli"), "--keep"]
    assert main([*asked, "--seed", "7", "--replicates", "2", "--workers", "1", "--quiet"]) == 0
    assert files(tmp_path / "cli") == files(tmp_path / "try")
    assert (
        found.levels[0].queries[0].mae
        == json.loads((tmp_path / "try" / "simulation.json").read_text())["levels"][0]["queries"][0]["mae"]
    )
    with fails_with("C005"):
        topdown.simulate(town.run, truth, keep=True)


def test_a_saved_plan_runs_and_a_missing_file_is_named(own, tmp_path):
    """plan.json stands for its run file; what is not there is an error of this package, not of the system."""
    planned = topdown.plan(own)
    planned.save(tmp_path / "plan.json")
    assert planned.summary.plan_hash == planned.plan_hash
    assert topdown.generate(tmp_path / "plan.json", tmp_path / "release").checks.ok
    for call in (topdown.plan, topdown.audit, topdown.verify, topdown.Release, topdown.audit_ledger):
        with pytest.raises(topdown.TopdownError):
            call(tmp_path / "nowhere")
    own.write_text(re.sub(r"^title = .*$", 'title = "?"', own.read_text(), flags=re.MULTILINE))
    assert topdown.plan(own).plan.release.title == "?"
    with fails_with("H001"):
        topdown.plan(own, final=True)
    with fails_with("C080"):
        topdown.synth(own.parent)
