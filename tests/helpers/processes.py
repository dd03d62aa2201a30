"""Python in a process of its own."""

import subprocess
import sys
from typing import Any


def run_python(*words: object, ok: bool = True, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run this Python with words of a command line; fail with what it said if it did, unless it may (`ok` false)."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0 or not ok, done.stdout[-2000:] + done.stderr[-2000:]
    return done
