"""A disk in memory on which the power can be cut, a process killed or a second one started in any chosen step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from topdown.privacy.ledger import Disk, LockedFile, ReplacedError

OUTCOMES = ("none", "torn", "named", "all")  # named: every name is kept, the content half


class Crash(BaseException):
    """The power is cut."""


class Killed(BaseException):
    """The process is killed; the disk keeps what it was told."""


class ModelDisk(Disk):
    """What was not made durable before the power is cut is lost, kept or half kept.

    Attributes:
        crash: (step, outcome) at which the power is cut; kill: step before which the process is killed.
        meanwhile: (step, function): what another process does just before that step; None once done.
    """

    def __init__(self) -> None:
        self.content: dict[int, bytes] = {}
        self.names_now: dict[Path, int] = {}
        self.names_safe: dict[Path, int] = {}
        self.pending: list[tuple[Path, int | None]] = []
        self.locked: set[int] = set()
        self.steps = 0
        self.crash: tuple[int, str] | None = None
        self.kill = 0
        self.meanwhile: tuple[int, Callable[[], None]] | None = None
        self.fresh = itertools.count()

    def snapshot(self) -> ModelDisk:
        """Return an independent copy, with no process left that holds a lock."""
        other = ModelDisk()
        other.content, other.names_now = dict(self.content), dict(self.names_now)
        other.names_safe, other.pending = dict(self.names_safe), list(self.pending)
        other.fresh = itertools.count(10_000 + next(self.fresh))
        return other

    def step(self) -> str:
        """Count a step; return how far it gets if the power is cut in it."""
        self.steps += 1
        if self.kill == self.steps:
            raise Killed
        if self.meanwhile and self.meanwhile[0] == self.steps:
            work, self.meanwhile = self.meanwhile[1], None
            work()
        return self.crash[1] if self.crash and self.crash[0] == self.steps else ""

    def cut(self, outcome: str) -> None:
        """Cut the power: of the names that are not safe, keep some."""
        kept = {"none": 0, "torn": len(self.pending) // 2}.get(outcome, len(self.pending))
        for path, inode in self.pending[:kept]:
            self._set(self.names_safe, path, inode)
        self.names_now, self.pending = dict(self.names_safe), []
        raise Crash

    @staticmethod
    def _set(names: dict[Path, int], path: Path, inode: int | None) -> None:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode

    def _name(self, path: Path, inode: int | None) -> None:
        self._set(self.names_now, path, inode)
        self.pending.append((path, inode))

    def extend(self, inode: int, data: bytes) -> None:
        """Add at the end of a file, durably."""
        outcome = self.step()
        kept = {"none": 0, "torn": len(data) // 2, "named": len(data) // 2}.get(outcome, len(data))
        self.content[inode] += data[:kept]
        if outcome:
            self.cut(outcome)

    def lock(self, path: Path) -> ModelFile:  # type: ignore[override]
        """Open a file that exists, under a lock."""
        outcome = self.step()
        if outcome:
            self.cut(outcome)
        if path not in self.names_now:
            raise FileNotFoundError(path)
        inode = self.names_now[path]
        if inode in self.locked:
            raise BlockingIOError
        self.locked.add(inode)
        return ModelFile(self, inode, path)

    def lock_folder(self, path: Path) -> ModelFile:  # type: ignore[override]
        """Hold a folder, which has no name of its own on this disk, by a file that is never lost."""
        return ModelFile(self, -1, path)

    def read(self, path: Path) -> bytes | None:
        """Return the content."""
        return self.content[self.names_now[path]] if path in self.names_now else None

    def names(self, folder: Path) -> list[str]:
        """List a folder."""
        return sorted(p.name for p in self.names_now if p.parent == folder)

    def make_folder(self, path: Path) -> None:
        """Do nothing: a folder lost in a crash is like one whose names were lost."""

    def write_new(self, path: Path, data: bytes, *, private: bool = False) -> None:
        """Write a file from its first byte."""
        inode = self.names_now.get(path)
        if inode is None:
            inode = next(self.fresh)
            self._name(path, inode)
        self.content[inode] = b""
        self.extend(inode, data)

    def append(self, path: Path, data: bytes) -> None:
        """Add at the end."""
        self.extend(self.names_now[path], data)

    def truncate(self, path: Path, size: int) -> None:
        """Cut."""
        outcome = self.step()
        if outcome != "none":
            self.content[self.names_now[path]] = self.content[self.names_now[path]][:size]
        if outcome:
            self.cut(outcome)

    def rename(self, source: Path, target: Path) -> None:
        """Give another name."""
        outcome = self.step()
        if outcome != "none":
            inode = self.names_now[source]
            del self.names_now[source]
            self.names_now[target] = inode
            self.pending += [(target, inode), (source, None)]
        if outcome:
            self.cut(outcome)

    def remove(self, path: Path) -> None:
        """Take a name away."""
        outcome = self.step()
        if outcome != "none":
            self._name(path, None)
        if outcome:
            self.cut(outcome)

    def sync_folder(self, folder: Path) -> None:
        """Make names safe."""
        outcome = self.step()
        if outcome:
            self.cut(outcome)
        for path, inode in self.pending:
            if path.parent == folder:
                self._set(self.names_safe, path, inode)
        self.pending = [(p, i) for p, i in self.pending if p.parent != folder]

    def safe(self, path: Path) -> bytes:
        """Return what would be left of a file if the power were cut now, at worst."""
        return self.content[self.names_safe[path]] if path in self.names_safe else b""

    def saved(self, keep: Callable[[Path], bool]) -> dict[Path, bytes]:
        """Return a backup of some files."""
        return {path: self.content[inode] for path, inode in self.names_now.items() if keep(path)}

    def restore(self, keep: Callable[[Path], bool], backup: dict[Path, bytes]) -> None:
        """Put a backup back: the files `keep` names are those of the backup and no others, as new files."""
        for path in [path for path in self.names_now if keep(path)]:
            del self.names_now[path]
        for path, data in backup.items():
            inode = next(self.fresh)
            self.content[inode] = data
            self.names_now[path] = inode
        self.names_safe, self.pending = dict(self.names_now), []


class ModelFile(LockedFile):
    """A locked file of the modelled disk."""

    def __init__(self, disk: ModelDisk, inode: int, path: Path) -> None:
        self.disk, self.inode, self._path = disk, inode, path

    def check_in_place(self) -> None:
        """Raise unless the name still means this file."""
        if self.disk.names_now.get(self._path) != self.inode:
            raise ReplacedError(116, "replaced", str(self._path))

    def read(self) -> bytes:
        """Return the content."""
        return self.disk.content[self.inode]

    def append(self, data: bytes) -> None:
        """Add at the end."""
        self.check_in_place()
        self.disk.extend(self.inode, data)
        self.check_in_place()

    def truncate(self, size: int) -> None:
        """Cut."""
        outcome = self.disk.step()
        if outcome != "none":
            self.disk.content[self.inode] = self.disk.content[self.inode][:size]
        if outcome:
            self.disk.cut(outcome)

    def close(self) -> None:
        """Release the lock."""
        self.disk.locked.discard(self.inode)
