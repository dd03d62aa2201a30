"""pgsr release, really killed, out of disk, stopped or doubled: nothing is charged twice unsaid, and it always ends."""

import itertools
import json
import os
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from pgsr import Policy, verify
from pgsr.cli import main
from pgsr.group_checks import check_folder
from pgsr.releasing import run_release
from tests.helpers.failing import fails_with, stopping_at
from tests.helpers.groups import GROUPS, REGIONS, WHY, book, change_limits, released
from tests.helpers.killed import trials
from tests.helpers.model_disk import OUTCOMES, Crash, ModelDisk
from tests.helpers.processes import run_python
from topdown.errors import CertificateError
from topdown.formats import TABLE_VERSIONS
from topdown.privacy.ledger import Disk, LedgerLocation, Limits, create_ledger, read_book, read_ledger
from topdown.progress import silent

KILLER = Path(__file__).with_name("pgsr_killer.py")
LEVELS = ["nation", "state"]
ROOT = Path(__file__).resolve().parents[2]


def check(found: list[dict]) -> None:
    """Hold every trial against what the protocol promises: half of ε 1/2 a level, for each draw of it."""
    for trial in found:
        assert (trial["torn"], trial["failed"], trial["kept"]) == ([], [], True), trial
        assert trial["ends"][-1] == {"end": "done"}, trial
        covers = trial["covers"]
        assert covers[0] == LEVELS, trial
        assert len(covers) <= len(trial["ends"]), trial  # one for each end but the last, and the first of all
        assert all(len(levels) == 1 for levels in covers[1:]), trial
        assert sum(len(levels) for levels in covers) * Fraction(1, 4) == Fraction(trial["charged"]), trial
        assert trial["commits"] == len(covers), trial
    assert found[-1]["ends"] == [{"end": "done"}] * 2
    assert found[-1]["charged"] == "1/2"


@pytest.mark.slow
def test_killed_at_many_steps(tmp_path):
    """A kill lost the budget, 48 times in 55; now the same command with --resume ends it, whole parts uncharged."""
    found = trials(KILLER, tmp_path, "kill", "2", "7")
    check(found)
    assert len(found) > 10
    assert {"1/2", "3/4"} == {trial["charged"] for trial in found}


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_write(tmp_path):
    """Files of 0 bytes under final names looked like a release, and the budget was gone with an internal error."""
    found = trials(KILLER, tmp_path, "full", "2", "3")
    check(found)
    for trial in found[:-1]:
        first = trial["ends"][0]
        assert first["code"] in ("D050", "B006", "B019"), trial
        said = "nothing" if trial["spent"] == "0" else f"epsilon {trial['spent']}; finished noise is kept: "
        assert first["spent"].startswith(said), trial
    assert {"0", "1/2"} == {trial["spent"] for trial in found}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["kill", "twice"])
def test_killed_at_every_step(tmp_path, mode):
    """Every step once, and with the restart killed too."""
    check(trials(KILLER, tmp_path, mode, "1", "1"))


LEDGER, OUT = Path("/room-of-a-model/ledger.jsonl"), Path("/out-of-a-model")
ROOM = Path("/records-of-a-model")


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Return a prepared plan, its truth, and the place of a ledger on a modelled disk."""
    from pgsr import releasing as make

    seen = {}
    folder = tmp_path_factory.mktemp("planned")
    named = book(folder)

    def catch(plan, truth, place, *rest):
        seen["found"] = plan, truth, place
        return run_release(plan, truth, place, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "run_release", catch)
        released(GROUPS, REGIONS, "tracking", "1/2", sizes=4, out=folder / "o", **named)
    plan, truth, place = seen["found"]
    return plan, truth, place.binding


def power_cuts(planned, first: int, stride: int, outcomes: tuple[str, ...]) -> int:
    """Cut the power at chosen steps of a run on a modelled disk; check what is left, and the resumed run's end."""
    plan, truth, binding = planned
    n_cuts = 0
    for step in itertools.count(first, stride):
        for outcome in outcomes:
            disk = ModelDisk()
            place = create_ledger(LedgerLocation(LEDGER, ROOM, "", binding), disk)
            disk.steps, disk.crash = 0, (step, outcome)
            ended = False
            try:
                run_release(plan, truth, place, OUT, Policy(resume=True), silent, disk)
                ended = True
            except Crash:
                disk.crash = None
                disk.locked.clear()
            left = {str(path.relative_to(OUT)) for path in disk.names_now if OUT in path.parents}
            if "manifest.json" in left:
                assert {"counts.parquet", "certificate.json", "ledger.jsonl"} <= left, (step, outcome)
            if ended:
                return n_cuts
            n_cuts += 1
            made = run_release(plan, truth, place, OUT, Policy(resume=True), silent, disk)
            book = read_book(disk.read(LEDGER) or b"", LEDGER)[0]
            assert made.charged == sum(book.charged.values()) <= Fraction(3, 4), (step, outcome)
            assert len(book.intents) == len(book.committed) <= 2, (step, outcome)
            assert not [path for path in disk.names_now if path.suffix in (".tmp", ".drawn")], (step, outcome)
    raise AssertionError("no end")


def test_power_cuts_on_a_modelled_disk(planned):
    """A name that is durable before its content, or a manifest before its files, shows only when the power goes."""
    assert power_cuts(planned, 3, 4, ("none", "torn")) > 25


@pytest.mark.slow
def test_every_power_cut_on_a_modelled_disk(planned):
    """Every step, with every outcome of the disk."""
    assert power_cuts(planned, 1, 1, OUTCOMES) > 200


def options(folder: Path, name: str = "book.jsonl") -> dict:
    """Return the options of a release into `folder / "out"`, with a new ledger."""
    return {"sizes": 4, "out": folder / "out"} | book(folder, name)


def test_the_second_run_in_one_folder_is_refused(tmp_path):
    """Two runs on one folder were both charged, and the second replaced the files of the first."""
    (tmp_path / "others").mkdir()
    first, second = options(tmp_path), options(tmp_path / "others") | {"out": tmp_path / "out"}
    refused = []

    def meanwhile(event) -> None:
        if event.stage == "measure" and not refused:
            with pytest.raises(Exception, match="another run is writing") as caught:
                released(GROUPS, REGIONS, "tracking", "1/2", **second)
            refused.append(
                (caught.value.code, caught.value.exit_code, dict(caught.value.details)["this run spent"])
            )
            with pytest.raises(Exception, match="in use") as caught:
                released(GROUPS, REGIONS, "tracking", "1/2", **(first | {"out": tmp_path / "elsewhere"}))
            refused.append(
                (caught.value.code, caught.value.exit_code, dict(caught.value.details)["this run spent"])
            )

    released(GROUPS, REGIONS, "tracking", "1/2", report=meanwhile, **first)
    assert refused == [("C173", 2, "nothing"), ("B005", 2, "nothing")]
    assert read_ledger(second["ledger"]).charged == {}
    assert not (tmp_path / "elsewhere").exists()
    assert all(one.ok for one in verify(tmp_path / "out"))


def test_without_resume_the_folder_of_a_run_says_what_it_spent(tmp_path):
    """Who starts again elsewhere pays twice; the error must say what is spent and how to go on."""
    settings = options(tmp_path)
    with pytest.raises(KeyboardInterrupt) as stopped:
        released(GROUPS, REGIONS, "tracking", "1/2", report=stopping_at("measure"), **settings)
    kept = "epsilon 1/2; finished noise is kept: go on with --resume"
    assert [f"this run spent: {kept}"] == stopped.value.__notes__
    with pytest.raises(Exception, match="very release") as caught:
        released(GROUPS, REGIONS, "tracking", "1/2", **settings)
    assert (caught.value.code, caught.value.exit_code) == ("C086", 2)
    assert dict(caught.value.details) == {"that run spent": "epsilon 1/2", "this run spent": "nothing"}
    assert "--resume" in caught.value.fix
    with pytest.raises(Exception, match="another plan") as caught:
        released(GROUPS, REGIONS, "tracking", "1/3", resume=True, **settings)
    assert caught.value.code == "C070"
    changed = GROUPS | {"size": [*GROUPS["size"][:-1], GROUPS["size"][-1] % 2 + 1]}
    with pytest.raises(Exception, match="records were changed") as caught:
        released(changed, REGIONS, "tracking", "1/2", resume=True, **settings)
    assert caught.value.code == "D037"
    made = released(GROUPS, REGIONS, "tracking", "1/2", resume=True, **settings)
    assert (Fraction(1, 2), 1) == (made.charged, made.n_attempts)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    released(GROUPS, REGIONS, "tracking", "1/2", resume=True, **settings)
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}


def test_a_level_in_the_form_of_another_version_is_refused_before_more_is_charged(tmp_path, monkeypatch):
    """A run that an older version began would be charged again for what is missing, and then not be finished."""
    settings = options(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(TABLE_VERSIONS, "pgsr.measurements", "0")
        with pytest.raises(KeyboardInterrupt):
            released(GROUPS, REGIONS, "tracking", "1/2", report=stopping_at("measure"), **settings)
    before = Path(settings["ledger"]).read_bytes()
    with fails_with("V020", CertificateError, match="another version"):
        released(GROUPS, REGIONS, "tracking", "1/2", resume=True, **settings)
    assert Path(settings["ledger"]).read_bytes() == before


def test_a_part_that_was_begun_and_lost_is_charged_again_and_said(tmp_path):
    """Nobody can prove that noise drawn before a kill was not seen; the reader must hear of the second charge."""
    settings, said = options(tmp_path), []

    class Torn(Disk):
        def write_new(self, path: Path, data: bytes, *, private: bool = False) -> None:
            if path.suffix == ".drawn":
                super().write_new(path, data[: len(data) // 2])
                raise OSError(28, os.strerror(28), str(path))
            super().write_new(path, data, private=private)

    with pytest.raises(Exception, match="cannot write") as caught:
        released(GROUPS, REGIONS, "tracking", "1/2", disk=Torn(), **settings)
    assert (caught.value.code, caught.value.exit_code) == ("D050", 2)
    made = released(GROUPS, REGIONS, "tracking", "1/2", resume=True, report=said.append, **settings)
    assert (Fraction(3, 4), 2) == (made.charged, made.n_attempts)
    assert next(e.text for e in said if e.stage == "ledger") == "intent 2 written again, for nation"
    assert all(one.ok for one in verify(tmp_path / "out"))
    tight = options(tmp_path / "tight" if (tmp_path / "tight").mkdir() is None else tmp_path)
    with pytest.raises(Exception, match="cannot write"):
        released(GROUPS, REGIONS, "tracking", "1/2", disk=Torn(), **tight)
    change_limits({key: tight[key] for key in ("ledger", "ledger_id")}, Limits(epsilon=Fraction(1, 2)))
    with pytest.raises(Exception, match="more than ε 1/2") as caught:
        released(GROUPS, REGIONS, "tracking", "1/2", resume=True, epsilon_limit="1/2", **tight)
    assert caught.value.code == "B004"


STOPPED_AT_A_PART = """
import os, sys
from pgsr.cli import main
from tests.helpers.changes_on_disk import watch
number = int(sys.argv.pop(1))
def stop(event, path):
    if event == "os.mkdir" and path.endswith("level3"):
        os.kill(os.getpid(), number)
watch(stop)
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_stopped_process_says_what_is_spent(tmp_path, capsys, number):
    """SIGTERM from a batch system ended a run without a word and tore a part, which was charged again."""
    (tmp_path / "groups.csv").write_text("region,size,count\nGA,1,3\nNY,2,2\n")
    rows = "".join(f"S{i},{f'S{i - 1}' if i else ''},level{i}\n" for i in range(30))
    (tmp_path / "hierarchy.csv").write_text(f"region,parent,level\n{rows}GA,S29,leaf\nNY,S29,leaf\n")
    run = tmp_path / "run.toml"
    run.write_text(
        'groups = "groups.csv"\nhierarchy = "hierarchy.csv"\nsizes = 4\nepsilon = "1/2"\nout = "out"\n'
    )
    assert main(["ledger", "new", str(run), "-q"]) == 0
    words, here = ("release", run, "--yes", "--json"), os.environ | {"PYTHONPATH": str(ROOT)}
    ended = run_python("-c", STOPPED_AT_A_PART, int(number), *words, ok=False, env=here)
    document = json.loads(ended.stdout)
    assert (ended.returncode, document["code"], document["exit_code"]) == (130, "X130", 130)
    assert ["this run spent", "epsilon 1/2; finished noise is kept: go on with --resume"] in document[
        "details"
    ]
    capsys.readouterr()
    code = main(["release", str(run), "--yes", "--resume", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (code, document["charged"], document["n_attempts"]) == (0, "1/2", 1)


def test_a_simulation_leaves_no_half_files(tmp_path):
    """Simulations are written by the same writer, and stamped before anything else is there."""
    made = released(
        GROUPS, REGIONS, "tracking", 1, sizes=4, simulate=1, truth_is_public=WHY, out=tmp_path / "out"
    )
    assert made.folder == tmp_path / "out"
    assert all(one.ok for one in check_folder(tmp_path / "out"))
    assert (tmp_path / "out" / "NOT-A-RELEASE.txt").is_file()
    assert replace(made, folder=None).charged == 0
