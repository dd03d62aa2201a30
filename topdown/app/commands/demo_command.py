"""`topdown demo`: a whole release of a made-up census, from records to verification."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import click

import topdown
from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import FOLDER, cores
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.figures import accuracy_lines
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import bold
from topdown.errors import EXIT_OK, ConfigError, quoted
from topdown.output_paths import is_filled, refuse_release
from topdown.progress import Event
from topdown.resources import bundled_root

DEMO_MARK = "Made by topdown demo: made-up people. This folder is replaced when the demo runs again.\n"
EXTENSION, PEOPLE = "dhc_persons", 50_000
FILES = ("persons.csv.gz", "persons.csv.gz.made-up.json", "blocks.csv.gz", "run.toml")


@command(
    "demo",
    examples=(
        ("topdown demo", "Write and check demo-release/."),
        ("topdown demo --out elsewhere/demo --quiet", "Elsewhere, and only the last line."),
        ("topdown demo --schema dhc_persons", "A second product that extends the first, about a minute."),
    ),
    exits=(0, 1, 2, 4, 130),
)
@click.option(
    "--out",
    metavar="DIR",
    type=FOLDER,
    default=Path("demo-release"),
    show_default=True,
    help="The release; its input goes to DIR-input.",
)
@click.option(
    "--schema",
    type=click.Choice(["pl94", EXTENSION]),
    default="pl94",
    show_default=True,
    help="The product; dhc_persons extends a release of pl94 in DIR-input/base.",
)
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes for solving; default: one a core.")
def demo_command(screen: Screen, *, out: Path, schema: str, workers: int | None) -> int:
    """Make and check a release of a made-up county.

    Nobody in it is real. Running it again replaces the folders it made, and no other.
    """
    started = time.monotonic()
    source = prepare_folders(out, schema)
    with follow(screen) as progress:
        base = None
        if schema == EXTENSION:  # the coarser product of the same people first
            base = source / "base"
            topdown.generate(source / "base.toml", base, workers=workers or cores(), report=progress)
        planned = topdown.plan(source / "run.toml", base=base)
        planned.save(source / "plan.json")
        plan = planned.plan
        last = plan.levels[-1]
        screen.say(f"A made-up census of {last.n_nodes:,} areas ({last.name}). No real person is in it.")
        loss = f"{figures.SYMBOL[plan.loss_name]} {figures.both(plan.loss)}"
        queries = len({m.query for level in plan.levels for m in level.measurements})
        progress(Event("plan", 1, 1, f"{len(plan.levels)} levels, {queries} queries, {loss}"))
        if base is None:
            result = topdown.generate(planned, out, workers=workers or cores(), report=progress)
        else:
            result = topdown.extend(planned, base, out, workers=workers or cores(), report=progress)
        errors = average_errors(out, source)
    right = accuracy_lines(app.certified_loss(planned.prepared.context.policy))[0]
    screen.document(result)
    screen.blank()
    total = figures.seconds(time.monotonic() - started)
    folder = f"{out}{os.sep}"
    screen.last("Release of ", f"{result.n_records:,} made-up people in ", bold(folder), f", {total}")
    screen.pairs(
        [
            ("average error, persons", "  ".join(f"{level}\u00a0{error}" for level, error in errors)),
            ("protection", right),
        ]
    )
    screen.next(
        (f"topdown verify {quoted(folder)}", "check it from its files alone"),
        (f"cat {quoted(out / 'README.txt')}", "what each file is"),
        (
            f"topdown plan {quoted(source / ('run.toml' if base is None else 'base.toml'))}",
            "what was measured, at what cost",
        ),
        ("topdown init --help", "start with your own data"),
    )
    return EXIT_OK


def average_errors(release: Path, source: Path) -> list[tuple[str, str]]:
    """Return the mean absolute error of the total population at each level; the demo's truth is made up."""
    found = []
    for level in topdown.evaluate(release, source / "persons.csv.gz", run=source / "run.toml").levels:
        total = next(table for table in level.tables if table.query == "total")
        found.append((level.level, figures.two_digits(total.mae)))
    return found


def prepare_folders(out: Path, schema: str = "pl94") -> Path:
    """Replace what an earlier demo made, put the sample data beside `out`, return its folder.

    Raises:
        ConfigError: C085 if a folder is there that no demo made.
    """
    refuse_release(out, "--out")
    source = out.with_name(out.name + "-input")
    mark = source / "DEMO.txt"
    mine = mark.is_file() and not source.is_symlink() and mark.read_text(encoding="utf-8") == DEMO_MARK
    if is_filled(source) and not mine:
        raise ConfigError(f"{source} was not made by the demo", code="C085", fix="give another --out")
    made_here = mine and not out.is_symlink() and app.run_in_folder(out) in (None, app.run_in_folder(source))
    plain = made_here and all(
        p.name.removesuffix(".tmp") in _RELEASE or p.name.startswith(".") for p in out.glob("*")
    )
    if is_filled(out) and not plain:
        raise ConfigError(f"{out} was not made by the demo", code="C085", fix="give another --out")
    if plain and out.is_dir():
        shutil.rmtree(out)
    if mine:
        shutil.rmtree(source)
    source.mkdir(parents=True, exist_ok=True)
    mark.write_text(DEMO_MARK, encoding="utf-8")
    if schema == EXTENSION:
        topdown.synth(source, people=PEOPLE, schema=EXTENSION, release_id="demo")
        return source
    for name in FILES:
        shutil.copyfile(bundled_root() / "sample_data" / name, source / name)
    app.create_run_ledger(source / "run.toml")
    return source


_RELEASE = {
    "README.txt", "plan.json", "ledger.jsonl", "solve.json", "certificate.json", "manifest.json", "public",
    "measurements", "microdata", "tables", "report.html", "figures", "base",
}  # fmt: skip
