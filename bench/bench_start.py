"""Start-up: seconds until `topdown --help` is said, beside those of an empty Python program.

Run: `pytest bench/bench_start.py -s`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

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
