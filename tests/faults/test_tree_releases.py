"""Whole releases fitted to the tree estimate: made, verified, solved again; what is said of them is checked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_policy_releases import release
from tests.helpers import solved
from tests.helpers.small_release import reseal, write_canonical
from tests.helpers.solved import solve_release
from topdown.verify import verify

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release whose plan asks for the tree estimate."""
    folder = tmp_path_factory.mktemp("tree")
    text = solved.toy_run().replace("[budget]", '[estimates]\ntargets = "tree"\n\n[budget]')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solved, "toy_run", lambda: text)
        assert release(folder, "caps")[1].checks.ok
    return folder / "release"


def test_a_release_verifies_and_solves_to_the_same_bytes(made: Path, tmp_path: Path) -> None:
    """plan.json asks, solve.json answers; a second solve of the same folder must not differ by a byte."""
    plan, document = (json.loads((made / name).read_text()) for name in ("plan.json", "solve.json"))
    assert plan["estimates"] == {"targets": "tree"}
    assert [at["targets"] for at in document["statistics"]["targets"]] == ["tree", "tree", "own"]
    shutil.copytree(made, tmp_path / "again")
    (tmp_path / "again" / "solve.json").unlink()
    solve_release(tmp_path / "again")
    assert (made / "solve.json").read_bytes() == (tmp_path / "again" / "solve.json").read_bytes()


def gone(document: dict[str, Any]) -> None:
    """Take the part out."""
    del document["statistics"]


def no_reason(document: dict[str, Any]) -> None:
    """Say of a level that it was left to its own measurements, not why."""
    document["statistics"]["targets"][1] = {"level": "county", "targets": "own", "why": ""}


def a_level_less(document: dict[str, Any]) -> None:
    """Leave a level out."""
    del document["statistics"]["targets"][1]


def no_residual(document: dict[str, Any]) -> None:
    """Leave out how well the equations hold."""
    del document["statistics"]["residual_persons"]


def other_words(document: dict[str, Any]) -> None:
    """Use a word that the format has not."""
    document["statistics"]["targets"][0]["targets"] = "best"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (gone, "V122"),
        (no_reason, "V122"),
        (a_level_less, "V122"),
        (no_residual, "V122"),
        (other_words, "V120"),
    ],
)
def test_what_solve_json_says_of_the_estimate_is_held_to_the_plan(
    change: Change, code: str, made: Path, tmp_path: Path
) -> None:
    """A fallback that is not named, or a claim of another method, must not pass."""
    folder = tmp_path / "release"
    shutil.copytree(made, folder)
    document = json.loads((folder / "solve.json").read_text())
    change(document)
    write_canonical(folder / "solve.json", document)
    reseal(folder)
    assert [finding.code for finding in verify(folder).check("solver").findings] == [code]


def test_a_large_residual_is_a_warning(made: Path, tmp_path: Path) -> None:
    """Estimates that do not solve their equations cost accuracy, and whoever uses the table should know."""
    folder = tmp_path / "release"
    shutil.copytree(made, folder)
    document = json.loads((folder / "solve.json").read_text())
    document["statistics"]["residual_persons"] = 0.25
    write_canonical(folder / "solve.json", document)
    reseal(folder)
    check = verify(folder).check("solver")
    assert check.ok
    assert any("2.5e-01 persons from its normal equations" in text for text in check.warnings)
