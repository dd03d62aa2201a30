"""`topdown evaluate`: the real error of a release, for the secure room only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import topdown
from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

_MAIN = 6  # tables of a level shown without --details


@command(
    "evaluate",
    examples=(
        ("topdown evaluate release/ --truth secure/people.csv.gz", "Error by level, on the screen only."),
        (
            "topdown evaluate release/ --truth p.csv.gz --out secure/error.json",
            "Keep it, readable by its owner only.",
        ),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--truth", metavar="FILE", type=click.Path(path_type=Path), required=True, help="Confidential records."
)
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Also write the JSON document.")
@click.option("--force", is_flag=True, help="Replace the file of --out.")
@click.option("--ignore", metavar="COLUMN", multiple=True, help="A column of the records that is not read.")
@click.option(
    "--column",
    "columns",
    metavar="A=B",
    multiple=True,
    help="Column A is called B in the records; repeatable.",
)
@click.option("--no-count", is_flag=True, help="The records have no column count: each row is one.")
@click.option("--details", is_flag=True, help="All tables, and their answers one by one.")
def evaluate(
    screen: Screen,
    release: Path,
    *,
    truth: Path,
    out: Path | None,
    ignore: tuple[str, ...],
    columns: tuple[str, ...],
    no_count: bool,
    force: bool,
    details: bool,
) -> int:
    """Compare a release with the confidential records.

    The result is CONFIDENTIAL: it is computed from the true records without noise.
    """
    from msgspec import to_builtins

    from topdown.screen.look import Span

    called = dict(pair.split("=", 1) for pair in columns if "=" in pair)
    if len(called) < len(columns):
        raise click.UsageError("--column needs pairs of different columns, as geocode=settlement")
    found = topdown.evaluate(
        release, truth, out=out, force=force, ignore=ignore, count=not no_count, columns=called
    )
    document: dict[str, Any] = to_builtins(found)
    screen.document(document)
    warning = Span(document["heading"], "error")
    screen.say(warning)
    n = document["n_records"]
    screen.say(
        f"Error of {release} against the true records, in {document['unit']}s. Bias: released minus true."
    )
    if any("intervals" in table for level in document["levels"] for table in level["tables"]):
        screen.say("Held: published intervals that hold the true count, of those that are not exact.")
    screen.say(f"{n['released']:,} {document['unit']}s released, {n['true']:,} true.")
    for level in document["levels"]:
        _level(screen, level, warning, details)
    _invariants(screen, document["invariants"], warning)
    saved = f" Written to {out}, readable by its owner only." if out is not None else ""
    screen.blank()
    screen.last(warning, "." + saved, symbol="")
    return EXIT_OK


def _level(screen: Screen, level: dict[str, Any], warning: Any, details: bool) -> None:
    from topdown.screen.layout import Column
    from topdown.screen.look import dim

    screen.heading(
        level["level"], f", {level['n_nodes']:,} area{'s' if level['n_nodes'] != 1 else ''}   ", warning
    )
    asked = sorted(level["tables"], key=lambda table: not table["measured"])
    shown = asked if details else asked[:_MAIN]
    has_intervals = any("intervals" in table for table in level["tables"])
    rows: list[list[str]] = []
    for table in shown:
        rows.append([table["query"], *_figures(table), *([_held(table)] if has_intervals else [])])
        rows += [
            [f"  {answer['label']}", *_figures(answer), *([""] if has_intervals else [])]
            for answer in table.get("answers", ())
            if details
        ]
    names = ("MAE", "RMSE", "bias", "95 %", "max")
    more = ("held",) if has_intervals else ()
    screen.table([Column("table", wraps=True), *(Column(name, right=True) for name in names + more)], rows)
    if len(shown) < len(asked):
        screen.say(dim(f"({len(asked) - len(shown)} more tables: --details)"), indent=4)
    bins = [
        [_range(b["from"], b["to"]), f"{b['n_nodes']:,}", *_figures(b)] for b in level["total_by_population"]
    ]
    columns = [
        Column("total, areas of"),
        Column("areas", right=True),
        *(Column(name, right=True) for name in names),
    ]
    screen.table(columns, bins)


def _invariants(screen: Screen, invariants: dict[str, Any], warning: Any) -> None:
    from topdown.screen.layout import Column

    screen.heading("Invariants", "   ", warning)
    columns = [Column("", wraps=True), Column("exact at", right=True), Column("of", right=True)]
    rows = [[c["name"], f"{c['n_met']:,}", f"{c['n_checked']:,}"] for c in invariants["checks"]]
    screen.table(columns, rows)


def _figures(of: dict[str, Any]) -> list[str]:
    worst = of["quantiles"]
    return [
        _number(of["mae"]),
        _number(of["rmse"]),
        _number(of["bias"], "+"),
        f"{worst['95']:,}",
        f"{worst['max']:,}",
    ]


def _held(table: dict[str, Any]) -> str:
    """Say how many in a hundred intervals hold the true count."""
    of = table.get("intervals", {"n_intervals": 0})
    return f"{100 * of['n_held'] / of['n_intervals']:.1f} %" if of["n_intervals"] else "-"


def _number(value: float, sign: str = "") -> str:
    digits = 4 if 0 < abs(value) < 0.1 else 2 if abs(value) < 1000 else 0
    return f"{value:{sign if value else ''},.{digits}f}"


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,} people or more"
    return f"{low:,} people" if low == high else f"{low:,}-{high:,} people"
