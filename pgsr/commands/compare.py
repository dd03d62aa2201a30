"""`pgsr compare`: mechanisms side by side, with the epsilon their noise really guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from topdown.commands.base import command
from topdown.commands.files import Picture
from topdown.decimals import fixed, significant
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from pgsr.compare import MechanismRow, Run
    from pgsr.documents.compare import Compare
    from topdown.made_up import Origin


@command(
    "compare",
    examples=(
        ("pgsr compare --shape census --epsilon 1/10 1/2 1", "The paper's table, corrected."),
        (
            "pgsr compare --shape groups.csv --hierarchy h.csv --sizes 20 --epsilon 1",
            "On a file of pgsr synth.",
        ),
    ),
    exits=(0, 2, 130),
)
@click.option(
    "--shape",
    default="census",
    help="census, taxi, taxi-trips, tiny, or a file of groups.",
    show_default=True,
)
@click.option(
    "--hierarchy", type=click.Path(path_type=Path), help="Table of region, parent, level, for a file."
)
@click.option("--sizes", type=int, help="Number of sizes N; larger groups count as the last.")
@click.option(
    "--epsilon",
    multiple=True,
    default=("1/10", "1/2", "1"),
    help="Claimed budgets, exact.",
    show_default=True,
)
@click.option("--mechanism", "mechanisms", multiple=True, help="Only these mechanisms.")
@click.option(
    "--direction",
    type=click.Choice(["cumulative", "tail"]),
    default="cumulative",
    help="Sums from the smallest size, as the paper measures, or from the largest, as release does by default.",
    show_default=True,
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=3, help="Repetitions averaged.", show_default=True
)
@click.option(
    "--seed", type=int, default=0, help="Seed of made-up data and simulated noise.", show_default=True
)
@click.option(
    "--anyway", is_flag=True, help="Run the published chain on own data too, though it is not private."
)
@click.option(
    "--truth-is-public",
    metavar="REASON",
    default="",
    help="Why an unmarked file of groups is public; stamped.",
)
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column of the file that is not read.")
@click.option("--plot", metavar="FILE.svg", type=Picture(), help="Draw the errors.")
def compare(
    screen: Screen, *, shape: str, epsilon: tuple[str, ...], plot: Path | None, **options: Any
) -> int:
    """Compare mechanisms by simulation: L1, EMD and coverage per level, violated sums, time, and the true epsilon.

    Where totals are public, every region's number of groups is known; Kuo et al. (2018) need that.

    The table is computed from true counts, of made-up or public data only. It is not a release.
    """
    from pgsr.budget import NOT_A_RELEASE
    from pgsr.compare import compare as run_all
    from pgsr.compare import warm_up
    from pgsr.numbers import fraction
    from pgsr.plot import plot_svg, refuse_without_plotting
    from topdown.outputs import refuse_existing, write_new
    from topdown.screen.bars import follow

    if plot is not None:
        refuse_existing(plot, force=False)
        refuse_without_plotting()
    budgets = [fraction("epsilon", value) for value in epsilon]
    runs = _runs(options["mechanisms"])
    tree, truth, names, origin = _load(shape, options)
    runs, left_out = _allowed(runs, int(truth[:, 0].sum()), own=origin is not None and not options["anyway"])
    for budget in budgets:
        _refuse_budget(tree, len(truth), budget)
    progress = follow(screen)
    warm_up()
    rows = run_all(
        tree,
        truth,
        budgets,
        runs=runs,
        direction=options["direction"],
        repeats=options["repeats"],
        seed=options["seed"],
        report=progress,
    )
    progress.close()
    screen.document(_document(shape, names, rows, origin))
    screen.say(
        f"Mechanisms on {shape}: {'/'.join(f'{n:,}' for n in map(len, tree.parents))} regions, "
        f"{len(truth):,} sizes, {int(truth[:, 0].sum()):,} groups; mean of {options['repeats']}"
    )
    for budget in budgets:
        _table(screen, [row for row in rows if row.claimed == budget], names)
    if left_out:
        tops = "; ".join(f"{_loss(_true(tree, len(truth), b))} at claim {b}" for b in budgets)
        screen.warn(
            f"M_c^ch as published is not private (true epsilon {tops}): not run on own data; --anyway to see (A103)"
        )
    if plot is not None:
        drawing = BytesIO()
        made_up = origin is None or origin.kind == "made_up"
        stamp = f"{NOT_A_RELEASE}: {shape}, {'made up' if made_up else 'public data'}; mean of {options['repeats']}"
        plot_svg(rows, names, stamp, drawing)
        write_new(plot, drawing.getvalue())
    screen.blank()
    screen.last(
        f"{NOT_A_RELEASE}: errors are computed from true counts" + (f"; picture in {plot}" if plot else ""),
        symbol="",
    )
    return EXIT_OK


def _runs(chosen: Sequence[str]) -> list[Run]:
    """Return the default runs, or all ways of running the chosen mechanisms (ConfigError C153: unknown)."""
    from pgsr.compare import DEFAULT_RUNS, KUO, Run
    from pgsr.mechanism import mechanism_named

    for name in chosen:
        if name not in KUO:
            mechanism_named(name)
    known = {run.mechanism for run in DEFAULT_RUNS}
    return [
        *(run for run in DEFAULT_RUNS if not chosen or run.mechanism in chosen),
        *(Run(name) for name in chosen if name not in known),
    ]


def _allowed(runs: list[Run], total: int, *, own: bool) -> tuple[list[Run], bool]:
    """Return what is run on the data, and whether the published chain is left out."""
    from pgsr.compare import Run, possible

    published = Run("M_c^ch", "published")
    left_out = own and published in runs
    return [run for run in possible(runs, total) if not (own and run == published)], left_out


def _refuse_budget(tree: Any, n_sizes: int, budget: Any) -> None:
    """Refuse a budget that no noise is drawn for before any time is spent (ConfigError C171)."""
    from pgsr.budget import Budget, calibrate
    from pgsr.sizes import Sizes

    calibrate("histogram", tree, Sizes(n_sizes), Budget(budget))


def _load(shape: str, options: dict[str, Any]) -> tuple[Any, Any, tuple[str, ...], Origin | None]:
    from pgsr.sizes import Sizes
    from pgsr.source import Source
    from pgsr.synth import SHAPES, synthesize
    from topdown.made_up import origin_of

    if shape in SHAPES:
        made = synthesize(shape, options["seed"], options["sizes"])
        return made.hierarchy.tree, made.counts, made.hierarchy.level_names, None
    path = Path(shape)
    if not path.exists():
        raise ConfigError(
            f"{shape!r} is neither a shape nor a file", code="C150", fix=f"use one of {', '.join(SHAPES)}"
        )
    if options["hierarchy"] is None or options["sizes"] is None:
        raise ConfigError(
            "a file of groups needs its regions and sizes", code="C165", fix="add --hierarchy and --sizes"
        )
    origin = origin_of(path, options["truth_is_public"])
    source = Source(path, options["hierarchy"], ignore=options["ignore"])
    hierarchy = source.regions()
    leaves = source.leaves(hierarchy, Sizes(options["sizes"], 1, "top-code"))
    return hierarchy.tree, hierarchy.tree.sums(leaves), hierarchy.level_names, origin


def _true(tree: Any, n_sizes: int, budget: Any) -> Any:
    from pgsr.budget import Budget, calibrate
    from pgsr.sizes import Sizes

    return calibrate("chain", tree, Sizes(n_sizes), Budget(budget, calibration="published")).loss


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _loss(value: Fraction) -> str:
    """Write a loss with three digits or as a whole number, rounded up: it is a claim, unlike an error measured."""
    return fixed(value, 0, up=True) if value >= 1000 else significant(value, 3, up=True)


def _unit(errors: Sequence[Sequence[float]]) -> tuple[int, str]:
    """Return what errors of a table are counted in: ones, or thousands where one of them is 10,000 or more."""
    return (1000, "thousand ") if max(map(max, errors)) >= 10_000 else (1, "")


def _table(screen: Screen, rows: list[MechanismRow], names: tuple[str, ...]) -> None:
    from topdown.screen.layout import Column
    from topdown.screen.look import FAIL, OK, Span

    def right(*titles: str) -> list[Column]:
        return [Column(title, right=True) for title in titles]

    def label(row: MechanismRow) -> list[str | Span]:
        return [OK if row.private else FAIL, row.run.label]

    (l1, l1_of), (emd, emd_of) = _unit([row.l1 for row in rows]), _unit([row.emd for row in rows])
    screen.heading(
        f"epsilon {rows[0].claimed}", f"   L1 error per level, {l1_of}groups; CV: sums that do not add up"
    )
    screen.table(
        [Column(""), Column("mechanism"), *right("true ε", *names, "CV", "time")],
        [
            [
                *label(row),
                _loss(row.true_epsilon),
                *(_short(value / l1) for value in row.l1),
                f"{row.violations:.0f}",
                f"{row.seconds:.2f} s",
            ]
            for row in rows
        ],
    )
    screen.heading(f"epsilon {rows[0].claimed}", f"   EMD per level, {emd_of}persons")
    screen.table(
        [Column(""), Column("mechanism"), *right(*names)],
        [[*label(row), *(_short(value / emd) for value in row.emd)] for row in rows],
    )
    with_intervals = [(label(row), row.coverage) for row in rows if row.coverage is not None]
    if not with_intervals:
        return
    screen.heading(
        f"epsilon {rows[0].claimed}", "   cells with groups that 95 % intervals hold, per level, in 100"
    )
    screen.table(
        [Column(""), Column("mechanism"), *right(*names)],
        [[*name, *(f"{100 * part:.1f}" for part in parts)] for name, parts in with_intervals],
    )


def _document(shape: str, names: tuple[str, ...], rows: list[MechanismRow], origin: Origin | None) -> Compare:
    from msgspec import convert

    from pgsr.documents.compare import Compare, ComparedMechanism
    from pgsr.documents.shared import Truth
    from topdown import __version__

    return Compare(
        engine=__version__,
        truth=None if origin is None else convert(origin.to_document(), Truth),
        shape=shape,
        levels=list(names),
        rows=[
            ComparedMechanism(
                mechanism=row.run.mechanism,
                calibration="published" if row.run.calibration == "published" else "correct",
                totals="public" if row.run.public else "not public",
                claimed=str(row.claimed),
                true_epsilon=str(row.true_epsilon),
                private_as_claimed=row.private,
                l1=list(row.l1),
                emd=list(row.emd),
                coverage=None if row.coverage is None else list(row.coverage),
                violations=row.violations,
                seconds=row.seconds,
                repeats=row.repeats,
            )
            for row in rows
        ],
    )
