"""What all commands share: options of every screen, help with examples and exit codes, what an interrupt says."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any

import click

from topdown.app.screens.console import Screen
from topdown.file_names import checked_path

Option = Callable[[Callable[..., int]], Callable[..., int]]  # of click
_MOST_COLUMNS, _LEAST_NAME = 80, 16
_OF_SCREENS = {"as_json", "ascii_only", "color", "quiet", "verbose"}  # options of every command
_CHOSEN = "topdown.action"  # in the context: the action that a command line names
_EXITS = {
    0: "ok",
    1: "a check failed",
    2: "user error; nothing was spent",
    3: "the constraints contradict each other",
    4: "internal error",
    5: "the plan differs from the saved one (--exit-code)",
    130: "interrupted; the message says what is spent",
}


MEANT = {
    "--epsilon": "--budget-for",
    "--eps": "--epsilon",
    "--budget": "--budget-for",
    "--output": "--out",
    "--output-dir": "--out",
    "--directory": "--out",
    "--folder": "--out",
    "--data": "--records",
    "--input": "--records",
    "--microdata": "--truth",
    "--geography": "--leaves",
    "--areas-file": "--areas",
    "--threads": "--workers",
    "--jobs": "--workers",
    "--processes": "--workers",
    "--cores": "--workers",
    "--overwrite": "--force",
    "--replace": "--force",
    "--approve-all": "--yes",
    "--repeats": "--replicates",
    "--runs": "--replicates",
    "--rng": "--seed",
    "--random-state": "--seed",
    "--confidence": "--coverage",
    "--lang": "--language",
    "--diff-with": "--diff",
    "--baseline": "--compare",
    "--continue": "--resume",
}
"""Words that people type for an option, and the option that means it; said where a command has it."""


class _HelpFormatter(click.HelpFormatter):
    """Help as wide as the screen, 80 columns at most; on a narrow one names of options take a third of a line."""

    def __init__(self) -> None:
        super().__init__(width=min(shutil.get_terminal_size().columns, _MOST_COLUMNS) - 2)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names with what they mean."""
        super().write_dl(list(rows), min(col_max, max(self.width // 3, _LEAST_NAME)), col_spacing)


class HelpContext(click.Context):
    """What a command line is read in."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return what writes the help."""
        return _HelpFormatter()


class Command(click.Command):
    """A command whose help ends with examples and exit codes, with its options in groups where it has some.

    Args:
        examples: at least two (command line, what it does).
        exits: exit codes it can end with.
        groups: options by title, by their names in the function; those that the command lacks are left out. Options of
            no group are in a list of their own, those of every screen in the last one.
        action: argument whose value is the title of the one group that a command line takes; "" for none.
    """

    def __init__(
        self,
        *args: Any,
        examples: tuple[tuple[str, str], ...],
        exits: tuple[int, ...],
        groups: Mapping[str, Sequence[str]] = {},
        action: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples, self.exits = examples, exits
        self.groups, self.action = groups, action

    context_class = HelpContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a command line; of an option that is not there, name the one that means it."""
        chosen = [arg for arg in args if arg in self.groups] if self.action else []
        ctx.meta[_CHOSEN] = chosen[:1]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = {option for parameter in self.params for option in parameter.opts}
            meant = MEANT.get(error.option_name)
            if meant not in known:
                raise
            said = f"No such option '{error.option_name}'. Did you mean {meant}?"
            raise click.NoSuchOption(error.option_name, said, ctx=ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the action that was named, or of all, by group."""
        chosen = ctx.meta.get(_CHOSEN) or list(self.groups)
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        rows = {p.name: row for p in options if (row := p.get_help_record(ctx)) is not None}
        shared = _OF_SCREENS | {p.name for p in options if "--help" in p.opts}
        grouped = {name for names in self.groups.values() for name in names} | shared
        parts = {title: self.groups[title] for title in chosen}
        own = {"Options": [name for name in rows if name not in grouped]}
        parts = (
            {f"Options of {title}": names for title, names in parts.items()} | own
            if self.action
            else own | parts
        )
        for title, names in (parts | {"Of every command": [name for name in rows if name in shared]}).items():
            if found := [rows[name] for name in names if name in rows]:
                with formatter.section(title):
                    formatter.write_dl(found)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit codes."""
        del ctx
        with formatter.section("Examples"):
            for line, what in self.examples:
                formatter.write(f"  {line}\n")
                formatter.write_text(f"    {what}")
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), _EXITS[code]) for code in self.exits])


def command(
    name: str,
    *,
    examples: tuple[tuple[str, str], ...],
    exits: tuple[int, ...] = (0, 2),
    json_option: bool = True,
    groups: Mapping[str, Sequence[str]] = {},
    action: str = "",
) -> Callable[[Callable[..., int]], Command]:
    """Make a function a command; it gets a Screen first and returns its exit code."""

    def make(function: Callable[..., int]) -> Command:
        names: dict[str, str] = {}

        @functools.wraps(function)
        def run(
            *,
            as_json: bool = False,
            ascii_only: bool = False,
            color: Any = "auto",
            quiet: bool = False,
            verbose: bool = False,
            **options: Any,
        ) -> int:
            screen = Screen.open(
                color=color, ascii_only=ascii_only, quiet=quiet, verbose=verbose, json_only=as_json
            )
            for name, value in options.items():
                for path in value if isinstance(value, tuple) else (value,):
                    if isinstance(path, os.PathLike):
                        checked_path(os.fspath(path), names.get(name, name))
            return function(screen, **options)

        make_command = click.command(
            name, cls=Command, examples=examples, exits=exits, groups=groups, action=action
        )
        made = make_command(with_options(*_screen_options(json_option))(run))
        for parameter in made.params:
            kind: Any = parameter.type
            if type(kind) is click.IntRange:
                parameter.type = _WholeRange(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
            elif type(kind) is click.types.IntParamType:
                parameter.type = _Whole()
        # the shared options last
        names.update({p.name: p.get_error_hint(None) for p in made.params if p.name})
        made.params.sort(key=lambda p: p.name in _OF_SCREENS)
        return made

    return make


class _Whole(click.types.IntParamType):
    """A whole number in plain digits; Python also takes "+1", "1_0" and the digits of other scripts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not re.fullmatch("-?[0-9]+", value):
            self.fail(f"{value!r} is not a whole number in the digits 0 to 9.", param, ctx)
        return super().convert(value, param, ctx)


class _WholeRange(click.IntRange):
    """The same of a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_Whole().convert(value, param, ctx), param, ctx)


@dataclass(frozen=True)
class StoppedRun:
    """What an interrupted command says.

    Args:
        spent: exact loss or words; "" if the text says all.
        go_on: a command line to copy, "" if none.
    """

    text: str
    fix: str
    spent: str = ""
    go_on: str = ""


said_when_stopped: ContextVar[Callable[[], StoppedRun] | None] = ContextVar("said_when_stopped", default=None)
"""Set by a command that may spend, before it does: asks the ledger, whenever the command was stopped."""


def with_options(*options: Option) -> Option:
    """Return a decorator that gives a command these options, in this order."""

    def give(function: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(options):
            function = option(function)
        return function

    return give


def packed(name: str, value: type[Any]) -> Option:
    """Return a decorator that hands options to a command as one value."""

    def make(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> int:
            packed_value = value(**{field.name: options.pop(field.name) for field in fields(value)})
            return function(*args, **{name: packed_value}, **options)

        return call

    return make


def _screen_options(json_option: bool) -> list[Option]:
    as_json = click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document, also for errors."
    )
    return [
        *([as_json] if json_option else []),
        click.option("-q", "--quiet", is_flag=True, help="Print only the last line."),
        click.option("-v", "--verbose", is_flag=True, help="Print more detail."),
        click.option("--ascii", "ascii_only", is_flag=True, help="Use words instead of symbols."),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="When to use colour.",
        ),
    ]


def can_ask(screen: Screen) -> bool:
    """Tell whether answers come from a terminal, and questions are seen on one."""
    return sys.stdin.isatty() and screen.err.stream.isatty()
