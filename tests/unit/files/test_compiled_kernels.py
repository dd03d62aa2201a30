"""Kernels are compiled; where they are not, or their source has changed since, the source runs and it is said."""

import shutil
import subprocess
from pathlib import Path

import pytest

from build_kernels import build, compiled_file
from tests.helpers.processes import run_python
from topdown.resources import KERNELS, report_slow_kernels

ROOT = Path(__file__).resolve().parents[3]
KERNEL = "topdown.solve.kernels_shared"
LOOK = f"""
from importlib import import_module
from topdown.resources import report_slow_kernels
print(import_module("{KERNEL}").__file__)
report_slow_kernels("topdown", lambda event: print(event.text))
"""


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python(*command, ok=False, cwd=folder, env=environment)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a folder with the package and its compiled files."""
    shutil.copytree(ROOT / "topdown", tmp_path / "topdown", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "build_kernels.py", tmp_path)
    return tmp_path


def compiled(folder: Path) -> Path:
    (found,) = (folder / "topdown" / "solve").glob("kernels_shared.*.so")
    return found


@pytest.mark.parametrize("package", ["topdown", "pgsr"])
def test_all_kernels_are_compiled_here(package: str) -> None:
    """Tests of interpreted kernels would pass, take minutes, and say nothing of what users run (make kernels)."""
    found: list[str] = []
    report_slow_kernels(package, lambda event: found.append(event.text))
    assert found == []


def test_a_compiled_kernel_is_used(copied: Path) -> None:
    """Every run would be a hundred times slower with a compiled file beside the source."""
    done = run(copied, "-c", LOOK)
    assert done.stdout.splitlines() == [str(compiled(copied))], done.stderr


def test_what_is_compiled_is_not_compiled_again() -> None:
    """Every `make` would take half a minute more: the compiled file must hold the hash of its source readably."""
    before = {kernel: compiled_file(ROOT, kernel).stat().st_mtime_ns for kernel in KERNELS}
    made = build(ROOT, again=False)
    assert {kernel: path.stat().st_mtime_ns for kernel, path in zip(KERNELS, made, strict=True)} == before


def test_a_changed_source_runs_in_place_of_what_was_compiled(copied: Path) -> None:
    """A developer's change would have no effect, or a release be made by loops that nobody can read any more."""
    source = copied / "topdown" / "solve" / "kernels_shared.py"
    source.write_text(source.read_text() + "\n# changed\n")
    file, sentence = run(copied, "-c", LOOK).stdout.splitlines()
    assert file == str(source)
    assert KERNEL in sentence
    assert f"1 of {sum(name.startswith('topdown.') for name in KERNELS)} kernels" in sentence


def test_without_a_compiled_file_the_source_runs_and_says_so(copied: Path) -> None:
    """A run on a machine without compiler would take hours, and nobody would know why."""
    compiled(copied).unlink()
    file, sentence = run(copied, "-c", LOOK).stdout.splitlines()
    assert file.endswith("kernels_shared.py")
    assert KERNEL in sentence
    assert "Install a C compiler" in sentence


@pytest.mark.parametrize(
    "commands",
    [
        ["topdown.cli demo --out made"],
        [
            "pgsr.cli synth --shape tiny --out groups",
            "pgsr.cli ledger new groups/run.toml",
            "pgsr.cli release groups/run.toml --mechanism M_H^dp --yes --out made",
        ],
    ],
    ids=["topdown", "pgsr"],
)
def test_without_compiled_files_a_release_is_made(tmp_path: Path, commands: list[str]) -> None:
    """Without a compiler releases ended after their charge, at a number of NumPy that JSON does not write."""
    for package in ("topdown", "pgsr"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
    for folder in ("schemas", "invariants", "settings", "sample_data"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for command in commands:
        said = run(tmp_path, "-m", *command.split(), PYTHONPATH=str(tmp_path))
        assert said.returncode == 0, said.stderr
    assert "kernels are not compiled" in said.stderr
    assert (tmp_path / "made" / "manifest.json").is_file()


def test_without_a_compiler_nothing_compiled_is_lost(copied: Path) -> None:
    """A failed rebuild would leave an installation slower than before, or end in a traceback."""
    before = compiled(copied).read_bytes()
    for environment in ({"PATH": ""}, {"CC": "false", "PATH": "/usr/bin:/bin"}):
        done = run(copied, "build_kernels.py", **environment)
        assert done.returncode == 1
        assert done.stderr.startswith("kernels not compiled: ")
        assert "Traceback" not in done.stderr
    assert compiled(copied).read_bytes() == before
