"""The made-up country of 425,000 people and 9,600 cells, from its tables to a verified release, within its bars."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.country import LEVELS, write_country

SECONDS, BYTES = 60, 2**30  # of CPU, and of memory: one GiB
# What starts a program counts as its memory: not this process, which holds what was done before.
_MEASURED = """
import os, subprocess, sys
_, status, usage = os.wait4(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def used(folder: Path, *arguments: str) -> tuple[float, int]:
    """Run a topdown command in a folder; return its CPU seconds and most resident bytes.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    command = [sys.executable, "-c", _MEASURED, sys.executable, "-m", "topdown.cli", *arguments, "-q"]
    said = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return float(said[0]), int(said[1])


@pytest.mark.slow
def test_a_country_of_9600_cells_takes_a_minute_and_a_gigabyte(tmp_path: Path) -> None:
    """Work that grows with the square of the cells makes an office with ages in single years wait for an hour."""
    write_country(tmp_path, 425_000, 900)
    tables = ("--records", "people.csv", "--leaves", "places.csv", "--no-count")
    used(tmp_path, "init", "--codes", "codes.csv", "--levels", ",".join(LEVELS), *tables, "--out", "run.toml")
    seconds, memory = used(tmp_path, "generate", "run.toml", "--out", "release", "--yes", "--workers", "1")
    assert seconds <= SECONDS
    assert memory <= BYTES
    used(tmp_path, "verify", "release")
