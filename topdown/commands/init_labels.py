"""Ask a person, attribute by attribute, whether labels that records hold are public."""

from __future__ import annotations

import sys

import click

from topdown.columns import shown
from topdown.commands.terminal import can_ask
from topdown.errors import ConfigError
from topdown.screen.console import Screen
from topdown.screen.look import bold


def require_terminal(screen: Screen) -> None:
    """Refuse where nobody can be asked (ConfigError C241); nothing was read."""
    if not can_ask(screen):
        raise ConfigError(
            "labels of records can be confirmed by a person only, and there is no terminal to ask on",
            code="C241",
            fix="write the public labels into a table attribute,label and give it with --codes",
        )


def introduce(screen: Screen, name: str) -> None:
    """Say what is about to be shown."""
    screen.err.line(
        f"Labels of {name} are confidential until you confirm them. They are shown here only; nothing is written "
        "before your last answer. Look at the published list, not at the screen alone."
    )


def ask_column(screen: Screen, column: str, labels: tuple[str, ...]) -> tuple[str, ...] | None:
    """Show the labels of a column, take those that are missing, and ask whether the list is published.

    Returns: the list; None to leave the column out.

    Raises:
        ConfigError: C242 the answer is neither; nothing was written.
        click.Abort: the person left.
    """
    out = screen.err
    out.line()
    if not labels:
        out.line(
            "Column ", bold(shown(column)), " has too many values for a list of labels, or one that cannot be shown as "
            "it is. Press Enter to leave it out: the run file then names it under ignore."
        )  # fmt: skip
        if _answer(screen):
            raise _unconfirmed(column)
        return None
    out.line("Column ", bold(shown(column)), ":")
    out.line(", ".join(f'"{label}"' for label in labels), indent=2)
    out.line("Type a label of the published list that is missing here, one a line; Enter when there is none.")
    added = list[str]()
    while label := _answer(screen):
        if label not in labels and label not in added:
            added.append(label)
    out.line(
        "Is this the whole published list, whoever is in the records? "
        'Type "public" to take it, "skip" to leave the column out.'
    )
    answer = _answer(screen)
    if answer == "skip":
        return None
    if answer != "public":
        raise _unconfirmed(column)
    return (*labels, *added)


def _unconfirmed(column: str) -> ConfigError:
    return ConfigError(
        f"the labels of column {shown(column)!r} were not confirmed",
        code="C242",
        fix="write the public labels into a table attribute,label and give it with --codes; nothing was written",
    )


def _answer(screen: Screen) -> str:
    screen.err.put("> ")
    line = sys.stdin.readline()
    if not line:
        raise click.Abort
    return line.strip()
