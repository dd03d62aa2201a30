"""`topdown init`: write a run file with everything in it but the answers of people."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import ANY_PATH, FOLDER
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import bold
from topdown.errors import EXIT_OK, ConfigError, quoted
from topdown.file_names import checked_path
from topdown.formats.command_documents import Init, LedgerPlace
from topdown.inputs.sources import containing_file, locate_table
from topdown.output_paths import refuse_irreplaceable, refuse_needed, refuse_release, write_new
from topdown.resources import bundled_names, find

if TYPE_CHECKING:
    from topdown.inputs import TableLocation


DRAFTED = ("schema.toml", "invariants.toml", "settings.toml")
MOST_LINES = 60  # of what would change that are shown, a file


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
    groups={
        "Tables": ("records", "leaves", "no_count", "levels"),
        "Schema and settings": ("schema", "settings", "codes", "ask_labels"),
    },
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
    type=ANY_PATH,
    help="Public table attribute, label (and recode, group): draft schema, invariants and settings from it.",
)
@click.option(
    "--ask-labels",
    is_flag=True,
    help="Draft from labels of the records; on a terminal you confirm that each list of them is public.",
)
@click.option("--no-count", is_flag=True, help="Each row of the records is one record.")
@click.option(
    "--levels",
    metavar="A,B,...",
    default="",
    help="Levels, root first; LEVEL=COLUMN names the column of its codes, LEVEL=5 the characters of the geocode.",
)
@click.option("--out", metavar="FILE", type=ANY_PATH, required=True, help="The run file to write.")
@click.option(
    "--registry",
    metavar="DIR",
    type=FOLDER,
    help="Folder of the ledger's registry; default: the records', or that of the run file if it is read-only.",
)
@click.option("--force", is_flag=True, help="Replace existing files; a copy of each is kept beside it.")
def init_command(
    screen: Screen,
    *,
    records: str,
    leaves: str,
    levels: str,
    out: Path,
    registry: Path | None,
    force: bool,
    **words: Any,
) -> int:
    """Write a complete, commented run file.

    Makes the ledger of its data set too, or joins the one that is there. Of the records only the names of the columns
    are read, but for --ask-labels: labels come from a bundled schema, from --codes or from your answers, levels from
    you. Columns of the levels are looked for in the leaves. Answers only a person can give are marked "?".
    """
    asked = _Asked(app.levels_asked(levels), out, **words)
    if asked.codes is not None and asked.ask_labels:
        raise click.UsageError("labels come from --codes or from --ask-labels, not from both")
    for option, text in (("--records", records), ("--leaves", leaves)):
        checked_path(text, option)
    tables = secret, public = locate_table(records), locate_table(leaves)
    near = containing_file(secret).parent  # of the registry, if nothing else is said
    refuse_needed(out, "--out", map(containing_file, tables))
    refuse_release(out, "--out")
    if registry is None and near.is_dir() and not os.access(near, os.W_OK):
        registry = out.parent
    files, told = _drafted(screen, asked, secret, public, registry)
    files[out] = app.with_ledger_id(out, files[out])
    makes_ledger = registry is not None or near.is_dir()
    for there in filter(Path.exists, files):
        refuse_irreplaceable(there)
    if makes_ledger:
        app.refuse_second_ledger(out, files[out], _unit_of(files))
    _write_files(screen, files, force=force)
    place = app.create_run_ledger(out) if makes_ledger else None
    run = app.load_run_file(out)
    unasked = [f"release.{k}" for k in ("title", "agency", "contact") if getattr(run.release, k) == "?"]
    missing = [str(table) for table in tables if not table.is_file()]
    drafted = [str(path) for path in files if path != out]
    screen.document(
        Init(
            run_file=str(out),
            drafted=drafted,
            open_answers=unasked,
            missing_files=missing,
            found=list(told),
            ledger=None if place is None else LedgerPlace(id=place.id, path=str(place.path)),
        )
    )
    for sentence in told:
        screen.say(sentence, hang=2)
    marked = f'. {len(unasked)} answers only a person can give are marked "?" in it:' if unasked else ""
    screen.last("Wrote ", bold(str(out)), marked)
    if unasked:
        screen.say("  ".join(unasked), indent=2)
    if drafted:
        screen.say("Drafted ", ", ".join(drafted), ": read them; labels and levels must be public.")
    for path in missing:
        screen.warn(f"{path} does not exist yet")
    if place is None:
        screen.warn(f"no ledger was made: {near} does not exist yet; then: topdown ledger new {quoted(out)}")
    screen.next((f"topdown plan {quoted(out)}", "what it would measure, at what cost; edit the file first"))
    return EXIT_OK


@dataclass(frozen=True)
class _Asked:
    """What the options say."""

    levels: dict[str, str]
    out: Path
    schema: str | None
    settings: str | None
    codes: Path | None
    ask_labels: bool
    no_count: bool


def _drafted(
    screen: Screen, asked: _Asked, records: TableLocation, leaves: TableLocation, registry: Path | None
) -> tuple[dict[Path, str], tuple[str, ...]]:
    """Return the texts of all files, the run file last, and what was found in the tables."""
    settings, given = asked.settings, None  # given: a schema file for which the other files are drafted
    own = asked.codes is not None or asked.ask_labels
    if not own and asked.schema is not None and settings is None:
        settings, given = app.settings_beside(asked.schema)
    if own or given is not None:
        out, levels = asked.out, tuple(asked.levels)
        request = app.DraftRequest(asked.codes, given, asked.schema or "own", levels)
        app.check_request(screen, request, records)
        found = app.read_leaves_columns(leaves, records, asked.levels, no_count=asked.no_count)
        ours = app.drafted_by(screen, request, records, found)
        answers = app.ignoring_the_rest(replace(found.answers, ignore=ours.ignore), records, ours.schema)
        where = DRAFTED[0] if given is None else os.path.relpath(given.resolve(), out.resolve().parent)
        answers = replace(
            answers, title="?", schema=where, invariants=DRAFTED[1], values=ours.values, registry=registry
        )
        text = app.run_file_text(
            ours.schema.name,
            DRAFTED[2],
            records,
            leaves,
            out,
            levels,
            answers,
            settings_text=ours.draft.settings,
        )
        bodies = (ours.draft.schema, ours.draft.invariants, ours.draft.settings)
        drafts = dict(zip(DRAFTED, bodies, strict=True))
        if given is not None:
            del drafts[DRAFTED[0]]
        return {out.parent / name: body for name, body in drafts.items()} | {out: text}, found.told
    return _bundled_draft(asked, records, leaves, settings or "pl94_2020_tree", registry)


def _bundled_draft(
    asked: _Asked, records: TableLocation, leaves: TableLocation, settings: str, registry: Path | None
) -> tuple[dict[Path, str], tuple[str, ...]]:
    out, path = asked.out, find("settings", settings, Path.cwd())
    schema, answers = _levels_named(asked.schema or "pl94", out)
    chosen = app.load_settings(path)
    levels = asked.levels or dict.fromkeys(app.default_levels(chosen), "")
    names, files, told = tuple(levels), dict[Path, str](), list[str]()
    if schema == chosen.schema:  # else the draft says what is wrong
        found = app.read_leaves_columns(leaves, records, levels, no_count=asked.no_count)
        told += found.told
        answers = replace(found.answers, schema=answers.schema, registry=registry)
        held = app.load_schema(find("schemas", asked.schema or "pl94", Path.cwd()))
        if not chosen.extends:
            fitting = app.fitting_invariants(chosen, held, names, path.parent)
            answers = app.ignoring_the_rest(answers, records, held, fitting.invariants)
            if fitting.text:
                files[out.parent / DRAFTED[1]] = fitting.text
                answers = replace(answers, invariants=DRAFTED[1])
                told.append(
                    f"Left out of the invariants, because the geography lacks their level: "
                    f"{', '.join(fitting.left_out)}. {DRAFTED[1]} has the others."
                )
    files[out] = app.run_file_text(schema, settings, records, leaves, out, names, answers)
    return files, tuple(told)


def _unit_of(files: Mapping[Path, str]) -> str | None:
    """Return whose answers are protected, by the schema that is drafted; None if none is."""
    drafted = [text for path, text in files.items() if path.name == DRAFTED[0]]
    return tomllib.loads(drafted[0])["unit"] if drafted else None


def _write_files(screen: Screen, files: dict[Path, str], *, force: bool) -> None:
    """Write files; one that is there and differs is shown and kept, or copied before it is replaced."""
    changed = {
        path: lines for path, text in files.items() if path.exists() and (lines := app.changes_to(path, text))
    }
    for lines in changed.values():
        for line in lines[:MOST_LINES]:
            screen.say(line, hang=2)
        if len(lines) > MOST_LINES:
            screen.say(f"... and {len(lines) - MOST_LINES} more lines")
    if changed and not force:
        raise ConfigError(
            f"{', '.join(map(str, changed))} would change; nothing was written",
            code="C080",
            fix="give another --out, or replace what is there with --force: copies of it are kept",
        )
    for path in changed:
        copy = app.kept_copy(path)
        write_new(copy, path.read_bytes(), force=False)
        screen.say("Kept what was there as ", str(copy), ".")
    for path, text in files.items():
        if path in changed or not path.exists():
            write_new(path, text.encode("utf-8"), force=force)


def _levels_named(schema: str, out: Path) -> tuple[str, app.RunFileAnswers]:
    """Return the name of a schema that is given as a file, and how the run file calls the file."""
    if not schema.endswith(".toml"):
        return schema, app.RunFileAnswers()
    path = Path(schema)
    if not path.is_file():
        raise ConfigError(f"{schema} does not exist", code="C003", fix="give a schema file")
    beside = os.path.relpath(path.resolve(), out.resolve().parent)
    return app.load_schema(path).name, app.RunFileAnswers(schema=beside)
