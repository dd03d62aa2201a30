"""`topdown schema`: the JSON Schema of a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    known = {n: document_schema(n) for n in document_names()}
    wanted = name and name.removeprefix("topdown.")
    return show_schemas(screen, known, wanted, lambda titles: Schemas(schemas=titles))


def show_schemas(
    screen: Screen,
    known: Mapping[str, dict[str, Any]],
    name: str | None,
    listed: Callable[[dict[str, str]], Struct | dict[str, Any]],
) -> int:
    """Print one schema, or the list of all.

    Args:
        screen: where.
        known: schemas by short name.
        name: short name; None for the list.
        listed: makes the JSON document that lists them of titles by name.

    Raises:
        ConfigError: no such document.
    """
    if name is None:
        titles = {n: str(found["title"]) for n, found in known.items()}
        screen.document(listed(titles))
        screen.pairs(list(titles.items()))
        return EXIT_OK
    if name not in known:
        raise ConfigError(
            f'there is no document "{name}"', code="C089", fix="use one of: " + ", ".join(known)
        )
    import json

    screen.out.put(json.dumps(known[name], indent=2, ensure_ascii=screen.out.look.ascii) + "\n")
    return EXIT_OK
