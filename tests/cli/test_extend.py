"""`topdown extend`: approval, result, resuming, and what it refuses."""

import csv
import os
import re
import signal
import sys
from dataclasses import replace
from functools import partial

import pyarrow.parquet as pq
import pytest

from tests.helpers.extension import Land, make_land, write_land
from tests.helpers.schemas import check_release
from topdown.app.plan_summary import plan_summary
from topdown.plan import prepare


@pytest.fixture(scope="module")
def land(tmp_path_factory: pytest.TempPathFactory) -> Land:
    """Make a base release once; tests extend it elsewhere."""
    return make_land(tmp_path_factory.mktemp("land"), 5)


def test_extend_from_the_command_line(topdown, check, tmp_path):
    """The second product: asked for once, spent once, resumed for nothing, verified by another command."""
    land = make_land(tmp_path, 3)
    more = tmp_path / "more"
    line = ("extend", land.run, "--base", land.base, "--out", more)
    asked = topdown(*line)
    assert asked.refusal == "C084"
    assert not more.exists()
    approved = re.search(r"--approve ([0-9a-f]{8})", asked.err).group(1)
    first = topdown("measure", *line[1:], "--approve", approved, "--json")
    assert (first.code, first.document["n_attempts"]) == (0, 1)
    (tmp_path / "full.csv").rename(tmp_path / "gone.csv")
    paid = (tmp_path / "ledger.jsonl").read_bytes()
    said = topdown(*line, "--yes", "--resume", "--json")
    assert (said.code, paid) == (0, (tmp_path / "ledger.jsonl").read_bytes())
    check(said.document)
    assert said.document["checks"]["ok"]
    check_release(more)
    assert said.document["loss"] == "1"
    assert topdown(*line, "--yes").refusal == "C086"
    before = (tmp_path / "ledger.jsonl").read_bytes()
    topdown(*line, "--yes", "--resume").ok()
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    assert "base" in [c["name"] for c in topdown("verify", more, "--json").document["checks"]]


def test_generate_points_to_extend(topdown, tmp_path):
    """Somebody who runs the wrong command must be given the right one."""
    land = write_land(tmp_path, 4)
    said = topdown("generate", land.run, "--out", tmp_path / "more", "--yes")
    assert (said.code, "error[C097]" in said.err, "topdown extend" in said.err) == (2, True, True)


def test_evaluate_and_audit_read_an_extension(topdown, land, tmp_path):
    """Every command that reads a release must also read one that extends another."""
    assert topdown("extend", land.run, "--base", land.base, "--out", tmp_path / "more", "--yes").code == 0
    topdown("evaluate", tmp_path / "more", "--truth", land.folder / "full.csv", "--no-count").ok()
    assert topdown("audit", tmp_path / "more").code == 0
    assert "topdown resolve" not in (tmp_path / "more/report.html").read_text(
        encoding="utf-8"
    )  # refused (C253)
    written = topdown("tables", tmp_path / "more", "--out", tmp_path / "t", "--json").ok()
    counts = pq.read_table(tmp_path / "more" / "microdata" / "persons.parquet")["count"].to_pylist()
    for table in written.document["tables"]:
        if not table["wide"]:
            rows = csv.DictReader((tmp_path / "t" / f"{table['path']}.csv").read_text().splitlines())
            assert sum(counts) == sum(int(row["count"]) for row in rows), table["path"]
    refused = topdown("tables", tmp_path / "more", "--coverage", "19/20", "--out", tmp_path / "u", "--json")
    assert refused.refusal == "C211"


def test_nested_bounds_are_proved_for_an_extension(tmp_path):
    """Whoever approves the loss would be told of a failsafe that extensions do not have."""
    land = make_land(tmp_path, 6, by_job=True)
    said = plan_summary(prepare(land.run, land.base)).feasible.verdicts
    assert {"always_splits"} == {verdict.kind for verdict in said}  # reserves are sufficient, not complete
    assert len(said) == 3
    assert "failsafe" not in said[0].sentence


@pytest.mark.parametrize("file", ["persons.parquet", "leaves.parquet"])
def test_a_base_release_whose_reading_crashes_is_refused(file, topdown, tmp_path, monkeypatch):
    """A damaged file of another office's release would end the run without a word, or take all memory.

    Whichever of the processes that read it ends, for want of memory say, tells nothing of the file: it is not called
    another's (V160).
    """
    land, run, places = make_land(tmp_path, 7), os.getpid(), "topdown.inputs.table_reader"
    formats = sys.modules[places].FORMATS
    (parquet,) = (one for one in formats if one.batches.__name__ == "parquet_batches")
    calls = tmp_path / "calls"

    def crashing_at(last):
        def crash(step, path, *columns):
            if path.name == file and land.base in path.parents:
                assert os.getpid() != run
                with calls.open("ab") as counted:
                    counted.write(b".")
                if calls.stat().st_size == last:
                    os.kill(os.getpid(), signal.SIGKILL)
            return getattr(parquet, step)(path, *columns)

        calls.write_bytes(b"")
        return replace(parquet, **{step: partial(crash, step) for step in ("names", "batches")})

    before = (tmp_path / "ledger.jsonl").read_bytes()
    command = ("extend", land.run, "--base", land.base, "--out", tmp_path / "more", "--yes")
    for last in range(1, 99):
        crashing = crashing_at(last)
        monkeypatch.setattr(f"{places}.FORMATS", tuple(crashing if f is parquet else f for f in formats))
        said = topdown(*command)
        if said.code == 0:
            break
        assert (said.code, "error[D087]" in said.err) == (2, True), (last, said.err)
        assert (tmp_path / "ledger.jsonl").read_bytes() == before
    assert said.code == 0
    assert last > 2, "no process that reads it was ended"
