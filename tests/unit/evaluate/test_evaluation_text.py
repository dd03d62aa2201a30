"""The evaluation on screen and on disk: headed, narrow, and never inside the release."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topdown.errors import ConfigError
from topdown.measure.evaluate import HEADING, evaluate
from topdown.measure.evaluation_text import render_text, write_evaluation

Rows = list[tuple[str, ...]]
Build = Callable[[Path, Rows], Path]


@pytest.fixture
def release(run: Path, truth: Rows, release_of: Build) -> Path:
    return release_of(run, truth)


@pytest.fixture
def document(run: Path, release: Path) -> dict[str, Any]:
    return evaluate(release, run.parent / "records.csv")


def test_every_part_is_headed_and_fits(document: dict[str, Any]) -> None:
    """A printed page could travel without its mark, or wrap on a terminal."""
    text = render_text(document)
    parts = text.split("\n\n" + HEADING)
    assert text.startswith(HEADING)
    assert len(document["levels"]) + 2 == len(parts)  # head, one a level, invariants
    assert max(len(line) for line in text.splitlines()) <= 80


def test_text_shows_levels_queries_bins_and_invariants(document: dict[str, Any]) -> None:
    """A reader would miss a table that was computed."""
    text = render_text(document)
    for level in document["levels"]:
        assert f"{level['level']}, {level['n_nodes']} areas" in text
        assert all(table["query"] in text for table in level["tables"])
    assert "invariants, 100 % exact" in text
    assert all(check["name"][:40] in text for check in document["invariants"]["checks"])


def test_large_numbers_stay_in_their_columns(document: dict[str, Any]) -> None:
    """A nation's errors would push the columns apart."""
    for level in document["levels"]:
        for of in (*level["tables"], *level["total_by_population"]):
            of |= {"mae": 1234567.8, "rmse": 2345678.9, "bias": -123456.7}
    assert max(len(line) for line in render_text(document).splitlines()) <= 80


def test_file_is_whole_and_private(document: dict[str, Any], tmp_path: Path, release: Path) -> None:
    """Others on the machine could read the errors."""
    out = tmp_path / "evaluation.json"
    write_evaluation(document, out, release)
    assert document == json.loads(out.read_text(encoding="utf-8"))
    assert out.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.glob("evaluation*")] == ["evaluation.json"]


@pytest.mark.parametrize(
    "inside", ["evaluation.json", "tables/evaluation.json", "../release/evaluation.json"]
)
def test_never_inside_the_release(inside: str, document: dict[str, Any], release: Path) -> None:
    """A confidential file would be published with the release."""
    with pytest.raises(ConfigError) as error:
        write_evaluation(document, release / inside, release)
    assert error.value.code == "C067"
    assert not (release / "evaluation.json").exists()


def test_never_inside_the_release_through_a_link(
    document: dict[str, Any], release: Path, tmp_path: Path
) -> None:
    """A symbolic link would lead around the rule."""
    (tmp_path / "elsewhere").symlink_to(release, target_is_directory=True)
    with pytest.raises(ConfigError):
        write_evaluation(document, tmp_path / "elsewhere" / "e.json", release)
