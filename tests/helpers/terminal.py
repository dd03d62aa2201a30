"""A person at a terminal: a command in a pseudo-terminal, and what is typed when it asks."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_LONGEST_SECONDS = 600


@dataclass(frozen=True)
class Session:
    """What a command showed.

    Args:
        code: exit code. text: of the screen, both streams. longest_silence: seconds without a sign of life.
    """

    code: int
    text: str
    longest_silence: float


def typed(folder: Path, *arguments: object, answers: Sequence[str] = (), program: str = "topdown") -> Session:
    """Run a command of ours on a terminal of 80 columns; each answer is typed at the next prompt ("> ").

    Args:
        folder: to run in. arguments: of the command. answers: lines, without their ends.
    """
    here, there = pty.openpty()
    line = [
        sys.executable,
        "-c",
        f"from {program}.cli import main; raise SystemExit(main())",
        *map(str, arguments),
    ]
    environment = os.environ | {"COLUMNS": "80", "TERM": "xterm"}
    with subprocess.Popen(
        line, cwd=folder, stdin=there, stdout=there, stderr=there, env=environment
    ) as process:
        os.close(there)
        left, shown, answered, last, silence = list(answers), b"", 0, time.monotonic(), 0.0
        end = last + _LONGEST_SECONDS
        while time.monotonic() < end:
            if not select.select([here], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(here, 65536)
            except OSError:  # the other end was closed
                break
            if not piece:
                break
            silence, last = max(silence, time.monotonic() - last), time.monotonic()
            shown += piece
            if left and shown.count(b"> ") > answered and shown.rstrip(b" ").endswith(b">"):
                answered = shown.count(b"> ")
                os.write(here, left.pop(0).encode() + b"\n")
        os.close(here)
        process.wait(timeout=60)
    return Session(process.returncode, shown.decode(errors="replace"), silence)
