"""Equal measurements are published as equal files: a rounding, an order or a word that changes is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.depth import DEPTH
from tests.pinned.__main__ import read_digests
from tests.pinned.forms import compared
from tests.pinned.releases import KINDS, SLOW, make


@pytest.mark.deep
@pytest.mark.parametrize("kind", [kind for kind in KINDS if DEPTH > 1 or kind not in SLOW])
def test_releases_are_published_as_they_were(kind: str, tmp_path: Path) -> None:
    """If the change is meant: python -m tests.pinned --write, and say why in the commit."""
    make(kind, tmp_path / kind)
    found = compared(tmp_path / kind, read_digests()[kind])
    assert not found, "\n".join(["", *found[:20]])
