"""`topdown schema`: the JSON Schema of a document."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen


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

    known = document_names()
    if name is None:
        titles = {n: str(document_schema(n)["title"]) for n in known}
        screen.document({"type": "topdown.schemas", "version": 1, "schemas": titles})
        screen.pairs(list(titles.items()))
        return EXIT_OK
    wanted = name.removeprefix("topdown.")
    if wanted not in known:
        raise ConfigError(
            f'there is no document "{name}"', code="C089", fix="use one of: " + ", ".join(known)
        )
    import json

    screen.out.stream.write(
        json.dumps(document_schema(wanted), indent=2, ensure_ascii=screen.out.look.ascii) + "\n"
    )
    return EXIT_OK
