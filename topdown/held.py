"""Hold the folder of a run from its first file to its last, so that two runs never write to one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from topdown.errors import ConfigError
from topdown.ledger.durable import Disk, ReplacedError


@contextmanager
def held(out: Path, disk: Disk, *inside: str) -> Iterator[None]:
    """Make the folder and hold it for a whole run; one that is left empty is taken away again.

    Args:
        out: folder of the run.
        disk: makes and locks it.
        inside: names of folders in it that are taken away too if they are left empty.

    Raises:
        ConfigError: C173 another run holds it.
    """
    made = [path for path in (out, *out.parents) if not os.path.lexists(path)]
    disk.make_folder(out)
    try:
        lock = disk.lock_folder(out)
    except (BlockingIOError, FileNotFoundError, ReplacedError):
        raise ConfigError(
            f"another run is writing to {out}",
            code="C173",
            file=str(out),
            fix="wait until it has ended, or give --out another folder; nothing was spent",
        ) from None
    try:
        yield
    finally:
        for path in (*(out / name for name in inside), *made):
            with suppress(OSError):
                path.rmdir()
        lock.close()
