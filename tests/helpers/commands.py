"""Command lines run in this process, or on a terminal of their own."""

import fcntl
import io
import json
import os
import pty
import re
import select
import subprocess
import termios
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pgsr.cli import main as pgsr_main
from topdown.cli import main


@dataclass(frozen=True)
class Said:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    def ok(self) -> "Said":
        """Return this result; fail the test if the command ended in an error."""
        assert self.code == 0, self.out + self.err
        return self

    @property
    def refusal(self) -> str:
        """The code that a command was refused with, on the screen or in its document."""
        assert self.code == 2, self.err
        shown = re.search(r"error\[(\w+)\]", self.err)
        return shown[1] if shown else self.document["code"]


def _run(program: Callable[[list[str]], int], *arguments: object) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = program([str(a) for a in arguments])
    return Said(code, out.getvalue(), err.getvalue())


topdown, pgsr = partial(_run, main), partial(_run, pgsr_main)
"""Run a command line as an office would, in this process."""


def on_terminal(
    command: list[str], *answers: bytes, columns: int = 80, folder: Path | None = None
) -> tuple[int, str]:
    """Run a program on a terminal, typing an answer at each of its prompts; return exit code and screen."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "PYTHONUTF8": "1"},
    )
    os.close(follower)
    said, left = b"", list(answers)
    while True:
        ready, _, _ = select.select([leader], [], [], 120)
        assert ready, said.decode()
        try:
            data = os.read(leader, 4096)
        except OSError:
            break
        if not data:
            break
        said += data
        if left and said.count(b"\n> ") > len(answers) - len(left):
            os.write(leader, left.pop(0))
    os.close(leader)
    return process.wait(timeout=120), said.decode()
