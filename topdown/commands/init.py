"""`topdown init`: write a run file with everything in it but the answers of people."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen


def _bundled(kind: str) -> list[CompletionItem]:
    from topdown.resources import bundled_names

    return [CompletionItem(name) for name in bundled_names(kind)]


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
    ),
)
@click.option(
    "--records", metavar="FILE", type=click.Path(path_type=Path), required=True, help="Confidential table."
)
@click.option(
    "--leaves", metavar="FILE", type=click.Path(path_type=Path), required=True, help="Public facts."
)
@click.option(
    "--schema",
    default="pl94",
    show_default=True,
    shell_complete=lambda ctx, param, text: [i for i in _bundled("schemas") if i.value.startswith(text)],
    help="Bundled name.",
)
@click.option(
    "--settings",
    default="pl94_2020_marginal_first",
    show_default=True,
    shell_complete=lambda ctx, param, text: [i for i in _bundled("settings") if i.value.startswith(text)],
    help="Bundled name, or a file ending in .toml.",
)
@click.option("--levels", metavar="A,B,...", default="", help="Levels of the geography, root first.")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The run file to write."
)
@click.option(
    "--witness",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the ledger's witness; default: the records', or that of the run file if it is read-only.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(
    screen: Screen,
    *,
    records: Path,
    leaves: Path,
    schema: str,
    settings: str,
    levels: str,
    out: Path,
    witness: Path | None,
    force: bool,
) -> int:
    """Write a complete, commented run file.

    Makes the ledger of its data set too, or joins the one that is there. The tables are not opened. Answers only a
    person can give are marked "?" in it.
    """
    from topdown.documents.init import Init, LedgerPlace
    from topdown.measure.run_ledger import create_for_run
    from topdown.outputs import refuse_needed, refuse_release, write_new
    from topdown.plan.init import Answers, run_file_text
    from topdown.plan.runfile import load_runfile
    from topdown.screen.look import bold

    if out.exists() and not force:
        raise ConfigError(f"{out} exists", code="C080", fix="give another --out, or replace it with --force")
    refuse_needed(out, "--out", (records, leaves))
    refuse_release(out, "--out")
    names = tuple(name.strip() for name in levels.split(",") if name.strip())
    if witness is None and records.parent.is_dir() and not os.access(records.parent, os.W_OK):
        witness = out.parent
    text = run_file_text(schema, settings, records, leaves, out, names, Answers(witness=witness))
    write_new(out, text.encode("utf-8"), force=force)
    place = create_for_run(out) if witness is not None or records.parent.is_dir() else None
    run = load_runfile(out)
    unasked = [f"release.{k}" for k in ("title", "agency", "contact") if getattr(run.release, k) == "?"]
    missing = [str(path) for path in (records, leaves) if not path.is_file()]
    correct = "CORRECT THESE" in text
    screen.document(
        Init(
            run_file=str(out),
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
    for path in missing:
        screen.warn(f"{path} does not exist yet")
    if place is None:
        screen.warn(
            f"no ledger was made: {records.parent} does not exist yet; then: topdown ledger new {out}"
        )
    if correct:
        screen.warn("geography.prefix_lengths is a guess: correct it to the geocodes of your leaves")
    screen.next((f"topdown plan {out}", "what it would measure, at what cost; edit the file first"))
    return EXIT_OK
