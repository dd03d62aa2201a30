"""Programs that get a signal: at their n-th import, or at any time once they handle it."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from tests.helpers.processes import run_python
from topdown.process import STOP_SIGNALS

_HOOK = """
import os, sys

left = [int(os.environ["STOP_AT_IMPORT"]), False]

def stop(event, arguments):
    if event == "import":
        left[1] = left[1] or arguments[0] == "topdown.errors"  # the last import before signals are handled
        left[0] -= left[1]
        if left[0] == -1:
            os.mkdir(os.environ["STOPPED"])
            os.kill(os.getpid(), int(os.environ["STOP_BY"]))

sys.addaudithook(stop)
"""


def stopped_at_import(
    step: int, number: signal.Signals, program: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a program that gets a signal at its n-th import after it handles signals; later ones are never reached.

    Args:
        step: which import, 1 or more.
        number: the signal.
        program: topdown or pgsr. arguments: of the command line.
        folder: where it runs; gets a file for Python itself, and a folder `stopped` if the program came so far.
    """
    stopped = folder / "stopped"
    if stopped.exists():
        stopped.rmdir()
    (folder / "sitecustomize.py").write_text(_HOOK)
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {
        "PYTHONPATH": f"{folder}{os.pathsep}{root}",
        "STOP_AT_IMPORT": str(step),
        "STOPPED": str(stopped),
        "STOP_BY": str(int(number)),
    }
    how = {"cwd": folder, "env": environment, "preexec_fn": _as_in_a_terminal}
    return run_python("-m", f"{program}.cli", *arguments, ok=False, **how)


def _as_in_a_terminal() -> None:
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)


def wait_until_handled(process: subprocess.Popen) -> None:
    """Wait until a program handles every stop, or has ended: before, a stop ends it as the system does."""
    wanted = sum(1 << (number - 1) for number in STOP_SIGNALS)
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        if int(re.search(r"^SigCgt:\s+(\w+)$", status, re.MULTILINE)[1], 16) & wanted == wanted:
            return
        time.sleep(0.002)
