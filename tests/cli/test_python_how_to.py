"""The how-to page of the library, run from its first line to its last in one program."""

import re
import subprocess
import sys
from pathlib import Path

import topdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_how_to_page_runs(tmp_path):
    """A line on the page that no longer works stops a reader at the first step."""
    program = "\n".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "2000 True" in lines  # the release
    assert "2000 2000" in lines  # its tables and records
    assert "this run spent: nothing" in lines
    assert [line for line in lines if line.endswith("False")] == []
    assert any(line.startswith("solve ") for line in lines)
    assert not (tmp_path / "elsewhere").exists()


def test_the_how_to_page_names_what_there_is():
    """A name on the page that the package lacks, or a link to nowhere, sends a reader to the source."""
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"topdown\.(\w+)", text))
    assert named <= set(topdown.__all__)
    functions = {name for name in topdown.__all__ if name.islower()}
    assert functions <= named
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (PAGE.parent / target).is_file(), target
