"""`topdown tables`: a release as files that spreadsheets, map and statistics programs read."""

from __future__ import annotations

from pathlib import Path

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen


@command(
    "tables",
    examples=(
        ("topdown tables release/ --out tables/", "Every attribute and recode, at every level."),
        (
            "topdown tables release/ --areas districts.csv --by sex,age --out districts/",
            "Districts of your own.",
        ),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), required=True, help="A new folder.")
@click.option(
    "--by", metavar="A,B", multiple=True, help="A table of these attributes or recodes; may be repeated."
)
@click.option("--level", "levels", metavar="NAME", multiple=True, help="Only this level; may be repeated.")
@click.option(
    "--areas",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Table geocode, and area if there are several unions: these instead of levels.",
)
@click.option(
    "--names", metavar="FILE", type=click.Path(path_type=Path), help="Table geocode, name; more is not read."
)
@click.option("--coverage", metavar="A/B", help="Chance of intervals, exact; default: the plan's, if any.")
def tables(
    screen: Screen,
    release: Path,
    *,
    out: Path,
    by: tuple[str, ...],
    levels: tuple[str, ...],
    areas: Path | None,
    names: Path | None,
    coverage: str | None,
) -> int:
    """Write tables of a release for ordinary programs.

    CSV with every area, names and intervals, a dictionary, codes, datapackage.json, and wide tables for maps. Reads
    published files only; costs no privacy.
    """
    from topdown.api.tables import tables as write
    from topdown.screen.look import bold

    made = write(release, out, by=by, levels=levels, areas=areas, names=names, coverage=coverage)
    screen.document(made)
    n_tables = sum(not table.wide for table in made.tables)
    screen.last("Wrote ", bold(made.out), f": {n_tables:,} tables, {made.n_files:,} files")
    rows = [
        ("tables/, areas/", "one row an area and answer"),
        ("wide/", "one row an area, for maps"),
        ("dictionary.csv", "what every column says"),
        ("codes.csv", "labels and their groups"),
        ("datapackage.json", "the same for programs"),
    ]
    screen.pairs(rows)
    if made.meaning:
        screen.say(made.meaning)
    return EXIT_OK
