"""What commands that solve share: options and words for where they do it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from topdown.commands.base import with_options
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.workers import Where

solving_options = with_options(
    click.option(
        "--workers", type=click.IntRange(1, 1024), help="Processes for solving; default: one a core."
    ),
    click.option(
        "--on", type=click.Choice(["here", "ray"]), default="here", help="Solve here, or on a Ray cluster."
    ),
)
"""So many processes of this machine, or a cluster; `where` reads both."""


def cores() -> int:
    """Return the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def where(workers: int | None, on: str) -> Where:
    """Return where to solve by two options; ConfigError C005 if they exclude each other."""
    if on == "here":
        return workers or cores()
    if workers is not None:
        raise ConfigError(
            "--workers counts processes of this machine; --on ray takes the whole cluster",
            code="C005",
            fix="leave one of the two out",
        )
    return "ray"


def on_text(on: str) -> str:
    """Return the option as it stands in a command line."""
    return " --on ray" if on == "ray" else ""
