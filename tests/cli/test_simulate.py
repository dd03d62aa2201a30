"""`topdown simulate`: its page runs, its folder is never a release, and it reads nothing it may not read."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers.folders import files
from tests.helpers.pages import run_page
from tests.helpers.small_release import build, reseal
from topdown.formats import document_schema
from topdown.verify import verify

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "simulate.md"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    """Return a folder with a made-up town and a simulation of it."""
    from topdown.cli import main

    top = tmp_path_factory.mktemp("simulate")
    assert main(["synth", "--out", f"{top}/town", "--schema", "toy", "--people", "500", "--quiet"]) == 0
    asked = [f"{top}/town/run.toml", "--truth", f"{top}/town/persons.csv.gz", "--out", f"{top}/try", "--keep"]
    assert main(["simulate", *asked, "--replicates", "2", "--workers", "1", "--quiet"]) == 0
    return top


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Path:
    """Return a folder with a small release and a simulation of its plan that takes it for true."""
    from topdown.cli import main

    top = tmp_path_factory.mktemp("released")
    build(top)
    asked = [f"{top}/in/run.toml", "--truth", f"{top}/release", "--out", f"{top}/try", "--keep"]
    assert main(["simulate", *asked, "--workers", "1", "--quiet"]) == 0
    return top


def test_the_how_to_page_runs(topdown, tmp_path):
    """A command or file on the page that no longer works stops a reader at the first step."""
    printed = []
    assert run_page(PAGE, topdown, printed=printed) == 6
    assert [[line.split()[:2] for line in text.splitlines()] for text in printed] == [
        [[str(i), "2000"] for i in range(3)]
    ]
    for name in re.findall(r"`(try/[\w/.-]+)`", PAGE.read_text(encoding="utf-8")):
        assert (tmp_path / name).is_file(), name


def test_the_same_command_gives_the_same_bytes(topdown, folders, tmp_path):
    """A result that depends on workers, time or place cannot be checked by anybody."""
    truth = ("--truth", folders / "town/persons.csv.gz")
    asked = (folders / "town/run.toml", *truth, "--replicates", "2", "--keep")
    assert topdown("simulate", *asked, "--out", "again", "--workers", "2").code == 0
    assert files(folders / "try") == files(tmp_path / "again")
    assert topdown("simulate", *asked, "--out", "other", "--seed", "2").code == 0
    assert files(folders / "try") != files(tmp_path / "other")


def test_what_is_written_says_what_it_is(folders, check):
    """Whoever finds one of these files alone must see that it is no release."""
    made = json.loads((folders / "try/simulation.json").read_text())
    check(made)
    assert (made["type"], made["stamp"]) == ("topdown.simulation", "NOT-A-RELEASE")
    assert (made["seed"], made["seed_is_default"], made["replicates"]) == (1, True, 2)
    assert made["truth"]["kind"] == "made_up"
    solver = made["solver"]
    assert (solver["n_unconverged"], solver["n_splits"] > 2) == (0, True)
    assert 0 < solver["worst_persons"] < 1e-5
    assert set(files(folders / "try")) == {
        "NOT-A-RELEASE.txt",
        "simulation.json",
        "replicate-000/microdata.parquet",
        "replicate-001/microdata.parquet",
    }
    stamps = pq.read_metadata(folders / "try/replicate-001/microdata.parquet").metadata
    expected = {b"type": b"topdown.simulated", b"stamp": b"NOT-A-RELEASE", b"seed": b"1", b"replicate": b"1"}
    assert expected.items() <= stamps.items()
    mark = json.loads((folders / "town/persons.csv.gz.made-up.json").read_text())
    assert set(mark) == set(document_schema("made_up")["required"])
    check(mark)


def test_a_refused_simulation_writes_nothing(topdown, folders, tmp_path, check):
    """A folder left behind by a refusal looks like a result; the reason must be on the result, not in a shell."""
    records = tmp_path / "people.csv.gz"
    shutil.copyfile(folders / "town/persons.csv.gz", records)
    asked = ("simulate", folders / "town/run.toml", "--truth", records, "--out", "out", "--json")
    for more in ((), ("--truth-is-public", "public")):
        said = topdown(*asked, *more)
        check(said.document)
        assert (said.code, said.document["code"], (tmp_path / "out").exists()) == (2, "C121", False)
    reason = "every row was made up"
    said = topdown(*asked, "--truth-is-public", reason, "--keep", "--workers", "1")
    assert (0, "public", reason) == (said.code, *(said.document["truth"][k] for k in ("kind", "reason")))
    stamps = pq.read_metadata(tmp_path / "out/replicate-000/microdata.parquet").metadata
    assert stamps[b"truth_is_public"].decode() == reason
    assert topdown(*asked, "--truth-is-public", reason).refusal == "C085"


def test_every_command_that_takes_a_release_refuses_a_simulation(topdown, folders):
    """Simulated microdata that pass for a release would be quoted as statistics."""
    run, truth = folders / "town/run.toml", folders / "town/persons.csv.gz"
    for folder in (folders / "try", folders / "try/replicate-000"):
        for command in (
            ("verify", folder),
            ("audit", folder),
            ("evaluate", folder, "--truth", truth),
            ("extend", run, "--base", folder, "--out", "x"),
            ("plan", run, "--base", folder),
            ("simulate", run, "--truth", folder, "--out", "x"),
        ):
            said = topdown(*command, "--json")
            assert (said.code, said.document["code"]) == (2, "C122"), command
    assert topdown("generate", run, "--out", folders / "try", "--yes", "--json").refusal == "C085"
    assert not verify(folders / "try").ok


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        ("simulation.json", "simulation.json", "V003"),
        ("NOT-A-RELEASE.txt", "NOT-A-RELEASE.txt", "V003"),
        ("replicate-000/microdata.parquet", "replicate-000/microdata.parquet", "V003"),
        ("replicate-000/microdata.parquet", "microdata/persons.parquet", "V100"),
        ("simulation.json", "certificate.json", "V140"),
        ("simulation.json", "plan.json", "V010"),
    ],
)
def test_no_file_of_a_simulation_gets_into_a_release(topdown, released, tmp_path, source, target, code):
    """A publisher could mix them up, or somebody could on purpose, and renew the manifest."""
    shutil.copytree(released / "release", tmp_path / "release")
    assert verify(tmp_path / "release").ok
    (tmp_path / "release" / target).parent.mkdir(exist_ok=True)
    shutil.copyfile(released / "try" / source, tmp_path / "release" / target)
    reseal(tmp_path / "release")
    found = verify(tmp_path / "release")
    assert not found.ok
    assert code in {f.code for c in found.checks for f in c.findings}
    assert topdown("verify", "release").code in (1, 2)
