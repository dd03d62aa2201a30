"""`topdown synth`: a made-up census to practise with."""

from __future__ import annotations

from pathlib import Path

import click

import topdown
from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen


@command(
    "synth",
    examples=(
        ("topdown synth --out made-up/", "50,000 people of schema pl94, with a run file."),
        (
            "topdown synth --out toy/ --schema toy --people 2000 --seed 7",
            "Another schema, size and population.",
        ),
    ),
)
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where."
)
@click.option(
    "--people", type=click.IntRange(1, 2**31 - 1), default=50_000, show_default=True, help="Records."
)
@click.option("--schema", default="pl94", show_default=True, help="Bundled name, or a file ending in .toml.")
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
def synth(
    screen: Screen, *, out: Path, people: int, schema: str, seed: int, settings: str, levels: str, force: bool
) -> int:
    """Write made-up records and areas to practise with.

    The same options give the same tables on every machine. Nobody in them is real.
    """
    from topdown.documents.synth import LevelSize, Synth
    from topdown.screen.look import bold

    names = tuple(name.strip() for name in levels.split(",") if name.strip())
    made = topdown.synth(
        out, people=people, schema=schema, seed=seed, settings=settings, levels=names, force=force
    )
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
    if made.base_run_file is not None:
        screen.next(
            (f"topdown generate {made.base_run_file} --out base/", "the release that the other one extends"),
            (
                f"topdown extend {made.run_file} --base base/ --out release/",
                "the release with all attributes",
            ),
        )
    else:
        screen.next((f"topdown plan {made.run_file}", "what a release of it would measure, at what cost"))
    return EXIT_OK
