"""`topdown explain`, `schema` and `completion`: pages of error codes, forms of documents, completion of a shell."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from topdown import app
from topdown.app.commands.command import Command, command
from topdown.app.help_pages import FAMILIES, TITLES, pages
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import bold, dim
from topdown.cli import group
from topdown.errors import EXIT_OK, ConfigError
from topdown.formats.command_documents import ErrorPage, Explain, Schemas
from topdown.formats.json_schema import document_names, document_schema

if TYPE_CHECKING:
    from topdown.app.help_pages import Page


def _complete_codes(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
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
@click.argument("code", required=False, shell_complete=_complete_codes)
def explain_command(screen: Screen, *, code: str | None) -> int:
    """Print the page of an error code."""
    return show_pages(screen, pages(), code, "topdown")


def show_pages(screen: Screen, known: Mapping[str, Page], code: str | None, program: str) -> int:
    """Print one page, or the list of all, on a screen or as JSON.

    Raises:
        ConfigError: no such code.
    """
    if code is None:
        screen.document(Explain(pages=[ErrorPage(code=c, **vars(p)) for c, p in known.items()]))
        for letter, family in FAMILIES.items():
            screen.say(bold(letter), f"  {family}")
            screen.pairs([(dim(c), page.title) for c, page in known.items() if c[0] == letter])
        return EXIT_OK
    page = known.get(code.upper())
    if page is None:
        raise ConfigError(
            f'there is no error code "{code}"', code="C089", fix=f"list all codes with: {program} explain"
        )
    screen.document(Explain(pages=[ErrorPage(code=code.upper(), **vars(page))]))
    screen.last(bold(code.upper()), "  ", page.title, symbol="")
    screen.blank()
    screen.pairs([(dim("kind"), FAMILIES[code.upper()[0]]), (dim("why"), page.why), (dim("fix"), page.fix)])
    if page.example and screen.talks:
        screen.blank()
        for line in page.example.strip("\n").splitlines():
            screen.out.raw(("    ", line))
    return EXIT_OK


def _complete_names(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
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
@click.argument("name", required=False, shell_complete=_complete_names)
def schema_command(screen: Screen, *, name: str | None) -> int:
    """Print the JSON Schema of a document, or the reference of an input file.

    Every file and every --json output that starts with a type has a schema. Input files are run, schema, invariants,
    settings and geography: key, type, default, meaning, example, error codes.
    """
    wanted = name and name.removeprefix("topdown.")
    if wanted in TITLES:
        found = app.reference(wanted)
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
    done = show_schemas(screen, document_names(), document_schema, wanted)
    if name is None:
        screen.heading("Input files")
        screen.pairs(list(TITLES.items()))
    return done


def show_schemas(
    screen: Screen, names: Sequence[str], schema_of: Callable[[str], dict[str, Any]], name: str | None
) -> int:
    """Print one schema, or the list of all.

    Raises:
        ConfigError: no such document.
    """
    if name is None:
        titles = {each: str(schema_of(each)["title"]) for each in names}
        screen.document(Schemas(schemas=titles))
        screen.pairs(list(titles.items()))
        return EXIT_OK
    if name not in names:
        raise ConfigError(
            f'there is no document "{name}"', code="C089", fix="use one of: " + ", ".join(names)
        )
    screen.out.put(json.dumps(schema_of(name), indent=2, ensure_ascii=screen.out.look.ascii) + "\n")
    return EXIT_OK


def completion_of(group: click.Group, program: str, what: str) -> Command:
    """Return the command that prints the script which makes a shell complete a program."""

    @command(
        "completion",
        examples=(
            (
                f'eval "$({program} completion bash)"',
                "Complete in this bash; put it in ~/.bashrc to keep it.",
            ),
            (
                f"{program} completion fish > ~/.config/fish/completions/{program}.fish",
                "Install it for fish.",
            ),
        ),
        json_option=False,
    )
    @click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
    def made(screen: Screen, *, shell: str) -> int:
        found = get_completion_class(shell)
        if found is None:
            raise LookupError(shell)
        screen.out.put(found(group, {}, program, f"_{program.upper()}_COMPLETE").source() + "\n")
        return EXIT_OK

    made.help = f"Print the completion script of a shell.\n\nIt completes {what}."
    return made


completion_command = completion_of(group, "topdown", "commands, options, bundled names and error codes")
