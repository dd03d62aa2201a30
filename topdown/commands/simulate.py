"""`topdown simulate`: what releases of a plan would look like, on made-up or public records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import topdown
from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown import SimulationErrors


@command(
    "simulate",
    examples=(
        (
            "topdown simulate run.toml --truth persons.csv.gz --out try/ --replicates 9",
            "On made-up records.",
        ),
        (
            "topdown simulate run.toml --truth release/ --out try/ --seed 7 --keep",
            "A published release as truth.",
        ),
    ),
    exits=(0, 2, 3, 130),
)
@click.argument("source", metavar="RUN.toml|plan.json", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--truth",
    metavar="FILE|RELEASE",
    type=click.Path(path_type=Path),
    required=True,
    help="Made-up records, or a published release.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="New folder.",
)
@click.option("--seed", type=int, help="Of the noise; default: 1.")
@click.option("--replicates", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes; default: one a core.")
@click.option("--keep", is_flag=True, help="Also write the microdata of each replicate.")
@click.option(
    "--truth-is-public",
    metavar="REASON",
    default="",
    help="Why an unmarked FILE is public; stamped on the result.",
)
def simulate(
    screen: Screen,
    source: Path,
    *,
    truth: Path,
    out: Path,
    seed: int | None,
    replicates: int,
    workers: int | None,
    keep: bool,
    truth_is_public: str,
) -> int:
    """Show the error that releases of a plan would have.

    Nothing is spent and nothing it writes is a release: the records are made up or public.
    """
    from topdown.commands.solving import cores
    from topdown.screen.bars import follow

    progress = follow(screen)
    try:
        made = topdown.simulate(
            source,
            truth,
            seed=seed,
            replicates=replicates,
            workers=workers or cores(),
            truth_is_public=truth_is_public,
            out=out,
            keep=keep,
            report=progress,
        )
    finally:
        progress.close()
    screen.document(made)
    _show(screen, made, out)
    return EXIT_OK


def _show(screen: Screen, made: SimulationErrors, out: Path) -> None:
    from topdown.screen.layout import Column

    truth = made.truth
    kind = {"made_up": "made-up records", "release": "published release", "public": "public records"}
    screen.say(
        f"{kind[truth.kind]} {truth.name}, {truth.n_records:,} {made.unit}s"
        + (f"; public because: {truth.reason}" if truth.reason else "")
    )
    given = " (the default)" if made.seed_is_default else ""
    screen.say(
        f"Seed {made.seed}{given}, plan {made.plan_hash[:8]}. MAE: mean absolute error of an answer; bias: "
        "mean of released minus true."
    )
    for level in made.levels:
        screen.heading(level.level, f", {level.n_nodes:,} area{'s' if level.n_nodes != 1 else ''}")
        columns = [Column("table", wraps=True), Column("MAE", right=True), Column("±", right=True)]
        rows = [
            [q.query, _number(q.mae), _number(q.mae_standard_error), _number(q.bias, "+")]
            for q in level.queries
        ]
        screen.table([*columns, Column("bias", right=True)], rows)
    n = made.replicates
    screen.last(
        f"{made.stamp}: {n:,} simulated release{'s' if n > 1 else ''}; errors in {out / 'simulation.json'}"
    )


def _number(value: float | None, sign: str = "") -> str:
    if value is None:
        return ""
    digits = 4 if 0 < abs(value) < 0.1 else 2 if abs(value) < 1000 else 0
    return f"{value:{sign if value else ''},.{digits}f}"
