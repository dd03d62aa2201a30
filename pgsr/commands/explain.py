"""`pgsr explain`: the page of an error code."""

from __future__ import annotations

import click

from topdown.commands.base import command
from topdown.commands.explain import show_pages
from topdown.screen.console import Screen


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
    from pgsr.documents.explain import Explain
    from pgsr.pages import known_pages
    from topdown import __version__

    return show_pages(
        screen, known_pages(), code, lambda found: Explain(engine=__version__, pages=found), "pgsr"
    )
