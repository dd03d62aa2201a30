"""A command line: finds a command without importing the others, and ends every run with a message and an exit code.

Both programs are values of `Program`: their commands are a table of sections, each with names, what the command does,
and the module with its function NAME_command.
"""

from __future__ import annotations

import difflib
import importlib
import os
import resource
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import click

from topdown import __version__
from topdown.app.commands.command import HelpContext, StoppedRun, said_when_stopped
from topdown.app.screens.console import Screen, mute_stream, run_program, write_or_drop
from topdown.app.screens.error_screen import as_topdown, show_error
from topdown.errors import EXIT_INTERRUPTED, SPEND_NOTE, InternalError, TopdownError

LEAST_ADDRESS_BYTES = 2**30  # of a process with the libraries; with 400 MB, OpenBLAS asks again and again
_LOOKUPS = "lookup_commands"  # they need no library
Commands = Mapping[str, Mapping[str, tuple[str, str]]]
"""Title of a section -> command as typed -> (what it does, module of the package with its function NAME_command)."""


@dataclass(frozen=True)
class Program:
    """A program with commands.

    Args:
        name: as typed.
        about: the first sentence of its help.
        first: the last line of its help: what to do first.
        package: where the modules are that declare commands.
        commands: see `Commands`.
        stopped: the error that says what an interrupt means: text and fix.
        read: changes arguments before they are parsed.
    """

    name: str
    about: str
    first: str
    package: str
    commands: Commands
    stopped: tuple[str, str]
    read: Callable[[Sequence[str]], list[str]] = list

    @cached_property
    def group(self) -> click.Group:
        """The commands for click, each imported when it is called."""
        listed = _ListedGroup(
            self.name,
            help=self.about,
            epilog=self.first,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        listed.package, listed.sections = self.package, self.commands
        group: click.Group = click.version_option(
            __version__, prog_name=self.name, message="%(prog)s %(version)s", help="Print the version."
        )(listed)
        return group

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run one command and return its exit code: 0 .. 5 or 130; 141 if whoever read the output has left."""
        arguments = self.read(sys.argv[1:] if argv is None else argv)
        said_when_stopped.set(None)
        return run_program(
            lambda: self.group.main(args=arguments, prog_name=self.name, standalone_mode=False),
            lambda raised: self._interrupted(arguments, raised),
            lambda raised: self._failed(arguments, raised),
        )

    def _interrupted(self, arguments: Sequence[str], raised: BaseException) -> int:
        """Say what is spent and how to go on, in one place for every command."""
        say = said_when_stopped.get()
        said = StoppedRun(*self.stopped) if say is None else say()
        spent = (("spent", said.spent),) if said.spent else ()
        error = InternalError(said.text, code="X130", fix=said.fix, details=spent)
        if say is None:
            return _show(arguments, error, _interrupt_behind(raised), EXIT_INTERRUPTED)
        screen = _screen(arguments)
        screen.document(error.to_json() | {"exit_code": EXIT_INTERRUPTED})
        if not screen.json:
            screen.err.line(said.text)
            if said.go_on:
                screen.err.line("Go on, with the same noise:")
                screen.err.commands([(said.go_on, "")])
            else:
                screen.err.line(said.fix[0].upper() + said.fix[1:] + ".")
        return EXIT_INTERRUPTED

    def _failed(self, arguments: Sequence[str], raised: Exception) -> int:
        error = as_topdown(raised, self.name)
        return _show(arguments, error, raised, error.exit_code)


class _ListedGroup(click.Group):
    """A group that imports a command only when it is called."""

    context_class = HelpContext
    package: str
    sections: Commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the help."""
        del ctx
        return [name for listed in self.sections.values() for name in listed]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        for listed in self.sections.values():
            if cmd_name in listed:
                if listed[cmd_name][1] != _LOOKUPS:
                    # with less memory a library would end the process, or ask for more without an end
                    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
                    if allowed != resource.RLIM_INFINITY and allowed < LEAST_ADDRESS_BYTES:
                        raise InternalError(
                            f"this process may use {allowed // 2**20:,} MiB of address space, and the libraries need "
                            f"{LEAST_ADDRESS_BYTES // 2**20:,}",
                            code="X131",
                            fix=f"allow more: ulimit -v {LEAST_ADDRESS_BYTES // 2**10}; nothing was spent",
                        )
                module = importlib.import_module(f"{self.package}.{listed[cmd_name][1]}")
                found: click.Command = getattr(module, f"{cmd_name}_command")
                return found
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the one that was probably meant."""
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            close = difflib.get_close_matches(args[0], names, n=1)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            raise click.UsageError(f'there is no command "{args[0]}"{hint}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section without importing one."""
        del ctx
        for title, listed in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, about) for name, (about, _) in listed.items()])


def _interrupt_behind(raised: BaseException) -> BaseException:
    """Return the exception that carries the notes: click and libraries hide the interrupt behind their own."""
    found: BaseException | None = raised
    while found is not None:
        if getattr(found, "__notes__", ()):
            return found
        found = found.__cause__ or found.__context__
    return raised


def _show(arguments: Sequence[str], error: TopdownError, raised: BaseException, exit_code: int) -> int:
    """Show an error with the notes of what ended the run: what it has spent; return the exit code."""
    for note in getattr(raised, "__notes__", ()):
        key = SPEND_NOTE.removesuffix(": ")
        if note.startswith(SPEND_NOTE) and key not in dict(error.details):
            error.details += ((key, note.removeprefix(SPEND_NOTE)),)
    screen = _screen(arguments)
    if error.code == "X005":
        mute_stream(sys.stdout)
        show_error(screen.err, error)
    elif screen.json:
        screen.document(error.to_json() | {"exit_code": exit_code})
    else:
        show_error(screen.err, error)
        if error.code == "X001" and os.environ.get("TOPDOWN_DEBUG") == "1":
            places = "".join(traceback.format_tb(raised.__traceback__))
            write_or_drop(sys.stderr, f"{places}{type(raised).__name__}\n")
    return exit_code


def _screen(arguments: Sequence[str]) -> Screen:
    color: Any = "auto"
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if argument.startswith("--color=") or before == "--color":
            color = argument.removeprefix("--color=")
    known = color in ("auto", "always", "never")
    return Screen.open(
        color=color if known else "auto", ascii_only="--ascii" in arguments, json_only="--json" in arguments
    )
