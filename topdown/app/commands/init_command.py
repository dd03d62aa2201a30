"""`topdown init`: write a run file with everything in it but the answers of people."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from topdown import app
from topdown.app.commands.command import command
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import bold
from topdown.errors import EXIT_OK, ConfigError
from topdown.formats.command_documents import Init, LedgerPlace
from topdown.inputs.sources import containing_file, locate_table
from topdown.output_paths import checked_path, refuse_existing, refuse_needed, refuse_release, write_new
from topdown.resources import bundled_names

if TYPE_CHECKING:
    from topdown.inputs import TableLocation


DRAFTED = ("schema.toml", "invariants.toml", "settings.toml")


def _bundled_or_file(kind: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in bundled_names(kind)]


def _complete_files(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    del ctx, param
    return [CompletionItem(text, type="file")]


@command(
    "init",
    examples=(
        (
            "topdown init --records people.csv.gz --leaves blocks.csv --out run.toml",
            "Start with the 2020 settings.",
        ),
        (
            "topdown init --settings my.toml --records p.csv --leaves l.csv --out r.toml",
            "Settings of your own.",
        ),
        (
            "topdown init --codes codes.csv --levels country,region,town ...",
            "A schema of your own, drafted from a public list of codes.",
        ),
    ),
)
@click.option(
    "--records",
    metavar="TABLE",
    required=True,
    shell_complete=_complete_files,
    help='Confidential file, or "sqlite:FILE?table=NAME".',
)
@click.option(
    "--leaves",
    metavar="TABLE",
    required=True,
    shell_complete=_complete_files,
    help="Public facts, in the same forms.",
)
@click.option(
    "--schema",
    shell_complete=lambda ctx, param, text: [
        i for i in _bundled_or_file("schemas") if i.value.startswith(text)
    ],
    help="Bundled name (default: pl94), or a file ending in .toml; in a draft the name of yours (default: own).",
)
@click.option(
    "--settings",
    shell_complete=lambda ctx, param, text: [
        i for i in _bundled_or_file("settings") if i.value.startswith(text)
    ],
    help="Bundled name (default: pl94_2020_tree), or a file ending in .toml; drafted for a schema file without any.",
)
@click.option(
    "--codes",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Public table attribute, label (and recode, group): draft schema, invariants and settings from it.",
)
@click.option(
    "--ask-labels",
    is_flag=True,
    help="Draft from labels of the records; on a terminal you confirm that each list of them is public.",
)
@click.option("--no-count", is_flag=True, help="Each row of the records is one record.")
@click.option("--levels", metavar="A,B,...", default="", help="Levels of the geography, root first.")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The run file to write."
)
@click.option(
    "--registry",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the ledger's registry; default: the records', or that of the run file if it is read-only.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(
    screen: Screen,
    *,
    records: str,
    leaves: str,
    schema: str | None,
    settings: str | None,
    codes: Path | None,
    ask_labels: bool,
    no_count: bool,
    levels: str,
    out: Path,
    registry: Path | None,
    force: bool,
) -> int:
    """Write a complete, commented run file.

    Makes the ledger of its data set too, or joins the one that is there. The records are not opened, but for
    --ask-labels: labels come from a bundled schema, from --codes or from your answers, levels from you. Answers only a
    person can give are marked "?" in it.
    """
    if out.exists() and not force:
        raise ConfigError(f"{out} exists", code="C080", fix="give another --out, or replace it with --force")
    if codes is not None and ask_labels:
        raise click.UsageError("labels come from --codes or from --ask-labels, not from both")
    for option, text in (("--records", records), ("--leaves", leaves)):
        checked_path(text, option)
    tables = secret, public = locate_table(records), locate_table(leaves)
    near = containing_file(secret).parent  # of the registry, if nothing else is said
    given = None  # a schema file for which invariants and settings are drafted
    if codes is None and not ask_labels and schema is not None and settings is None:
        settings, given = app.settings_beside(schema)
    left = DRAFTED if codes is not None or ask_labels else DRAFTED[1:] if given is not None else ()
    drafted = tuple(str(out.parent / name) for name in left)
    for name in drafted:
        refuse_existing(Path(name), force=force)
    refuse_needed(out, "--out", map(containing_file, tables))
    refuse_release(out, "--out")
    names = tuple(name.strip() for name in levels.split(",") if name.strip())
    if registry is None and near.is_dir() and not os.access(near, os.W_OK):
        registry = out.parent
    answers = replace(_from_leaves(public, names), registry=registry, has_count=not no_count)
    bodies: tuple[str, ...] = ()
    if drafted:
        wish = app.DraftRequest(codes, given, schema or "own", names, no_count)
        ours = app.drafted_by(screen, wish, secret, answers)
        bodies = (ours.draft.schema, ours.draft.invariants, ours.draft.settings)[-len(drafted) :]
        where = DRAFTED[0] if given is None else os.path.relpath(given.resolve(), out.resolve().parent)
        answers = replace(answers, title="?", schema=where, invariants=DRAFTED[1], ignore=ours.ignore)
        text = app.run_file_text(
            ours.name, DRAFTED[2], secret, public, out, names, answers, settings_text=ours.draft.settings
        )
    else:
        schema, answers = _levels_named(schema or "pl94", answers, out)
        settings = settings or "pl94_2020_tree"
        text = app.run_file_text(schema, settings, secret, public, out, names, answers)
    for path, body in zip(drafted, bodies, strict=True):
        write_new(Path(path), body.encode("utf-8"), force=force)
    write_new(out, text.encode("utf-8"), force=force)
    place = app.create_run_ledger(out) if registry is not None or near.is_dir() else None
    run = app.load_run_file(out)
    unasked = [f"release.{k}" for k in ("title", "agency", "contact") if getattr(run.release, k) == "?"]
    missing = [str(table) for table in tables if not table.is_file()]
    correct = "CORRECT THESE" in text
    screen.document(
        Init(
            run_file=str(out),
            drafted=list(drafted),
            open_answers=unasked,
            missing_files=missing,
            check_prefix_lengths=correct,
            ledger=None if place is None else LedgerPlace(id=place.id, path=str(place.path)),
        )
    )
    marked = f'. {len(unasked)} answers only a person can give are marked "?" in it:' if unasked else ""
    screen.last("Wrote ", bold(str(out)), marked)
    if unasked:
        screen.say("  ".join(unasked), indent=2)
    if drafted:
        screen.say("Drafted ", ", ".join(drafted), ": read them; labels and levels must be public.")
    for path in missing:
        screen.warn(f"{path} does not exist yet")
    if place is None:
        screen.warn(f"no ledger was made: {near} does not exist yet; then: topdown ledger new {out}")
    if correct:
        screen.warn("geography.prefix_lengths is a guess: correct it to the geocodes of your leaves")
    screen.next((f"topdown plan {out}", "what it would measure, at what cost; edit the file first"))
    return EXIT_OK


def _from_leaves(leaves: TableLocation, levels: tuple[str, ...]) -> app.RunFileAnswers:
    """Say what the header of the public table of leaves tells of levels and names of columns."""
    header = app.header_if_readable(leaves)  # plan says what is wrong
    above = levels[:1] if levels[:1] and levels[0] in header else ()  # else the root is everything
    columns = (*above, *levels[1:-1])
    if len(levels) < 2 or not columns or not set(columns) <= set(header):
        return app.RunFileAnswers()
    renamed = "geocode" not in header and levels[-1] in header
    key = levels[-1] if renamed else "geocode"
    others = tuple(name for name in header if name not in (*columns, key))
    return app.RunFileAnswers(columns=columns, called=(("geocode", key),) if renamed else (), ignore=others)


def _levels_named(schema: str, answers: app.RunFileAnswers, out: Path) -> tuple[str, app.RunFileAnswers]:
    """Return the name of a schema that is given as a file, and how the run file calls the file."""
    if not schema.endswith(".toml"):
        return schema, answers
    path = Path(schema)
    if not path.is_file():
        raise ConfigError(f"{schema} does not exist", code="C003", fix="give a schema file")
    return app.load_schema(path).name, replace(
        answers, schema=os.path.relpath(path.resolve(), out.resolve().parent)
    )
