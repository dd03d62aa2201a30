"""`topdown schema`: the JSON Schema of a document, or the reference of an input file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen
from topdown.screen.look import bold

if TYPE_CHECKING:
    from msgspec import Struct

    from topdown.documents.reference import Reference


def _names(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    from topdown.api.reference import TITLES
    from topdown.documents import document_names

    del ctx, param
    return [CompletionItem(name) for name in (*document_names(), *TITLES) if name.startswith(text)]


@command(
    "schema",
    examples=(
        ("topdown schema certificate", "Print the schema of certificate.json."),
        ("topdown schema run", "Print what can stand in a run file."),
        ("topdown schema", "List the documents and input files."),
    ),
)
@click.argument("name", required=False, shell_complete=_names)
def schema(screen: Screen, *, name: str | None) -> int:
    """Print the JSON Schema of a document, or the reference of an input file.

    Every file and every --json output that starts with a type has a schema. Input files are run, schema, invariants,
    settings and geography: key, type, default, meaning, example, error codes.
    """
    from topdown.api.reference import TITLES, reference
    from topdown.documents import document_names, document_schema
    from topdown.documents.schemas import Schemas

    wanted = name and name.removeprefix("topdown.")
    if wanted in TITLES:
        return _show_reference(screen, reference(wanted))
    done = show_schemas(
        screen, document_names(), document_schema, wanted, lambda titles: Schemas(schemas=titles)
    )
    if name is None:
        screen.heading("Input files")
        screen.pairs(list(TITLES.items()))
    return done


def _show_reference(screen: Screen, found: Reference) -> int:
    screen.document(found)
    screen.say(found.title)
    for table in found.tables:
        if table.table:
            screen.heading(table.table)
        for key in table.keys:
            default = "needed" if key.required else f"default {key.default}"
            screen.blank()
            codes = f"  {' '.join(key.codes)}" if key.codes else ""
            screen.say(bold(key.key), f"  {key.type}, {default}{codes}", indent=2, hang=6)
            screen.say(key.text, indent=6)
            if key.example:
                screen.say(key.example, indent=6)
    return EXIT_OK


def show_schemas(
    screen: Screen,
    names: Sequence[str],
    schema_of: Callable[[str], dict[str, Any]],
    name: str | None,
    listed: Callable[[dict[str, str]], Struct | dict[str, Any]],
) -> int:
    """Print one schema, or the list of all.

    Args:
        screen: where.
        names: short names of all documents.
        schema_of: makes the schema of one of them.
        name: short name; None for the list.
        listed: makes the JSON document that lists them of titles by name.

    Raises:
        ConfigError: no such document.
    """
    if name is None:
        titles = {each: str(schema_of(each)["title"]) for each in names}
        screen.document(listed(titles))
        screen.pairs(list(titles.items()))
        return EXIT_OK
    if name not in names:
        raise ConfigError(
            f'there is no document "{name}"', code="C089", fix="use one of: " + ", ".join(names)
        )
    import json

    screen.out.put(json.dumps(schema_of(name), indent=2, ensure_ascii=screen.out.look.ascii) + "\n")
    return EXIT_OK
