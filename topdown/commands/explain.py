"""`topdown explain`: the page of an error code."""

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

    from topdown.documents.explain import ErrorPage
    from topdown.explain import Page


def _codes(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    from topdown.explain import pages

    del ctx, param
    return [
        CompletionItem(code, help=page.title)
        for code, page in pages().items()
        if code.startswith(text.upper())
    ]


@command(
    "explain",
    examples=(
        ("topdown explain B004", "What the error means, why it is one, how to fix it."),
        ("topdown explain", "List all codes."),
    ),
)
@click.argument("code", required=False, shell_complete=_codes)
def explain(screen: Screen, *, code: str | None) -> int:
    """Print the page of an error code."""
    from topdown.documents.explain import Explain
    from topdown.explain import pages

    return show_pages(screen, pages(), code, lambda found: Explain(pages=found), "topdown")


def show_pages(
    screen: Screen,
    known: Mapping[str, Page],
    code: str | None,
    listed: Callable[[list[ErrorPage]], Struct | dict[str, Any]],
    program: str,
) -> int:
    """Print one page, or the list of all, on a screen or as JSON.

    Args:
        screen: where.
        known: pages by code.
        code: as typed, in any case; None for the list.
        listed: makes the JSON document of the pages shown.
        program: name of the console command.

    Raises:
        ConfigError: no such code.
    """
    from topdown.documents.explain import ErrorPage
    from topdown.explain import FAMILIES
    from topdown.screen.look import bold, dim

    if code is None:
        screen.document(listed([ErrorPage(code=c, **vars(p)) for c, p in known.items()]))
        for letter, family in FAMILIES.items():
            screen.say(bold(letter), f"  {family}")
            screen.pairs([(dim(c), page.title) for c, page in known.items() if c[0] == letter])
        return EXIT_OK
    page = known.get(code.upper())
    if page is None:
        raise ConfigError(
            f'there is no error code "{code}"', code="C089", fix=f"list all codes with: {program} explain"
        )
    screen.document(listed([ErrorPage(code=code.upper(), **vars(page))]))
    screen.last(bold(code.upper()), "  ", page.title, symbol="")
    screen.blank()
    screen.pairs([(dim("kind"), FAMILIES[code.upper()[0]]), (dim("why"), page.why), (dim("fix"), page.fix)])
    if page.example and screen.talks:
        screen.blank()
        for line in page.example.strip("\n").splitlines():
            screen.out.raw(("    ", line))
    return EXIT_OK
