"""Children that die by SIGKILL at a chosen step on the disk."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from topdown.privacy.ledger import durable


def die() -> None:
    """End this process as the memory killer does."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: int) -> None:
    """Make this process kill itself at its n-th step: half way through a write, or before a sync or rename."""
    left = [step]
    write, sync, replace = os.write, os.fsync, Path.replace

    def count() -> bool:
        left[0] -= 1
        return left[0] == 0

    def dying_write(descriptor: int, data: bytes) -> int:
        if count():
            write(descriptor, bytes(data)[: len(data) // 2])
            die()
        return write(descriptor, data)

    def dying_sync(descriptor: int) -> None:
        if count():
            die()
        sync(descriptor)

    def dying_replace(self: Path, target: Path) -> Path:
        if count():
            die()
        return replace(self, target)

    durable.os.write, durable.os.fsync, Path.replace = dying_write, dying_sync, dying_replace


def is_killed(act: Callable[[], object], step: int = 0) -> bool:
    """Act in a child that dies at a step (0: when it says so itself); tell whether it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if step:
                die_at(step)
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
