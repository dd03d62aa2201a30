"""`topdown schema`: the JSON Schema of a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from msgspec import Struct


def _names(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    from topdown.documents import document_names

    del ctx, param
    return [CompletionItem(name) for name in document_names() if name.startswith(text)]


@command(
    "schema",
    examples=(
        ("topdown schema certificate", "Print the schema of certificate.json."),
        ("topdown schema", "List the documents that have one."),
    ),
)
@click.argument("name", required=False, shell_complete=_names)
def schema(screen: Screen, *, name: str | None) -> int:
    """Print the JSON Schema of a document.

    Every file and every --json output that starts with a type has one.
    """
    from topdown.documents import document_names, document_schema
    from topdown.documents.schemas import Schemas

    wanted = name and name.removeprefix("topdown.")
    return show_schemas(
        screen, document_names(), document_schema, wanted, lambda titles: Schemas(schemas=titles)
    )


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
