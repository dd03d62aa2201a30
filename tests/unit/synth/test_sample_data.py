"""The bundled sample county is what its generator makes today, and what its checksums say."""

import gzip
import hashlib
from pathlib import Path

import pytest

from topdown.made_up import Origin, origin_of
from topdown.measure import load_records
from topdown.plan import prepare
from topdown.practice.synth import synth
from topdown.resources import bundled_root

SAMPLE = bundled_root() / "sample_data"


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("again")
    synth(folder, people=50_000, schema="pl94", seed=2, release_id="demo")
    return folder


@pytest.mark.parametrize("name", ["persons.csv.gz", "blocks.csv.gz"])
def test_tables_are_regenerated(name: str, again: Path) -> None:
    """The generator would have changed without new sample data, or the sample been edited by hand."""
    made, bundled = (gzip.decompress((folder / name).read_bytes()) for folder in (again, SAMPLE))
    assert made == bundled


def test_run_file_is_regenerated(again: Path) -> None:
    """The demo would run other settings than the bundled ones."""
    assert (again / "run.toml").read_text(encoding="utf-8") == (SAMPLE / "run.toml").read_text(
        encoding="utf-8"
    )


def test_checksums() -> None:
    """A damaged download would go unnoticed."""
    lines = (SAMPLE / "checksums.txt").read_text(encoding="utf-8").splitlines()
    stated = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {name: hashlib.sha256((SAMPLE / name).read_bytes()).hexdigest() for name in stated}
    assert stated == found
    assert {"persons.csv.gz", "persons.csv.gz.made-up.json", "blocks.csv.gz", "run.toml"} == set(stated)


def test_the_sample_is_marked_as_made_up() -> None:
    """A sample that no simulation takes leaves newcomers without anything to simulate on."""
    digest = hashlib.sha256((SAMPLE / "persons.csv.gz").read_bytes()).hexdigest()
    expected = Origin("made_up", "persons.csv.gz", digest, generator="topdown synth", seed=2)
    assert expected == origin_of(SAMPLE / "persons.csv.gz")


def test_sample_is_valid_small_and_as_described() -> None:
    """The demo would be refused, take too long, or the package grow."""
    prepared = prepare(SAMPLE / "run.toml")
    records = load_records(prepared.records_path, prepared.context).open_counts().whole()
    sizes = {level.name: len(level) for level in prepared.context.geography.levels}
    assert (records.n_records, sizes["state"], sizes["county"], sizes["block"]) == (50_000, 1, 1, 1139)
    assert sum(level.n_numbers for level in prepared.plan.levels) < 3_000_000
    assert sum(file.stat().st_size for file in SAMPLE.iterdir()) < 200_000
    assert prepared.plan.release.id == "demo"
