"""A sound release, and a copy of it to be changed."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.small_release import Small, build


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a sound release, built once and never changed."""
    return build(tmp_path_factory.mktemp("sound"), csv=True, nodes_a_part=1)


@pytest.fixture
def copy(sound: Small, tmp_path: Path) -> Small:
    """Return a copy of the sound release to be changed."""
    shutil.copytree(sound.folder, tmp_path / "release")
    return Small(tmp_path / "release", sound.context, sound.leaves, sound.ledger)
