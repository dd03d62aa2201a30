"""`topdown interval`: intervals for counts of any union of areas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.documents.interval import IntervalsOfUnion

MOST_SHOWN = 40  # answers of a union on the screen


@command(
    "interval",
    examples=(
        ("topdown interval release/ --areas districts.csv --query total", "Population of each district."),
        (
            'topdown interval release/ --areas a.csv --query "age * sex" --json',
            "Every answer, as one document.",
        ),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--areas",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="Table geocode, and area if there are several unions.",
)
@click.option("--query", metavar="QUERY", required=True, help='Such as "total", or attributes joined by *.')
@click.option("--coverage", metavar="A/B", help="Chance, exact; the plan's, or 19/20.")
def interval(screen: Screen, release: Path, *, areas: Path, query: str, coverage: str | None) -> int:
    """Print intervals for counts of any union of areas.

    Made from all measurements of a release; intervals in its tables cannot be added up. Costs no privacy.
    """
    from topdown.api.interval import interval as find

    found = find(release, areas, query, coverage=coverage)
    screen.document(found)
    for union in found.unions:
        _show(screen, union)
    screen.blank()
    screen.last(found.meaning, symbol="")
    return EXIT_OK


def _show(screen: Screen, union: IntervalsOfUnion) -> None:
    from topdown.screen.layout import Column
    from topdown.screen.look import dim

    areas = f"{union.n_areas:,} area{'' if union.n_areas == 1 else 's'}"
    screen.heading(union.area, f", {areas}, {union.n_leaves:,} of the lowest level")
    rows = [
        [
            ", ".join(at.labels.values()) or "all",
            f"{at.count:,}",
            f"{at.estimate:,.3f}",
            f"{at.stddev:,.3f}",
            f"{at.low:,}",
            f"{at.high:,}",
            at.basis,
        ]
        for at in union.answers[:MOST_SHOWN]
    ]
    names = ("count", "estimate", "stddev", "low", "high")
    columns = [Column("", wraps=True), *(Column(name, right=True) for name in names), Column("basis")]
    screen.table(columns, rows)
    if len(union.answers) > MOST_SHOWN:
        screen.say(dim(f"({len(union.answers) - MOST_SHOWN:,} more answers: --json)"), indent=4)
