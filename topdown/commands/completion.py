"""`topdown completion`: the completion script of a shell."""

from __future__ import annotations

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen


@command(
    "completion",
    examples=(
        ('eval "$(topdown completion bash)"', "Complete in this bash; put it in ~/.bashrc to keep it."),
        ("topdown completion fish > ~/.config/fish/completions/topdown.fish", "Install it for fish."),
    ),
    json_option=False,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(screen: Screen, *, shell: str) -> int:
    """Print the completion script of a shell.

    It completes commands, options, bundled names and error codes.
    """
    from click.shell_completion import get_completion_class

    from topdown.cli import group

    found = get_completion_class(shell)
    if found is None:
        raise LookupError(shell)
    screen.out.put(found(group, {}, "topdown", "_TOPDOWN_COMPLETE").source() + "\n")
    return EXIT_OK
