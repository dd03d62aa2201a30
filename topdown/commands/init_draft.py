"""A draft of schema, invariants and settings: labels from a public list, or confirmed by a person."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topdown.commands.init_labels import ask_column, introduce, require_terminal
from topdown.errors import ConfigError, DataError
from topdown.measure.labels import confirmed_labels
from topdown.measure.records import Form
from topdown.model.schema import Attribute, Schema
from topdown.outputs import same
from topdown.plan.draft import Draft, draft, read_codes
from topdown.plan.files import load_schema, load_settings
from topdown.plan.init import Answers
from topdown.screen.console import Screen
from topdown.stores.place import Table, file_of


@dataclass(frozen=True)
class DraftWish:
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

    draft: Draft
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


def drafted_by(screen: Screen, wish: DraftWish, records: Table, answers: Answers) -> Drafted:
    """Return the draft. Nothing is written.

    Raises:
        ConfigError: C139 no levels, C241 nobody can be asked, C242 labels were not confirmed.
        DataError: D065 the list is wrong, or is the table of records; as `confirmed_labels`.
        click.Abort: the person left.
    """
    if wish.codes is not None and same(wish.codes, file_of(records)):
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
        return Drafted(draft(schema, wish.levels, ""), schema.name, answers.ignore)
    if wish.codes is not None:
        schema, source = read_codes(wish.codes, wish.name), wish.codes.name
        return Drafted(
            draft(schema, wish.levels, f"drafted by topdown init from {source}"), wish.name, answers.ignore
        )
    require_terminal(screen)
    introduce(screen, records.name)
    form = Form(answers.ignore, not wish.no_count, dict(answers.called))
    found = confirmed_labels(records, form, lambda column, labels: ask_column(screen, column, labels))
    attributes = tuple(Attribute(name, labels) for name, labels in found.labels.items())
    schema = Schema(wish.name, wish.name, "person", attributes)
    source = "drafted by topdown init; a person confirmed that these labels are public"
    return Drafted(draft(schema, wish.levels, source), wish.name, (*answers.ignore, *found.left_out))
