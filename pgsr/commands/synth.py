"""`pgsr synth`: made-up counts and regions."""

from __future__ import annotations

from pathlib import Path

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen


@command(
    "synth",
    examples=(
        ("pgsr synth --shape tiny --out practice/", "A toy: 9 regions, 8 sizes, 2,000 groups."),
        ("pgsr synth --shape census --out census/", "The paper's census shape."),
    ),
)
@click.option(
    "--shape", type=click.Choice(["census", "taxi", "taxi-trips", "tiny"]), default="tiny", show_default=True
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the made-up data.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder.")
def synth(screen: Screen, *, shape: str, seed: int, out: Path) -> int:
    """Write made-up groups.csv with its mark, hierarchy.csv and run.toml. No real household is in them."""
    import csv

    import numpy as np

    from pgsr.documents.synth import Synth
    from pgsr.synth import synthesize
    from topdown import __version__
    from topdown.made_up import write_mark

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not an empty folder", code="C164", fix="give a new folder")
    made = synthesize(shape, seed)
    out.mkdir(parents=True, exist_ok=True)
    levels = made.hierarchy.geography.levels
    with (out / "hierarchy.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["region", "parent", "level"])
        for i, level in enumerate(levels):
            for code, up in zip(level.codes, level.parent.tolist(), strict=True):
                writer.writerow([code, "" if i == 0 else levels[i - 1].codes[up], level.name])
    leaves = made.counts[:, made.hierarchy.tree.n_inner :]
    with (out / "groups.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["region", "size", "count"])
        for size, leaf in np.argwhere(leaves > 0).tolist():
            writer.writerow([levels[-1].codes[leaf], size + 1, int(leaves[size, leaf])])
    write_mark(out / "groups.csv", f"pgsr synth --shape {shape}", seed)
    (out / "run.toml").write_text(
        f'groups = "groups.csv"\nhierarchy = "hierarchy.csv"\nsizes = {len(leaves)}\nmechanism = "tracking+parent"\n'
        f'epsilon = "1/2"\ntotal = {made.total}\ndata_set = "made-up-{shape}"\nout = "release"\n',
        encoding="utf-8",
    )
    screen.document(Synth(engine=__version__, shape=shape, folder=str(out), groups=made.total))
    screen.last(f"Made-up {shape} data in {out}: {made.total:,} groups. No real household is in it.")
    screen.next(
        (f"pgsr ledger new {out / 'run.toml'}", "make the ledger of these data, once"),
        (f"pgsr release {out / 'run.toml'}", "make a release of them"),
    )
    return EXIT_OK
