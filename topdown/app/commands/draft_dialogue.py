"""A draft of schema, invariants and settings: labels from a public list, or confirmed by a person."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from topdown.app.commands.command import can_ask
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import bold
from topdown.errors import ConfigError, DataError
from topdown.inputs import TableLocation, containing_file, printable
from topdown.measure import RecordsForm, confirmed_labels
from topdown.model import Attribute, Schema
from topdown.output_paths import is_same_file
from topdown.plan import RunFileAnswers, draft_files, load_schema, load_settings, read_code_list
from topdown.plan.drafts import DraftFiles


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
            "Column ", bold(printable(column)), " has too many values for a list of labels, or one that cannot be "
            "shown as it is. Press Enter to leave it out: the run file then names it under ignore."
        )  # fmt: skip
        if _read_answer(screen):
            raise _unconfirmed_labels(column)
        return None
    out.line("Column ", bold(printable(column)), ":")
    out.line(", ".join(f'"{label}"' for label in labels), indent=2)
    out.line("Type a label of the published list that is missing here, one a line; Enter when there is none.")
    added = list[str]()
    while label := _read_answer(screen):
        if label not in labels and label not in added:
            added.append(label)
    out.line(
        "Is this the whole published list, whoever is in the records? "
        'Type "public" to take it, "skip" to leave the column out.'
    )
    answer = _read_answer(screen)
    if answer == "skip":
        return None
    if answer != "public":
        raise _unconfirmed_labels(column)
    return (*labels, *added)


def _unconfirmed_labels(column: str) -> ConfigError:
    return ConfigError(
        f"the labels of column {printable(column)!r} were not confirmed",
        code="C242",
        fix="write the public labels into a table attribute,label and give it with --codes; nothing was written",
    )


def _read_answer(screen: Screen) -> str:
    screen.err.put("> ")
    line = sys.stdin.readline()
    if not line:
        raise click.Abort
    return line.strip()


@dataclass(frozen=True)
class DraftRequest:
    """What is to be drafted.

    Args:
        codes: the public list. given: a schema file. If both are None, a person is asked.
        name: of the schema, where it is drafted. levels: root first. no_count: each row is one record.
    """

    codes: Path | None
    given: Path | None
    name: str
    levels: tuple[str, ...]
    no_count: bool


@dataclass(frozen=True)
class Drafted:
    """What was drafted: texts, name of the schema, and columns of the tables that are not read."""

    draft: DraftFiles
    name: str
    ignore: tuple[str, ...]


def settings_beside(schema: str) -> tuple[str | None, Path | None]:
    """Return settings for a schema file: those that lie beside it, or none and the file, for which they are drafted.

    None and None for a bundled schema, and for one that the usual settings are for.
    """
    path = Path(schema)
    if path.suffix != ".toml" or not path.is_file():
        return None, None
    name, beside = load_schema(path).name, path.parent / "settings.toml"
    if beside.is_file() and load_settings(beside).schema == name:
        return str(beside), None
    return (None, None) if name == "pl94" else (None, path)


def drafted_by(
    screen: Screen, wish: DraftRequest, records: TableLocation, answers: RunFileAnswers
) -> Drafted:
    """Return the draft. Nothing is written.

    Raises:
        ConfigError: C139 no levels, C241 nobody can be asked, C242 labels were not confirmed.
        DataError: D065 the list is wrong, or is the table of records; as `confirmed_labels`.
        click.Abort: the person left.
    """
    if wish.codes is not None and is_same_file(wish.codes, containing_file(records)):
        raise DataError(
            f"{wish.codes} is the table of records, and labels are never taken from records",
            code="D065",
            fix="write the public labels into a table attribute,label",
        )
    if not wish.levels:
        raise ConfigError(
            "a schema of your own needs --levels", code="C139", fix="name them, root first: --levels A,B,C"
        )
    if wish.given is not None:
        schema = load_schema(wish.given)
        return Drafted(draft_files(schema, wish.levels, ""), schema.name, answers.ignore)
    if wish.codes is not None:
        schema, source = read_code_list(wish.codes, wish.name), wish.codes.name
        return Drafted(
            draft_files(schema, wish.levels, f"drafted by topdown init from {source}"),
            wish.name,
            answers.ignore,
        )
    require_terminal(screen)
    introduce(screen, records.name)
    form = RecordsForm(answers.ignore, not wish.no_count, dict(answers.called))
    found = confirmed_labels(records, form, lambda column, labels: ask_column(screen, column, labels))
    attributes = tuple(Attribute(name, labels) for name, labels in found.labels.items())
    schema = Schema(wish.name, wish.name, "person", attributes)
    source = "drafted by topdown init; a person confirmed that these labels are public"
    return Drafted(draft_files(schema, wish.levels, source), wish.name, (*answers.ignore, *found.left_out))
