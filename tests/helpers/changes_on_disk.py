"""What a process of the test is about to change on the disk, seen from inside before it happens."""

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = {
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
}


def watch(told: Callable[[str, str], None]) -> None:
    """Tell what changes before Python changes it, and where; for a process that ends soon, as it cannot be undone.

    Files that Arrow writes are not seen as they are opened, but as they get their name.
    """

    def hook(event: str, args: tuple[object, ...]) -> None:
        changes = event in _CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITES)
        path = args[0] if args else None
        if changes and isinstance(path, str | bytes | os.PathLike):
            told(event, _whole(os.fsdecode(path), args[1] if event in ("os.remove", "os.rmdir") else -1))

    sys.addaudithook(hook)


def _whole(path: str, folder: object) -> str:
    """Return a path that may be a name in an open folder."""
    return path if folder in (-1, None) else str(Path(f"/proc/self/fd/{folder}").readlink() / path)


def watch_folder(folder: Path, told: Callable[[], None]) -> None:
    """Tell before Python changes anything below a folder; what changes nothing is not told."""

    def inside(event: str, path: str) -> None:
        if not Path(path).is_relative_to(folder):
            return
        there = os.path.lexists(path)
        if (event == "os.mkdir" and there) or (event in ("os.remove", "os.rmdir") and not there):
            return
        told()

    watch(inside)


def change_nothing() -> None:
    """Let this process write to no file, nor make, rename or remove one; pipes stay open."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # holds for Arrow and compiled code as well

    def refuse(event: str, path: str) -> None:
        if path != os.devnull:
            raise PermissionError(f"a worker changes the disk: {event} {path}")

    watch(refuse)
