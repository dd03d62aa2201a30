"""The README's commands and snippets, run as they stand on a small made-up census."""

import re
import shlex
from pathlib import Path

import pytest

from pgsr.cli import main as pgsr_main
from tests.helpers.ledgers import with_ledger
from tests.helpers.processes import run_python
from topdown.cli import main as topdown_main
from topdown.practice.synth import synth

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the README an empty folder, as a clone is: it makes what it names."""
    return tmp_path_factory.mktemp("readme")


def commands() -> list[str]:
    """Return the README's lines that run `topdown` or change folder, without their comments."""
    lines = [line for kind, block in BLOCKS if not kind for line in block.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith(("topdown ", "pgsr ", "cd "))]


def test_the_readme_starts_with_two_commands() -> None:
    """A newcomer must meet `make demo` and `make test` before anything else."""
    first = BLOCKS[0][1].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make demo", "make test"]


def test_every_command_and_snippet_of_the_readme_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A README whose commands fail loses the reader at the first line."""
    found = commands()
    assert len(found) >= 6
    monkeypatch.chdir(folder)
    for line in found:
        words = shlex.split(line)
        if words[0] == "cd":
            monkeypatch.chdir(words[1])
            continue
        more = ["--yes"] if words[:2] == ["topdown", "generate"] else []  # a person types four characters
        code = {"topdown": topdown_main, "pgsr": pgsr_main}[words[0]]([*words[1:], *more])
        assert code == 0, f"{line}\n{capsys.readouterr().err}"
    snippets = [block for kind, block in BLOCKS if kind == "python" and "generate(" not in block]
    for snippet in snippets:
        run_python("-c", snippet, timeout=240)


@pytest.mark.slow
def test_the_library_snippet_of_the_readme_runs(tmp_path: Path) -> None:
    """The Python way in must work as printed, with two workers."""
    synth(tmp_path, people=1_000, seed=5)
    with_ledger(tmp_path / "run.toml")
    snippet = next(block for kind, block in BLOCKS if kind == "python" and "generate(" in block)
    run_python("-c", snippet, cwd=tmp_path, timeout=120)
    assert (tmp_path / "from-python" / "manifest.json").is_file()
