"""The evaluation on disk: whole, private, and never inside the release."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topdown.errors import ConfigError
from topdown.measure import evaluate, write_evaluation

Rows = list[tuple[str, ...]]
Build = Callable[[Path, Rows], Path]


@pytest.fixture
def release(run: Path, truth: Rows, release_of: Build) -> Path:
    return release_of(run, truth)


@pytest.fixture
def document(run: Path, release: Path) -> dict[str, Any]:
    return evaluate(release, run.parent / "records.csv")


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
