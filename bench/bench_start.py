"""Start-up: seconds until `topdown --help` is said and a small plan is shown, beside programs that do less.

Run: `pytest bench/bench_start.py -s`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import topdown

TIMES = 7


def seconds(*arguments: str) -> float:
    """Return the median wall seconds of a Python program."""
    found = []
    for _ in range(TIMES):
        start = time.monotonic()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        found.append(time.monotonic() - start)
    return statistics.median(found)


def test_help() -> None:
    """`topdown --help` over 0.3 s feels broken."""
    empty, said = seconds("-c", "pass"), seconds("-m", "topdown.cli", "--help")
    print(f"\ntopdown --help {said:.2f} s, an empty program {empty:.2f} s: {said / empty:.1f} times as long")
    assert said < 0.3


def test_plan(tmp_path: Path) -> None:
    """A plan needs numpy and pyarrow; what it takes beyond loading these is its own."""
    run_file = topdown.synth(tmp_path / "town", schema="toy", people=400).run_file
    loaded = seconds("-c", "import numpy, pyarrow.compute, pyarrow.parquet, msgspec, click")
    shown = seconds("-m", "topdown.cli", "plan", str(run_file), "-q")
    print(
        f"\ntopdown plan {shown:.2f} s, its libraries alone {loaded:.2f} s: {shown / loaded:.1f} times as long"
    )
