"""`topdown synth` and `topdown simulate`: made-up censuses, and what releases of a plan would look like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

import topdown
from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import ANY_PATH, FILE, FOLDER, cores, truth_is_public
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import Column, bold, numbers
from topdown.errors import EXIT_OK, quoted
from topdown.formats.command_documents import LevelSize, Synth
from topdown.output_paths import refuse_existing

if TYPE_CHECKING:
    from topdown import SimulationErrors


class MadeUp(TypedDict):
    """What is made up."""

    people: int
    schema: str
    seed: int
    settings: str
    force: bool


@command(
    "synth",
    examples=(
        ("topdown synth --out made-up/", "50,000 people of schema pl94, with a run file."),
        (
            "topdown synth --out toy/ --schema toy --people 2000 --seed 7",
            "Another schema, size and population.",
        ),
        ("topdown synth run.toml --out made-up/", "People for the areas of a run file, who keep its rules."),
    ),
)
@click.argument("run", metavar="[RUN.toml]", type=FILE, required=False, default=None)
@click.option("--out", metavar="DIR", type=FOLDER, required=True, help="Where.")
@click.option(
    "--people", type=click.IntRange(1, 2**31 - 1), default=50_000, show_default=True, help="Records."
)
@click.option("--schema", default="", help="Bundled name, or a file ending in .toml; default: pl94.")
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Another seed, another census."
)
@click.option("--settings", default="", help="Bundled name or file; default: chosen by the schema.")
@click.option(
    "--levels",
    metavar="A,B,...",
    default="",
    help="Level names, root first; default: the settings'. county:10000000 makes the first county that large.",
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
def synth_command(screen: Screen, run: Path | None, *, out: Path, levels: str, **how: Unpack[MadeUp]) -> int:
    """Write made-up records and areas to practise with.

    With a run file: records for its own areas and public facts, to try its plan on. The same options give the same
    tables on every machine. Nobody in them is real.
    """
    names = tuple(name.strip() for name in levels.split(",") if name.strip())
    made = topdown.synth(out, run=run, levels=names, **how)
    screen.document(
        Synth(
            records=str(made.records),
            leaves=str(made.leaves),
            run_file=str(made.run_file),
            n_people=made.n_people,
            n_rows=made.n_rows,
            n_empty=made.n_empty,
            nodes=[LevelSize(level=level, n_nodes=n) for level, n in made.nodes],
        )
    )
    leaves = made.nodes[-1]
    screen.last(
        "Wrote ", bold(str(out)), f": {made.n_people:,} made-up people in {leaves[1]:,} areas ({leaves[0]})"
    )
    screen.pairs(
        [(str(made.records), f"{made.n_rows:,} rows"), (str(made.leaves), f"{made.n_empty:,} areas empty")]
    )
    made_run = quoted(made.run_file)
    if run is not None:
        line = f"topdown simulate {quoted(run)} --truth {quoted(made.records)} --out try/"
        screen.next((line, "how far off its releases would be"))
    elif made.base_run_file is not None:
        line = f"topdown generate {quoted(made.base_run_file)} --out base/"
        more = f"topdown extend {made_run} --base base/ --out release/"
        screen.next(
            (line, "the release that the other one extends"), (more, "the release with all attributes")
        )
    else:
        screen.next((f"topdown plan {made_run}", "what a release of it would measure, at what cost"))
    return EXIT_OK


class Simulated(TypedDict):
    """How a plan is simulated."""

    seed: int | None
    replicates: int
    keep: bool
    truth_is_public: str


@command(
    "simulate",
    examples=(
        ("topdown simulate run.toml --truth persons.csv.gz --out try/ --replicates 9", "On made-up records."),
        (
            "topdown simulate run.toml --truth release/ --out try/ --seed 7 --keep",
            "A published release as truth.",
        ),
    ),
    exits=(0, 2, 3, 130),
)
@click.argument("source", metavar="RUN.toml|plan.json", type=FILE)
@click.option(
    "--truth",
    metavar="FILE|RELEASE",
    type=ANY_PATH,
    required=True,
    help="Made-up records, or a published release.",
)
@click.option("--out", metavar="DIR", type=FOLDER, required=True, help="New folder.")
@click.option("--seed", type=int, help="Of the noise; default: 1.")
@click.option("--replicates", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes; default: one a core.")
@click.option("--keep", is_flag=True, help="Also write the microdata of each replicate.")
@click.option("--report", "page", metavar="FILE", type=FILE, help="Also write the errors as a page.")
@truth_is_public
def simulate_command(
    screen: Screen,
    source: Path,
    *,
    truth: Path,
    out: Path,
    workers: int | None,
    page: Path | None,
    **how: Unpack[Simulated],
) -> int:
    """Show the error that releases of a plan would have.

    Nothing is spent and nothing it writes is a release: the records are made up or public.
    """
    if page is not None:
        refuse_existing(page, force=False)
    with follow(screen) as progress:
        made = topdown.simulate(source, truth, out=out, workers=workers or cores(), report=progress, **how)
    if page is not None:
        app.write_simulation(made, page)
    screen.document(made)
    _show_simulation(screen, made, out)
    return EXIT_OK


def _show_simulation(screen: Screen, made: SimulationErrors, out: Path) -> None:
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
        columns = [Column("table", wraps=True), *numbers("MAE", "±")]
        rows = [
            [q.query, figures.error(q.mae), figures.error(q.mae_standard_error), figures.error(q.bias, "+")]
            for q in level.queries
        ]
        screen.table([*columns, Column("bias", right=True)], rows)
        sizes = ["total of areas of", "areas", "MAE", "%", "bias"]
        screen.table(
            [Column(name, right=i > 0) for i, name in enumerate(sizes)],
            [
                [
                    f"{size.least:,}" + (f" to {size.most:,}" if size.most > size.least else ""),
                    f"{size.n_areas:,}",
                    figures.error(size.mae),
                    "" if size.mae_of_mean is None else f"{100 * size.mae_of_mean:,.1f}",
                    figures.error(size.bias, "+"),
                ]
                for size in level.totals_by_size
            ],
        )
    screen.say(figures.convergence(made.solver))
    n = made.replicates
    screen.last(
        f"{made.stamp}: {n:,} simulated release{'s' if n > 1 else ''}; errors in {out / 'simulation.json'}"
    )
