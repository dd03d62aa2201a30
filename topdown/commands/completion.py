"""`topdown completion`: the completion script of a shell."""

from __future__ import annotations

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    examples=(
        ('eval "$(topdown completion bash)"', "Complete in this bash; put it in ~/.bashrc to keep it."),
        ("topdown completion fish > ~/.config/fish/completions/topdown.fish", "Install it for fish."),
    ),
    json_option=False,
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(screen: Screen, *, shell: str) -> int:
    """Print the completion script of a shell.

    It completes commands, options, bundled names and error codes.
    """
    from topdown.cli import group

    return print_script(screen, shell, group, "topdown")


def print_script(screen: Screen, shell: str, group: click.Group, program: str) -> int:
    """Print the script that makes a shell complete a program.

    Args:
        shell: one of `SHELLS`. group: the program's commands. program: as typed.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise LookupError(shell)
    screen.out.put(found(group, {}, program, f"_{program.upper()}_COMPLETE").source() + "\n")
    return EXIT_OK
