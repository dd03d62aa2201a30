"""Small trees cut into many sections, by the writer of releases and by the verifier alike."""

from __future__ import annotations

import pytest

from topdown.model import sections
from topdown.publish.verify import cuts


def cut_small(monkeypatch: pytest.MonkeyPatch, cut_leaves: int = 3, section_leaves: int = 2) -> None:
    """Cut at the highest level of few leaves, and close sections where they have some."""
    for module in (sections, cuts):
        monkeypatch.setattr(module, "CUT_LEAVES", cut_leaves)
        monkeypatch.setattr(module, "SECTION_LEAVES", section_leaves)
