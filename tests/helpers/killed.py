"""Children that die by SIGKILL at a chosen step on the disk, and programs that run trials of them."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers.processes import run_python
from topdown.measure import create_run_ledger

ROOT = Path(__file__).resolve().parents[2]


def trials(killer: Path, *arguments: object) -> list[dict]:
    """Run a program that prints one JSON line a trial, and nothing else; return the trials."""
    out = run_python(killer, *arguments, timeout=580, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert out.stderr == ""
    return [json.loads(line) for line in out.stdout.splitlines()]


def tell(**trial: object) -> None:
    """Print what came of a trial, for `trials`."""
    print(json.dumps(trial), flush=True)


def start_anew(folder: Path) -> Path:
    """Remove what trials left of the run in a folder, and make its ledger again; return the ledger."""
    for name in ("out", "ledger"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for registry in folder.glob("ledger-*.registry*"):
        registry.unlink()
    run = folder / "run.toml"
    run.write_text(re.sub('^id = "[0-9a-f]{16}".*\n', "", run.read_text(), flags=re.MULTILINE))
    create_run_ledger(run)
    return next((folder / "ledger").iterdir())


def left_over(folder: Path) -> list[str]:
    """Return the names of files that no ended run leaves behind."""
    return [path.name for path in folder.rglob("*") if path.suffix in (".drawn", ".tmp")]


def die() -> None:
    """End this process as the memory killer does."""
    os.kill(os.getpid(), signal.SIGKILL)


def disturb(step: int, stop: Callable[[], None] = die, *, full: bool = False, folders: bool = False) -> None:
    """Stop this process at its n-th step: half way through a write, or before a sync or rename.

    Args:
        stop: what happens there.
        full: only writes are steps, and it happens at all later ones too, as on a full disk.
        folders: a new folder is a step, too.
    """
    left = [step]
    write, sync, replace, mkdir = os.write, os.fsync, Path.replace, Path.mkdir

    def reached() -> bool:
        left[0] -= 1
        return left[0] == 0 or (full and left[0] < 0)

    def stopping_write(descriptor: int, data: bytes) -> int:
        if reached():
            write(descriptor, bytes(data)[: len(data) // 2])
            stop()
        return write(descriptor, data)

    def before(operation: Callable[..., Any]) -> Callable[..., Any]:
        def stopping(*arguments: Any, **options: Any) -> Any:
            if not full and reached():
                stop()
            return operation(*arguments, **options)

        return stopping

    os.write, os.fsync, Path.replace = stopping_write, before(sync), before(replace)
    if folders:
        Path.mkdir = before(mkdir)


def is_killed(act: Callable[[], object], step: int = 0) -> bool:
    """Act in a child that dies at a step (0: when it says so itself); tell whether it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if step:
                disturb(step)
            act()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"it failed at step {step}")
    return False
