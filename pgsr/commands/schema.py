"""`pgsr schema`: the JSON Schema of a document."""

from __future__ import annotations

import click

from topdown.commands.base import command
from topdown.commands.schema import show_schemas
from topdown.screen.console import Screen


@command(
    "schema",
    examples=(
        ("pgsr schema certificate", "Print the schema of certificate.json."),
        ("pgsr schema", "List the documents that have one."),
    ),
)
@click.argument("name", required=False)
def schema(screen: Screen, *, name: str | None) -> int:
    """Print the JSON Schema of a document."""
    from pgsr.documents import document_names, document_schema
    from pgsr.documents.schemas import Schemas
    from topdown import __version__

    wanted = name and name.removeprefix("pgsr.").removeprefix("topdown.")
    return show_schemas(
        screen,
        document_names(),
        document_schema,
        wanted,
        lambda titles: Schemas(engine=__version__, schemas=titles),
    )
