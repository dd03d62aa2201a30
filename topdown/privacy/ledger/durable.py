"""Steps on files that survive a crash: the only way the ledger and the journal touch the disk; one run a folder.

After `write_new`, `append`, `truncate` or `sync` the content is on the disk. A new, renamed or removed *name*
is there only after `sync_folder`. No step follows a symbolic link. A test replaces `Disk` by a model that
crashes after every step.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from topdown.errors import ConfigError, disk_error

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class ReplacedError(OSError):
    """Another file has taken the name of the file that is locked."""


class LockedFile:
    """A file or folder held under an exclusive lock until closed; forked children do not hold it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path
        _LOCKED.add(self)

    def check_in_place(self) -> None:
        """Raise `ReplacedError` unless the file that is locked is the one at its path."""
        held = os.fstat(self._descriptor)
        try:
            named = self._path.lstat()
        except FileNotFoundError:
            named = None
        if named is None or (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
            raise ReplacedError(errno.ESTALE, "another file has taken its place", str(self._path))

    def read(self) -> bytes:
        """Return the whole content."""
        size = os.fstat(self._descriptor).st_size
        data = os.pread(self._descriptor, size, 0)
        if len(data) != size:
            raise OSError("short read")
        return data

    def append(self, data: bytes) -> None:
        """Add bytes at the end, durably; on failure take back what was added, as far as possible.

        Raises:
            ReplacedError: the file is no longer the one at its path; nothing was added.
        """
        self.check_in_place()
        size = os.fstat(self._descriptor).st_size
        try:
            _write_all(self._descriptor, data)
            os.fsync(self._descriptor)
            self.check_in_place()
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise

    def truncate(self, size: int) -> None:
        """Cut to the first `size` bytes, durably."""
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Release the lock; harmless if called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_LOCKED: WeakSet[LockedFile] = WeakSet()


def _release_locks() -> None:
    """Close what the parent holds: otherwise its lock would outlive it for as long as a child runs."""
    for file in list(_LOCKED):
        file.close()


os.register_at_fork(after_in_child=_release_locks)


class Disk:
    """The real disk. Tests replace it by a model, or by one that fails at a chosen step."""

    def lock(self, path: Path) -> LockedFile:
        """Open a file that exists for reading and appending, under an exclusive lock.

        Raises:
            FileNotFoundError: there is none; it is never created here.
            BlockingIOError: someone else holds the lock.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | _FLAGS)
        _check_plain(descriptor, path)
        return self._locked(descriptor, path)

    def lock_folder(self, path: Path) -> LockedFile:
        """Hold a folder that exists under an exclusive lock, so that one process at a time works in it.

        Raises:
            BlockingIOError: someone else holds the lock.
            ReplacedError: it was removed or replaced meanwhile.
        """
        return self._locked(os.open(path, os.O_RDONLY | os.O_DIRECTORY | _FLAGS), path)

    @staticmethod
    def _locked(descriptor: int, path: Path) -> LockedFile:
        """Lock an open file that is still the one at its path; OSError, and it is closed, if another has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file = LockedFile(descriptor, path)
            file.check_in_place()
        except OSError:
            os.close(descriptor)
            raise
        return file

    def replace(self, path: Path, data: bytes, *, private: bool = False) -> None:
        """Give a file other content in one step, durably: after a crash it has the old content or the new.

        Args:
            path: the file.
            data: its content.
            private: only the owner may read it.
        """
        part = path.with_name(path.name + ".tmp")
        self.write_new(part, data, private=private)
        self.rename(part, path)
        self.sync_folder(path.parent)

    def read(self, path: Path) -> bytes | None:
        """Return the content, or None if there is no such file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return None
        _check_plain(descriptor, path)
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            return sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            return []

    def make_folder(self, path: Path) -> None:
        """Create a folder and those above it, durably; harmless if it exists."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        path.mkdir(exist_ok=True)
        self.sync_folder(path.parent)

    def write_new(self, path: Path, data: bytes, *, private: bool = False) -> None:
        """Write a file from its first byte; its name is durable only after `sync_folder`."""
        mode = 0o600 if private else 0o644
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, mode)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync(self, path: Path) -> None:
        """Make durable what another library wrote to a file."""
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name in one step, replacing the target."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


REAL_DISK = Disk()


def _check_plain(descriptor: int, path: Path) -> None:
    """Refuse a pipe, a device or a folder: it would hang a run, feed it for ever or keep nothing (OSError EINVAL)."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file", str(path))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise what the disk refuses within the block as DataError D050, its notes kept.

    Args:
        folder: where the run writes, named where the error names no file.
    """
    try:
        yield
    except OSError as error:
        fix = (
            "make room or correct the rights, then run the same command again; where it spent something or was begun "
            "before, with --resume: what is whole is kept"
        )
        raise disk_error(error, "write", str(folder), fix) from None


@contextmanager
def folder_lock(out: Path, disk: Disk, *inside: str) -> Iterator[None]:
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
