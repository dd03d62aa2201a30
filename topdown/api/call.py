"""What public functions share: paths as text or Path, and errors of the disk as errors of this package."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from topdown.errors import ConfigError, disk_error
from topdown.names import checked_path
from topdown.progress import Report, told

if TYPE_CHECKING:
    from topdown.frames import ArrowTable, HeldTable
    from topdown.workers import Where

P = ParamSpec("P")
R = TypeVar("R")
PathText = str | os.PathLike[str]


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function raise what the disk refuses as DataError D050, with its notes, and `report` be a class of bars."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if "report" not in kwargs:
                return function(*args, **kwargs)
            with told(cast("Report", kwargs["report"])) as kwargs["report"]:
                return function(*args, **kwargs)
        except OSError as error:
            shown = disk_error(error)
            for note in getattr(error, "__notes__", ()):
                shown.add_note(note)
            raise shown from None

    return call


def place(path: PathText, what: str) -> Path:
    """Return a path; ConfigError C136 if no file system takes it."""
    checked_path(os.fspath(path), what)
    return Path(path)


def held(table: ArrowTable | None, what: str) -> HeldTable | None:
    """Return a table in memory in a box that shows nothing of it; ConfigError C250 if it is no table."""
    from topdown.frames import HeldTable

    return None if table is None else HeldTable(table, what)


def source(given: PathText | ArrowTable, what: str) -> Path | HeldTable:
    """Return the path of a table, or a table in memory in its box; ConfigError C136 or C250 if it is neither."""
    if isinstance(given, str | os.PathLike):
        return place(given, what)
    from topdown.frames import HeldTable

    return HeldTable(given, what)


def checked(workers: Where) -> Where:
    """Return where to solve; ConfigError C005 if that is nowhere, C230 or C231 if Ray cannot be used."""
    if workers == "ray":
        from topdown.workers.ray import require_ray

        require_ray()
        return workers
    return on_this_machine(workers)


def on_this_machine(workers: int) -> int:
    """Return a number of processes; ConfigError C005 if there are none."""
    if not isinstance(workers, int) or workers < 1:
        raise ConfigError(f"cannot work with {workers} workers", code="C005", fix='give 1 or more, or "ray"')
    return workers
