"""No thread of Arrow's is left when a program ends: one that waits for Python then aborts it, after its release."""

import os
from pathlib import Path

import pytest

from tests.helpers.processes import run_python

LOOK = """
import os, sys
from {package}.cli import main
assert main(sys.argv[1:]) == 0
print(len(os.listdir("/proc/self/task")))
"""
RUNS = {
    "topdown": ("generate", "run.toml", "--out", "release", "--yes", "--workers", "2"),
    "pgsr": ("release", "run.toml", "--out", "release", "--yes"),
}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
@pytest.mark.parametrize("package", RUNS)
def test_a_release_ends_without_threads(package: str, tmp_path: Path) -> None:
    """Arrow's allocator has one of its own, which never asks for Python."""

    def run(*command: str) -> str:
        return run_python(*command, cwd=tmp_path, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}).stdout

    program = ("-m", f"{package}.cli")
    if package == "pgsr":
        run(*program, "synth", "--shape", "tiny", "--out", "made")
        run(*program, "ledger", "new", "made/run.toml")
    else:
        run(*program, "synth", "--people", "3000", "--out", "made")
    before = int(run("-c", "import os, pyarrow; print(len(os.listdir('/proc/self/task')))"))
    command, run_file, *options = RUNS[package]
    look = LOOK.format(package=package)
    after = run("-c", look, command, f"made/{run_file}", *options).split()[-1]
    assert int(after) == before
