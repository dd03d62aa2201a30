"""A sound release, a choice, and copies of them to be changed."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import write_toy
from tests.helpers.choices import SIDES
from tests.helpers.small_release import Small, build
from topdown.cli import main


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a sound release, built once and never changed."""
    return build(tmp_path_factory.mktemp("sound"), csv=True, nodes_a_part=1)


@pytest.fixture
def copy(sound: Small, tmp_path: Path) -> Small:
    """Return a copy of the sound release to be changed."""
    shutil.copytree(sound.folder, tmp_path / "release")
    return Small(tmp_path / "release", sound.context, sound.leaves, sound.ledger)


@pytest.fixture(scope="session")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a choice of sites by sides, made once and never changed."""
    folder = tmp_path_factory.mktemp("chosen")
    run, offices, out = write_toy(folder), folder / "offices.csv", folder / "offices"
    offices.write_text(SIDES)
    asked = [
        "--candidates",
        str(offices),
        "--k",
        "2",
        "--per",
        "side",
        "--epsilon",
        "1/2",
        "--yes",
        "--quiet",
    ]
    assert main(["select", "sites", str(run), *asked, "--out", str(out)]) == 0
    return out


@pytest.fixture
def choice(chosen: Path, tmp_path: Path) -> Path:
    """Return a copy of the choice to be changed."""
    return Path(shutil.copytree(chosen, tmp_path / "choice"))
