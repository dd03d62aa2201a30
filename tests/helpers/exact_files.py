"""Exact statistics of few areas in tables of their own, by the writer of releases and by the verifier alike."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.small_release import edit_json
from topdown.plan import exact_statistics as exact_files
from topdown.verify import check_constraints as exact_values


def list_few(monkeypatch: pytest.MonkeyPatch, most: int = 0) -> None:
    """Let exact.json list statistics of no more than some areas itself."""
    for module in (exact_files, exact_values):
        monkeypatch.setattr(module, "MOST_LISTED", most)


def name_tables(release: Path) -> None:
    """Write the hashes of the tables as they are now into exact.json, as somebody would who hides a change."""
    folder = release / "measurements"

    def change(document: Any) -> None:
        for value in document["values"]:
            if "file" in value and (folder / value["file"]).exists():
                value["sha256"] = hashlib.sha256((folder / value["file"]).read_bytes()).hexdigest()

    edit_json(folder / "exact.json", change)
