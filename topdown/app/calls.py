"""What public functions share: paths, errors of the disk, what a run has spent, whether a folder is a release."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from topdown import inputs
from topdown import workers as executors
from topdown.errors import ConfigError, disk_error
from topdown.file_names import checked_path
from topdown.formats.report_parts import LANGUAGES
from topdown.made_up import refuse_simulation
from topdown.progress import Report, open_report

if TYPE_CHECKING:
    from topdown.inputs import ArrowTable, MemoryTable
    from topdown.workers import ExecutorChoice


P = ParamSpec("P")
R = TypeVar("R")
PathText = str | os.PathLike[str]


def public_function(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function raise what the disk refuses as DataError D050, with its notes, and `report` be a class of bars."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if "report" not in kwargs:
                return function(*args, **kwargs)
            with open_report(cast("Report", kwargs["report"])) as kwargs["report"]:
                return function(*args, **kwargs)
        except OSError as error:
            raise disk_error(error) from None

    return call


def path_of(path: PathText, what: str) -> Path:
    """Return a path; ConfigError C136 if no file system takes it."""
    checked_path(os.fspath(path), what)
    return Path(path)


def leaves_in_memory(table: ArrowTable | None, what: str) -> MemoryTable | None:
    """Return a table in memory in a box that shows nothing of it; ConfigError C250 if it is no table."""
    return None if table is None else inputs.MemoryTable(table, what)


def records_source(given: PathText | ArrowTable, what: str) -> Path | MemoryTable:
    """Return the path of a table, or a table in memory in its box; ConfigError C136 or C250 if it is neither."""
    if isinstance(given, str | os.PathLike):
        return path_of(given, what)
    return inputs.MemoryTable(given, what)


def checked_workers(workers: ExecutorChoice) -> ExecutorChoice:
    """Return where to solve; ConfigError C005 if that is nowhere, C230 or C231 if Ray cannot be used."""
    if workers == "ray":
        executors.require_ray()
        return workers
    return on_this_machine(workers)


def on_this_machine(workers: int) -> int:
    """Return a number of processes; ConfigError C005 if there are none."""
    if not isinstance(workers, int) or workers < 1:
        raise ConfigError(f"cannot work with {workers} workers", code="C005", fix='give 1 or more, or "ray"')
    return workers


def checked_language(language: str | None) -> str | None:
    """Return the language of a report; ConfigError C005 if there are no words in it."""
    if language is not None and language not in LANGUAGES:
        raise ConfigError(
            f"there is no report in the language {language!r}",
            code="C005",
            fix=f"use one of: {', '.join(LANGUAGES)}",
        )
    return language


FIRST_PART = "microdata/persons/part-000.parquet"


def require_finished(folder: Path) -> None:
    """Refuse a folder that is no finished release (C088), or holds a simulation (C122)."""
    require_release(folder)
    for name in ("manifest.json", "plan.json", "certificate.json"):
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder} is not a finished release: it has no {name}",
                code="C088",
                fix="resume the run that writes it, or copy the whole release",
                file=str(folder / name),
            )


def require_release(folder: Path) -> None:
    """Refuse a path that is no release folder at all (C088); what is wrong inside is for verify to say."""
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}", code="C088", fix="give the folder of a release")
    refuse_simulation(folder)
    if not any(
        (folder / name).is_file()
        for name in ("manifest.json", "certificate.json", "microdata/persons.parquet", FIRST_PART)
    ):
        raise ConfigError(
            f"{folder} is not a release: it has neither manifest.json nor certificate.json",
            code="C088",
            fix="give the folder that topdown generate wrote",
        )
