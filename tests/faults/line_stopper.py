"""Run a command in children that get a stop at the n-th line of what handles stops; print what came of each.

    python line_stopper.py STRIDE ARGUMENT ...

The stops come at lines STRIDE apart; the arguments are those of `topdown`. Each trial prints one JSON line; the last
trial is the first that comes to its end undisturbed.
"""

import json
import os
import signal
import sys
import traceback
from itertools import count
from types import FrameType
from typing import Any, NoReturn

from tests.helpers.commands import topdown
from topdown.cli import main as program
from topdown.process import end_when_stopped

FILES = ("/topdown/process.py", "/contextlib.py", "/commands/program.py")
FUNCTIONS = {"run_program", "_code_of", "document", "last_flush"}


def command(step: int, tell: int) -> NoReturn:
    """Be the program, and tell where the stop came."""
    left, code = step, 1

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not (frame.f_code.co_filename.endswith(FILES) or frame.f_code.co_name in FUNCTIONS):
            return None
        left -= event == "line"
        if event == "line" and not left:
            os.write(tell, f"{frame.f_code.co_filename}:{frame.f_lineno}".encode())
            os.kill(os.getpid(), signal.SIGTERM)
        return trace

    end_when_stopped()
    sys.settrace(trace)
    try:
        code = program()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.settrace(None)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def trial(step: int) -> dict[str, Any]:
    """Run the command once; return its exit code, both streams, and where the stop came."""
    pipes = {name: os.pipe() for name in ("out", "err", "where")}
    child = os.fork()
    if child == 0:
        os.dup2(pipes["out"][1], 1)
        os.dup2(pipes["err"][1], 2)
        command(step, pipes["where"][1])
    found: dict[str, Any] = {"step": step}
    for name, (here, there) in pipes.items():
        os.close(there)
        with os.fdopen(here) as said:
            found[name] = said.read()
    return found | {"code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def main() -> None:
    """Run the trials."""
    stride, sys.argv = int(sys.argv[1]), ["topdown", *sys.argv[2:]]
    topdown(*sys.argv[1:])  # so that no child has to load libraries
    for step in count(1, stride):
        found = trial(step)
        print(json.dumps(found), flush=True)
        if not found["where"]:
            break


if __name__ == "__main__":
    main()
