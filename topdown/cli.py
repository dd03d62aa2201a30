"""The command line: finds the command, runs it, turns every error into a message and an exit code."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from topdown.app.calls import SPEND_NOTE
from topdown.app.commands.command import version_option
from topdown.app.screens.console import mute_stream, run_program, write_or_drop
from topdown.errors import EXIT_INTERRUPTED, InternalError
from topdown.process import signals_as_interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topdown.app.screens.console import Screen

COMMANDS: dict[str, dict[str, str]] = {
    "Make a release": {
        "demo": "Make and check a release of a made-up county.",
        "init": "Write a complete, commented run file.",
        "ledger": "Make the ledger of a data set, or write down what happened to it.",
        "plan": "Show what a release would measure, at what cost; spend nothing.",
        "tune": "Write a run file with shares that suit the tree estimate.",
        "generate": "Spend the budget once and write the release.",
        "measure": "Spend the budget once and write noisy answers only.",
        "resolve": "Solve the measurement of a release in another way.",
        "extend": "Extend a release by new attributes and keep its table.",
        "select": "Make a private choice from the records and charge it to the ledger.",
        "synth": "Write made-up records and areas to practise with.",
        "simulate": "Show the error that releases of a plan would have.",
    },
    "Check a release": {
        "verify": "Check a release from its files alone.",
        "audit": "Compute the exact privacy loss of a plan or release.",
        "evaluate": "Compare a release with the confidential records.",
        "interval": "Print intervals for counts of any union of areas.",
        "tables": "Write tables of a release for ordinary programs.",
    },
    "Look things up": {
        "account": "Compute the exact privacy loss of composed measurements.",
        "noise": "Make the best noise for one answer, with its proof.",
        "explain": "Print the page of an error code.",
        "implied": "Show what invariants imply for areas above the leaves.",
        "schema": "Print the JSON Schema of a document, or the reference of an input file.",
        "completion": "Print the completion script of a shell.",
    },
}
_MODULES = {
    "demo": "topdown.app.commands.demo_command",
    "init": "topdown.app.commands.init_command",
    "ledger": "topdown.app.commands.ledger_command",
    "plan": "topdown.app.commands.plan_commands",
    "tune": "topdown.app.commands.plan_commands",
    "generate": "topdown.app.commands.release_commands",
    "measure": "topdown.app.commands.release_commands",
    "resolve": "topdown.app.commands.release_commands",
    "extend": "topdown.app.commands.release_commands",
    "select": "topdown.app.commands.select_command",
    "synth": "topdown.app.commands.practice_commands",
    "simulate": "topdown.app.commands.practice_commands",
    "verify": "topdown.app.commands.check_commands",
    "audit": "topdown.app.commands.audit_command",
    "evaluate": "topdown.app.commands.check_commands",
    "interval": "topdown.app.commands.check_commands",
    "tables": "topdown.app.commands.check_commands",
    "account": "topdown.app.commands.account_command",
    "noise": "topdown.app.commands.noise_command",
    "explain": "topdown.app.commands.lookup_commands",
    "implied": "topdown.app.commands.implied_command",
    "schema": "topdown.app.commands.lookup_commands",
    "completion": "topdown.app.commands.lookup_commands",
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the help."""
        del ctx
        return [name for names in COMMANDS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = getattr(importlib.import_module(_MODULES[cmd_name]), cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the one that was probably meant."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            raise click.UsageError(f'there is no command "{args[0]}"{hint}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by purpose without importing one."""
        del ctx
        for title, names in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(names.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="First: topdown demo. Then: topdown COMMAND --help.",
)
@version_option("topdown")
def group() -> None:
    """Make private, consistent census releases, and check them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; 141 if whoever read the output has left."""
    arguments = list(sys.argv[1:] if argv is None else argv)

    def call() -> object:
        with signals_as_interrupt():
            return group.main(args=arguments, prog_name="topdown", standalone_mode=False)

    return run_program(call, lambda _: _interrupted(arguments), lambda error: _fail(arguments, error))


def _interrupted(arguments: list[str]) -> int:
    text = "stopped before anything was spent"
    fix = "run the command again when you are ready"
    error = InternalError(text, code="X130", fix=fix)
    screen = _screen(arguments)
    if screen.json:
        screen.document(error.to_json() | {"exit_code": EXIT_INTERRUPTED})
    else:
        screen.err.raw(())
        screen.err.line("Stopped. Nothing is spent.")
    return EXIT_INTERRUPTED


def _fail(arguments: list[str], error: Exception) -> int:
    from topdown.app.screens.error_screen import as_topdown, show_error

    shown = as_topdown(error, "topdown")
    notes = [note for note in getattr(error, "__notes__", []) if note.startswith(SPEND_NOTE)]
    if "this run spent" not in dict(shown.details):
        shown.details += tuple(("this run spent", note.removeprefix(SPEND_NOTE)) for note in notes)
    screen = _screen(arguments)
    if shown.code == "X005":
        mute_stream(sys.stdout)
        show_error(screen.err, shown)
    elif screen.json:
        screen.document(shown.to_json())
    else:
        show_error(screen.err, shown)
        if shown.code == "X001" and os.environ.get("TOPDOWN_DEBUG") == "1":
            _traceback(error)
    return shown.exit_code


def _traceback(error: Exception) -> None:
    import traceback

    places = "".join(traceback.format_tb(error.__traceback__))
    write_or_drop(sys.stderr, f"{places}{type(error).__name__}\n")


def _screen(arguments: list[str]) -> Screen:
    from topdown.app.screens.console import Screen

    color: Any = "auto"
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if argument.startswith("--color=") or before == "--color":
            color = argument.removeprefix("--color=")
    known = color in ("auto", "always", "never")
    return Screen.open(
        color=color if known else "auto", ascii_only="--ascii" in arguments, json_only="--json" in arguments
    )


if __name__ == "__main__":
    sys.exit(main())
