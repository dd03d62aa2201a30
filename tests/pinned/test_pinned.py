"""Equal measurements are published as equal files: a rounding, an order or a word that changes is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.depth import DEPTH
from tests.pinned.releases import KINDS, SLOW

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_releases_are_published_as_they_were() -> None:
    """If the change is meant: python -m tests.pinned --write, and say why in the commit.

    In a process of its own, as by hand: after thousands of other tests in the same process two kinds drew other noise.
    """
    later = (*SLOW, "policies", "odd")  # as costly as the others together: in `make test-slow`, and by hand
    kinds = [kind for kind in KINDS if DEPTH > 1 or kind not in later]
    command = [sys.executable, "-m", "tests.pinned", *kinds]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout[-4000:] + said.stderr[-2000:]
