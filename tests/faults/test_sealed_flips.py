"""One byte of a published folder flipped, and every hash redone that an outsider can redo: verify must say no."""

import shutil
from pathlib import Path

import pytest

import pgsr
from tests.cli.conftest import write_toy
from tests.helpers.choices import OFFICES
from tests.helpers.depth import DEPTH
from tests.helpers.folders import files
from tests.helpers.groups import GROUPS, REGIONS, book, released
from tests.helpers.sealed_flips import Sealer, missed
from tests.helpers.small_release import Small
from tests.pinned.releases import make
from tests.pinned.seeded import in_sections
from topdown import verify
from topdown.cli import main

WHOLE = {
    "plain": ["gaussian/release", "geometric/release", "optimal/release", "add_remove/release"],
    "estimates": ["tree/release", "intervals/release", "margin_first/release", "resolved"],
    "sections": ["tables/release", "extended/more"],
    "extensions": ["kinds/more"],
    "choices": ["sites", "order", "frequent", "by_threshold"],
    "group_sizes": ["M_H_dp", "posterior", "posterior_public"],
}


def refuses(folder: Path) -> bool:
    """Tell whether the program that a folder is for refuses it."""
    if (folder / "counts.parquet").exists():
        return not all(check.ok for check in pgsr.verify(folder))
    return not verify(folder).ok


def assert_all_found(folder: Path, n: int) -> None:
    """Flip bytes of a folder; first see that it is sound, and that hashes redone over sound files are those there."""
    before = files(folder)
    Sealer(folder).seal(folder)
    assert before == files(folder)
    assert not refuses(folder)
    assert list(missed(folder, n, refuses)) == []


def test_a_sealed_flip_of_a_release_is_found(copy: Small) -> None:
    """Hashes that everybody can compute prove nothing: each byte must follow from what the files say."""
    assert_all_found(copy.folder, DEPTH)


def test_a_sealed_flip_of_a_choice_is_found(tmp_path: Path) -> None:
    """A choice is held to as much as a release."""
    run, offices = write_toy(tmp_path), tmp_path / "offices.csv"
    offices.write_text(OFFICES)
    asked = ["--candidates", str(offices), "--k", "2", "--epsilon", "1/2", "--yes", "--quiet"]
    assert main(["select", "sites", str(run), *asked, "--out", str(tmp_path / "chosen")]) == 0
    assert_all_found(tmp_path / "chosen", 4 * DEPTH)


def test_a_sealed_flip_of_group_sizes_is_found(tmp_path: Path) -> None:
    """Group sizes are published in files of the same forms."""
    released(GROUPS, REGIONS, "M_H^dp", "1/2", sizes=5, out=tmp_path / "out", **book(tmp_path))
    assert_all_found(tmp_path / "out", 2 * DEPTH)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", WHOLE)
def test_a_sealed_flip_of_every_kind_of_folder_is_found(kind: str, tmp_path: Path) -> None:
    """A kind of folder with a file that is not read strictly would have room for a message."""
    make(kind, tmp_path / kind)
    for name in WHOLE[kind]:
        folder = Path(shutil.copytree(tmp_path / kind / name, tmp_path / "copy"))
        if kind == "sections":
            with in_sections():
                assert_all_found(folder, DEPTH)
        else:
            assert_all_found(folder, DEPTH)
        shutil.rmtree(folder)
