"""A made-up town with a release of it, made once by the library."""

from dataclasses import dataclass
from pathlib import Path

import pytest

import topdown


@dataclass(frozen=True)
class Town:
    """Input and release of a made-up town; tests copy what they change."""

    run: Path
    release: Path
    made: topdown.GenerateResult


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    """Make up a town and release it."""
    top = tmp_path_factory.mktemp("town")
    run = topdown.synth(top / "in", schema="toy", people=400, seed=3).run_file
    assert run is not None
    made = topdown.generate(str(run), str(top / "release"))
    return Town(run, top / "release", made)
