"""The command line of pgsr: finds the command, turns every error into a message and an exit code."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from topdown.app.commands.command import version_option
from topdown.app.screens.console import mute_stream, run_program
from topdown.errors import EXIT_INTERRUPTED, InternalError, TopdownError
from topdown.process import signals_as_interrupt

if TYPE_CHECKING:
    from topdown.app.screens.console import Screen

COMMANDS = {
    "ledger": "Make the ledger of a data set, or write down what happened to it.",
    "release": "Release group sizes once, with exact noise and a ledger.",
    "compare": "Compare mechanisms on made-up or own data, with their true epsilon.",
    "audit": "Print derived sensitivities and the real loss of the published chain.",
    "verify": "Check a release from its files alone.",
    "microdata": "Write one row for every group of a release.",
    "synth": "Write made-up counts and regions to practise with.",
    "explain": "Print the page of an error code.",
    "schema": "Print the JSON Schema of a document.",
    "completion": "Print the completion script of a shell.",
}
_MODULES = {
    "ledger": "pgsr.group_commands",
    "release": "pgsr.group_commands",
    "compare": "pgsr.study_commands",
    "audit": "pgsr.study_commands",
    "verify": "pgsr.group_commands",
    "microdata": "pgsr.group_commands",
    "synth": "pgsr.study_commands",
    "explain": "pgsr.study_commands",
    "schema": "pgsr.study_commands",
    "completion": "pgsr.study_commands",
}
_NUMBER = re.compile(r"[0-9]+(/[0-9]+|\.[0-9]+)?")
_LISTS = ("--epsilon", "--shares")


class LazyGroup(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(importlib.import_module(_MODULES[cmd_name]), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands without importing one."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="First: pgsr synth --shape tiny --out practice. Then: pgsr COMMAND --help.",
)
@version_option("pgsr")
def group() -> None:
    """Release the number of groups of every size in every region, private and consistent."""


def spread_lists(arguments: Sequence[str]) -> list[str]:
    """Repeat an option before each of the numbers that follow it: `--epsilon 1 2` means `--epsilon 1 --epsilon 2`."""
    out: list[str] = []
    option = ""
    for argument in arguments:
        if option and out[-1] != option and _NUMBER.fullmatch(argument):
            out.append(option)
        elif not _NUMBER.fullmatch(argument):
            option = argument if argument in _LISTS else ""
        out.append(argument)
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1, 2, 3, 4 or 130; 141 if whoever read the output has left."""
    arguments = spread_lists(sys.argv[1:] if argv is None else argv)

    def call() -> object:
        with signals_as_interrupt():
            return group.main(args=arguments, prog_name="pgsr", standalone_mode=False)

    return run_program(
        call, lambda raised: _stopped(arguments, raised), lambda error: _failed(arguments, error)
    )


def _stopped(arguments: Sequence[str], raised: BaseException) -> int:
    error = InternalError(
        "stopped",
        code="X130",
        fix="run the same command again, with --resume if the ledger was charged: noise is kept",
    )
    _note(error, raised.__cause__ or raised)  # click makes an Abort of every interrupt
    _show(arguments, error, EXIT_INTERRUPTED)
    return EXIT_INTERRUPTED


def _failed(arguments: Sequence[str], raised: Exception) -> int:
    from topdown.app.screens.error_screen import as_topdown

    error = as_topdown(raised, "pgsr")
    _note(error, raised)
    _show(arguments, error, error.exit_code)
    return error.exit_code


def _note(error: TopdownError, raised: BaseException) -> None:
    """Show what a run noted on whatever ended it: what it has spent."""
    for note in getattr(raised, "__notes__", ()):
        key, found, value = note.partition(": ")
        if found and key not in dict(error.details):
            error.details += ((key, value),)


def _show(arguments: Sequence[str], error: TopdownError, exit_code: int) -> None:
    from topdown.app.screens.console import Screen
    from topdown.app.screens.error_screen import show_error

    screen: Screen = Screen.open(ascii_only="--ascii" in arguments, json_only="--json" in arguments)
    if error.code == "X005":
        mute_stream(sys.stdout)
        show_error(screen.err, error)
    elif screen.json:
        screen.document(error.to_json() | {"exit_code": exit_code})
    else:
        show_error(screen.err, error)


if __name__ == "__main__":
    sys.exit(main())
