"""What a command takes, from a process that does nothing else."""

import subprocess
import sys
from pathlib import Path

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
