"""`pgsr microdata`: one row a group, from a release."""

from __future__ import annotations

from pathlib import Path

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen


@command(
    "microdata",
    examples=(
        ("pgsr microdata release/ --out groups.parquet", "One row a released group: unit, region, size."),
        (
            "pgsr microdata release/ --out groups.parquet --json",
            "How many groups and members, for a program.",
        ),
    ),
    exits=(0, 2),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New Parquet file.")
def microdata(screen: Screen, *, folder: Path, out: Path) -> int:
    """Write one row for every group of a release, after every check. Reads published files only; costs nothing."""
    from pgsr.documents.microdata import Microdata
    from pgsr.microdata import write_groups
    from topdown import __version__
    from topdown.screen.look import OK

    made = write_groups(folder, out)
    exact = made.sizes.too_large == "refuse"
    screen.document(
        Microdata(
            engine=__version__,
            folder=str(folder),
            file=str(out),
            groups=made.n_groups,
            members=made.n_members,
            members_exact=exact,
        )
    )
    largest = "" if exact else f" at least: size {made.sizes.largest} means {made.sizes.largest} or more"
    screen.say(f"{made.n_groups:,} groups with {made.n_members:,} members{largest}.")
    screen.last(f"Groups of {folder} written to {out}", symbol=OK)
    return EXIT_OK
