"""A made-up toy census with its mark, planned once."""

from pathlib import Path

import pytest

from topdown.plan import PreparedRun, prepare
from topdown.practice.synth import synth


@pytest.fixture(scope="session")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with persons.csv.gz, its mark, blocks.csv.gz and run.toml; several counties."""
    folder = tmp_path_factory.mktemp("census")
    synth(folder, people=3_000, schema="toy", seed=7)
    return folder


@pytest.fixture(scope="session")
def prepared(census: Path) -> PreparedRun:
    """Return the plan of the toy census."""
    return prepare(census / "run.toml")
