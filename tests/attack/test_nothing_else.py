"""Nothing published depends on the records but the exact statistics and the noisy counts that a pair moves."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.attacked_land import MORE, PEOPLE, make_extended, release, toy_run
from tests.helpers.attacker import Attacker
from tests.helpers.commands import topdown
from tests.helpers.folders import files
from tests.helpers.published import read_step

TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16}|seconds=[0-9.]+")
ONE, OTHER = ("112", "home", "female", "18_64"), ("121", "home", "male", "0_17")


@pytest.fixture
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operating system give the same bytes to every run that draws noise: the only thing that is not ours."""

    def given(n_bytes: int) -> bytes:
        return hashlib.shake_256(b"noise").digest(n_bytes)

    monkeypatch.setattr(os, "urandom", given)


def replaced(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    """Return the records of the land with one record of one kind replaced by one of another, in no other order."""
    lines = []
    for line in PEOPLE[1:]:
        *record, n = line.split(",")
        n_now = int(n) - (tuple(record) == one) + (tuple(record) == other)
        lines.append(",".join([*record, str(n_now)]))
    return "\n".join([PEOPLE[0], *lines]) + "\n"


def texts(folder: Path) -> dict[str, str]:
    """Return every file of a release that is not made from noisy answers, with times and random ids made alike."""
    kept = ["README.txt", "plan.json", "ledger.jsonl", "measurements/exact.json", "measurements/journal.json"]
    return {name: TIMES.sub("", (folder / name).read_text()) for name in kept}


def noisy(folder: Path) -> dict[tuple[str, str, str, int], int]:
    """Return every noisy answer of a release by level, node, query and position."""
    found = {}
    for part in sorted((folder / "measurements").rglob("*.parquet")):
        for row in pq.read_table(part).to_pylist():
            for i, answer in enumerate(row["answers"]):
                found[row["level"], row["node"], row["query"], i] = answer
    return found


def test_two_neighbours_differ_in_the_counts_they_move_and_nothing_else(
    tmp_path: Path, same_noise: None
) -> None:
    """Under one noise, two neighbours' releases differ by one in the counts that the record is in, before any solve."""
    folders = []
    for name, records in (("a", "\n".join(PEOPLE) + "\n"), ("b", replaced(ONE, OTHER))):
        (tmp_path / name).mkdir()
        run = toy_run(tmp_path / name, "plain", "bounded")
        (tmp_path / name / "plain.csv").write_text(records)
        folders.append(release(run, tmp_path / name / "out"))
    one, other = (noisy(folder) for folder in folders)
    assert list(one) == list(other)
    moved = {key: other[key] - one[key] for key in one if one[key] != other[key]}
    attacker = Attacker([read_step(folders[0])], ["111", "112", "113", "121"], [1, 2, 3])
    leaf, values = attacker.records
    labels = [a["labels"] for a in attacker.plan["schema"]["attributes"]]
    rows = [
        (attacker.codes[k], *(labels[i][v] for i, v in enumerate(row)))
        for k, row in zip(leaf, values, strict=True)
    ]
    (most,) = attacker.moved(*(_at(rows, record) for record in (ONE, OTHER)))
    assert sorted(moved.values()) == [-1] * (most.n // 2) + [1] * (most.n // 2)
    assert texts(folders[0]) == texts(folders[1])
    names = [sorted(p.relative_to(f).as_posix() for p in f.rglob("*")) for f in folders]
    assert names[0] == names[1]
    for path in ("public/geography.parquet", "public/leaves.parquet"):
        assert (folders[0] / path).read_bytes() == (folders[1] / path).read_bytes()


def _at(rows: list[tuple[str, ...]], record: tuple[str, ...]):
    return np.array([rows.index(record)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of a release, and of one and its extension."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("plain", "extended")}
    release(toy_run(folders["plain"], "plain", "bounded"), folders["plain"] / "base")
    more = make_extended(folders["extended"], "bounded")
    release(more.more, folders["extended"] / MORE, "--base", more.base)
    return folders


@pytest.mark.parametrize("records", ["neighbour", "nobody", "none"])
@pytest.mark.parametrize("which", ["plain", "extended"])
def test_the_rest_is_made_from_what_is_measured(
    made: dict[str, Path], tmp_path: Path, records: str, which: str
) -> None:
    """From one measurement every record file, or none at all, gives the same bytes: nothing leaks around the noise."""
    folder = Path(shutil.copytree(made[which], tmp_path / "land"))
    run, more = folder / "plain.toml", ()
    name, command = "base", "generate"
    if which == "extended":
        run, more, name, command = folder / f"{MORE}.toml", ("--base", folder / "base"), MORE, "extend"
    out, whole = folder / name, {}
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        whole[path.relative_to(out).as_posix()] = path.read_bytes()
        if path.parent == out and path.name not in ("plan.json", "README.txt"):
            path.unlink()
    for made_later in ("microdata", "tables"):
        shutil.rmtree(out / made_later)
    for file in folder.glob("*.csv"):
        if file.name == "leaves.csv":
            continue
        head, first, *rest = file.read_text().splitlines()
        file.write_text("\n".join([head, *rest, *([first[:-1] + "5"] * (records == "neighbour"))]) + "\n")
        if records == "none":
            file.unlink()
    topdown(command, run, *more, "--out", out, "--yes", "--resume", "--workers", 1).ok()
    again = files(out)
    assert sorted(again) == sorted(whole)
    assert [path for path in whole if again[path] != whole[path]] == []


@pytest.mark.parametrize("stop", ["limit", "approve", "plan"])
def test_a_run_that_spends_nothing_says_the_same_of_neighbours(tmp_path: Path, stop: str) -> None:
    """Exit codes and messages before any noise is drawn would be a second release, free of charge."""
    said = []
    for records in ("\n".join(PEOPLE) + "\n", replaced(ONE, OTHER)):
        folder = tmp_path / "land"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        run = toy_run(folder, "plain", "bounded")
        (folder / "plain.csv").write_text(records)
        if stop == "limit":
            run.write_text(run.read_text().replace('rho_limit = "100"', 'rho_limit = "1"'))
        assert topdown("ledger", "new", run).code == 0
        if stop == "plan":
            said.append(topdown("plan", run, "--json"))
            continue
        more = ("--approve", "ffff") if stop == "approve" else ("--yes",)
        said.append(topdown("generate", run, "--out", folder / "out", *more, "--workers", 1))
        assert said[-1].code == 2
    one, other = ([s.code, TIMES.sub("", s.out), TIMES.sub("", s.err)] for s in said)
    assert one == other
