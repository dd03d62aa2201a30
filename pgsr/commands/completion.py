"""`pgsr completion`: the completion script of a shell."""

from __future__ import annotations

import click

from topdown.commands.base import command
from topdown.commands.completion import SHELLS, print_script
from topdown.screen.console import Screen


@command(
    "completion",
    examples=(
        ('eval "$(pgsr completion bash)"', "Complete in this bash; put it in ~/.bashrc to keep it."),
        ("pgsr completion fish > ~/.config/fish/completions/pgsr.fish", "Install it for fish."),
    ),
    json_option=False,
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(screen: Screen, *, shell: str) -> int:
    """Print the completion script of a shell.

    It completes commands and options.
    """
    from pgsr.cli import group

    return print_script(screen, shell, group, "pgsr")
