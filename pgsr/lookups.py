"""`pgsr explain`, `schema` and `completion`: pages of error codes, forms of documents, completion of a shell."""

from __future__ import annotations

from pathlib import Path

import click

from pgsr.cli import group
from pgsr.formats import Explain, Schemas, document_names, document_schema
from topdown import __version__
from topdown.app.commands.command import command
from topdown.app.commands.lookup_commands import SHELLS, print_script, show_pages, show_schemas
from topdown.app.help_pages import FAMILIES, Page, pages
from topdown.app.screens.console import Screen

OWN_PAGES = Path(__file__).parent / "explain.toml"


def known_pages() -> dict[str, Page]:
    """Return all pages by code, by family, then number; where both have one, pgsr's is shown."""
    both = pages() | pages(OWN_PAGES)
    order = list(FAMILIES)
    return dict(sorted(both.items(), key=lambda item: (order.index(item[0][0]), item[0])))


@command(
    "explain",
    examples=(
        ("pgsr explain C162", "What the error means, why it is one, how to fix it."),
        ("pgsr explain", "List all codes, those of topdown included."),
    ),
)
@click.argument("code", required=False)
def explain(screen: Screen, *, code: str | None) -> int:
    """Print the page of an error code."""
    return show_pages(
        screen, known_pages(), code, lambda found: Explain(engine=__version__, pages=found), "pgsr"
    )


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
    wanted = name and name.removeprefix("pgsr.").removeprefix("topdown.")
    return show_schemas(
        screen,
        document_names(),
        document_schema,
        wanted,
        lambda titles: Schemas(engine=__version__, schemas=titles),
    )


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
    return print_script(screen, shell, group, "pgsr")
