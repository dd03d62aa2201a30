"""Options that several commands have: where a command solves, and the path of a picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topdown.app.commands.command import Option, packed, with_options
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.workers import ExecutorChoice


class Picture(click.Path):
    """An option's path of a picture, which is SVG and says so."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; refuse one that ends otherwise, whose program would find no picture in it."""
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if path.suffix.lower() != ".svg":
            self.fail(f"{path} does not end in .svg, and pictures are drawn as SVG.", param, ctx)
        return path


def cores() -> int:
    """Return the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


ANY_PATH = click.Path(path_type=Path)
FILE, FOLDER = click.Path(path_type=Path, dir_okay=False), click.Path(path_type=Path, file_okay=False)
FILE_THERE = click.Path(path_type=Path, dir_okay=False, exists=True)
FOLDER_THERE = click.Path(path_type=Path, file_okay=False, exists=True)
"""Types of options and arguments that are paths."""


@dataclass(frozen=True)
class Solving:
    """Where a command solves: so many processes of this machine, or a cluster."""

    workers: int | None
    on: str

    @property
    def executor(self) -> ExecutorChoice:
        """Where to solve; ConfigError C005 if the two options exclude each other."""
        if self.on == "here":
            return self.workers or cores()
        if self.workers is not None:
            raise ConfigError(
                "--workers counts processes of this machine; --on ray takes the whole cluster",
                code="C005",
                fix="leave one of the two out",
            )
        return "ray"

    @property
    def text(self) -> str:
        """The option as it stands in a command line that goes on with a run."""
        return " --on ray" if self.on == "ray" else ""


def solving_options(workers: str, on: str) -> Option:
    """Return a decorator that gives a command these options, as one argument `solving`."""
    options = with_options(
        click.option("--workers", type=click.IntRange(1, 1024), help=workers),
        click.option("--on", type=click.Choice(["here", "ray"]), default="here", help=on),
    )
    return lambda function: options(packed("solving", Solving)(function))


base_option = click.option(
    "--base", metavar="RELEASE", type=FOLDER_THERE, help="The published release that the run extends."
)
truth_is_public = click.option(
    "--truth-is-public",
    metavar="REASON",
    default="",
    help="Why an unmarked file is public; stamped on the result.",
)
