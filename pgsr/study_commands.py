"""`pgsr compare`, `audit`, `synth`, `explain`, `schema`, `completion`: commands that touch no confidential file."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypedDict, Unpack

import click

from pgsr.cli import group
from pgsr.comparison import (
    KnownCounts,
    MechanismRow,
    Run,
    chosen_runs,
    compare_document,
    errors_svg,
    file_counts,
    possible_runs,
    published_loss,
    shape_counts,
)
from pgsr.comparison import compare_runs as run_all
from pgsr.estimators import COVERAGES
from pgsr.exact_arguments import fraction
from pgsr.formats import document_names, document_schema
from pgsr.group_tables import read_hierarchy
from pgsr.hierarchy import Sizes
from pgsr.level_noise import NOT_A_RELEASE, Budget, calibrate
from pgsr.run_settings import Source
from pgsr.sensitivity_audit import audit_sensitivities
from pgsr.synthetic_groups import SHAPES, synthesize, write_practice
from topdown.app.commands.command import command
from topdown.app.commands.lookup_commands import completion_of, show_pages, show_schemas
from topdown.app.commands.options import ANY_PATH, Picture, truth_is_public
from topdown.app.help_pages import FAMILIES, Page, pages
from topdown.app.screens.console import Screen
from topdown.app.screens.figures import decimal
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import FAIL, OK, Column, Span, numbers
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, ConfigError, quoted
from topdown.notebook import Chart
from topdown.output_paths import refuse_existing
from topdown.privacy.exact_values import fixed, significant
from topdown.resources import report_slow_kernels


class CompareOptions(TypedDict):
    """What is compared, and on which groups."""

    hierarchy: Path | None
    sizes: int | None
    mechanisms: tuple[str, ...]
    direction: str
    repeats: int
    seed: int
    anyway: bool
    truth_is_public: str
    ignore: tuple[str, ...]


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
@click.option("--hierarchy", type=ANY_PATH, help="Table of region, parent, level, for a file.")
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
@truth_is_public
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column of the file that is not read.")
@click.option("--plot", metavar="FILE.svg", type=Picture(), help="Draw the errors.")
def compare_command(
    screen: Screen,
    *,
    shape: str,
    epsilon: tuple[str, ...],
    plot: Path | None,
    **options: Unpack[CompareOptions],
) -> int:
    """Compare mechanisms by simulation: L1, EMD and coverage per level, violated sums, time, and the true epsilon.

    Where totals are public, every region's number of groups is known; Kuo et al. (2018) need that.

    The table is computed from true counts, of made-up or public data only. It is not a release.
    """
    if plot is not None:
        refuse_existing(plot, force=False)
    budgets = [fraction("epsilon", value) for value in epsilon]
    runs, published = chosen_runs(options["mechanisms"]), Run("M_c^ch", "published")
    known = _known_counts(shape, options)
    left_out = known.origin is not None and not options["anyway"] and published in runs
    runs = [run for run in possible_runs(runs, known.total) if not (left_out and run == published)]
    for budget in budgets:  # refused before any time is spent
        calibrate("histogram", known.tree, Sizes(len(known.counts)), Budget(budget))
    progress = follow(screen)
    report_slow_kernels("pgsr", progress)
    rows = run_all(
        known.tree,
        known.counts,
        budgets,
        runs=runs,
        direction=options["direction"],
        repeats=options["repeats"],
        seed=options["seed"],
        report=progress,
    )
    progress.close()
    screen.document(compare_document(known, rows))
    screen.say(
        f"Mechanisms on {shape}: {'/'.join(f'{n:,}' for n in map(len, known.tree.parents))} regions, "
        f"{len(known.counts):,} sizes, {known.total:,} groups; mean of {options['repeats']}"
    )
    for budget in budgets:
        _show_errors(screen, [row for row in rows if row.claimed == budget], known.level_names)
    if left_out:
        tops = "; ".join(f"{_loss_text(published_loss(known, b))} at claim {b}" for b in budgets)
        screen.warn(
            f"M_c^ch as published is not private (true epsilon {tops}): not run on own data; --anyway to see (A103)"
        )
    if plot is not None:
        made_up = known.origin is None or known.origin.kind == "made_up"
        stamp = f"{NOT_A_RELEASE}: {shape}, {'made up' if made_up else 'public data'}; mean of {options['repeats']}"
        Chart(errors_svg(rows, known.level_names, stamp), stamp).save(plot)
    screen.blank()
    screen.last(
        f"{NOT_A_RELEASE}: errors are computed from true counts" + (f"; picture in {plot}" if plot else ""),
        symbol="",
    )
    return EXIT_OK


def _known_counts(shape: str, options: CompareOptions) -> KnownCounts:
    """Return the counts of a shape, or of a file of groups."""
    if shape in SHAPES:
        return shape_counts(shape, options["seed"], options["sizes"])
    if not Path(shape).exists():
        raise ConfigError(
            f"{shape!r} is neither a shape nor a file", code="C150", fix=f"use one of {', '.join(SHAPES)}"
        )
    if options["hierarchy"] is None or options["sizes"] is None:
        raise ConfigError(
            "a file of groups needs its regions and sizes", code="C165", fix="add --hierarchy and --sizes"
        )
    source = Source(Path(shape), options["hierarchy"], ignore=options["ignore"])
    return file_counts(source, options["sizes"], options["truth_is_public"])


def _error_text(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _loss_text(value: Fraction) -> str:
    """Write a loss with three digits or as a whole number, rounded up: it is a claim, unlike an error measured."""
    return fixed(value, 0, up=True) if value >= 1000 else significant(value, 3, up=True)


def _error_unit(errors: Sequence[Sequence[float]]) -> tuple[int, str]:
    """Return what errors of a table are counted in: ones, or thousands where one of them is 10,000 or more."""
    return (1000, "thousand ") if max(map(max, errors)) >= 10_000 else (1, "")


def _show_errors(screen: Screen, rows: list[MechanismRow], names: tuple[str, ...]) -> None:
    def label(row: MechanismRow) -> list[str | Span]:
        return [OK if row.private else FAIL, row.run.label]

    (l1, l1_of), (emd, emd_of) = _error_unit([row.l1 for row in rows]), _error_unit([row.emd for row in rows])
    screen.heading(
        f"epsilon {rows[0].claimed}", f"   L1 error per level, {l1_of}groups; CV: sums that do not add up"
    )
    screen.table(
        [Column(""), Column("mechanism"), *numbers("true ε", *names, "CV", "time")],
        [
            [
                *label(row),
                _loss_text(row.true_epsilon),
                *(_error_text(value / l1) for value in row.l1),
                f"{row.violations:.0f}",
                f"{row.seconds:.2f} s",
            ]
            for row in rows
        ],
    )
    columns = [Column(""), Column("mechanism"), *numbers(*names)]
    screen.heading(f"epsilon {rows[0].claimed}", f"   EMD per level, {emd_of}persons")
    screen.table(
        columns,
        [[*label(row), *(_error_text(value / emd) for value in row.emd)] for row in rows],
    )
    private = [row for row in rows if row.private]
    if private:
        best = [min(private, key=lambda row, i=i: row.emd[i]).run.label for i in range(len(names))]  # type: ignore[misc]
        screen.say(
            "Least EMD here: " + "; ".join(f"{name}, {of}" for name, of in zip(names, best, strict=True))
        )
    with_intervals = [(label(row), row.intervals) for row in rows if row.intervals is not None]
    if not with_intervals:
        return
    stated = " · ".join(f"{int(100 * coverage)}" for coverage in COVERAGES)
    for title, shown in (
        (
            f"cells with groups that intervals of {stated} % hold, per level, in 100",
            lambda at: f"{100 * at[0]:.0f}",
        ),
        ("mean difference of their bounds, in groups", lambda at: _error_text(at[1])),
    ):
        screen.heading(f"epsilon {rows[0].claimed}", f"   {title}")
        screen.table(
            columns,
            [
                [*name, *(" · ".join(map(shown, level)) for level in zip(*found, strict=True))]
                for name, found in with_intervals
            ],
        )


@command(
    "audit",
    examples=(
        ("pgsr audit", "The table for the census tree, and the running proof."),
        ("pgsr audit --hierarchy h.csv --sizes 20", "The table for your own regions."),
    ),
    exits=(0, 1, 2),
)
@click.option(
    "--shape", default="census", help="census, taxi or tiny, when no hierarchy is given.", show_default=True
)
@click.option("--hierarchy", type=ANY_PATH, help="Table of region, parent, level.")
@click.option("--sizes", type=click.IntRange(min=1), help="Number of sizes N.")
def audit_command(screen: Screen, *, shape: str, hierarchy: Path | None, sizes: int | None) -> int:
    """Print what one person can change in every measured vector, and prove the published chain's flaw."""
    if hierarchy is not None:
        tree, n_sizes, name = read_hierarchy(hierarchy).tree, sizes or 20, str(hierarchy)
    else:
        made = synthesize(shape)
        tree, n_sizes, name = made.hierarchy.tree, sizes or len(made.counts), shape
    found = audit_sensitivities(tree, n_sizes, name)
    screen.document(found)
    levels = "/".join(f"{n:,}" for n in found.regions)
    screen.say(f"Sensitivities for {name}: {levels} regions, {n_sizes:,} sizes. Derived, not typed in.")
    screen.heading(
        "What one step changes", "   L1 over all levels; squared L2 is the same for every vector here"
    )
    titles = ("move", "new group", "dropped", "ε at claim 1")
    screen.table(
        [Column("vector"), *numbers(*titles)],
        [
            [
                row.vector,
                f"{row.move_l1:,}",
                f"{row.new_l1:,}",
                f"{row.dropped_l1:,}",
                decimal(Fraction(row.true_epsilon_of_published_noise_at_1), 1, up=True),
            ]
            for row in found.sensitivities
        ],
    )
    screen.heading("Confirmed by enumeration", "   all data sets and neighbours of small hierarchies")
    for one in found.enumerations:
        text = f"{'/'.join(map(str, one.regions))} regions, {one.n_sizes} sizes, {one.total} groups"
        screen.item(OK if one.ok else FAIL, f"{text}: {one.n_pairs:,} pairs")
    screen.heading("The published chain leaks more than it claims", "   exact law of its final output")
    screen.say(
        "Root with two leaves, 2 sizes, 6 groups; data (1,3,0,2) and (0,4,0,2): one group grows by one.",
        indent=2,
    )
    screen.table(
        [Column(title, right=True) for title in ("claimed ε", "real ε, at least", "bound")],
        [
            [
                leak.claimed,
                decimal(Fraction(str(leak.epsilon)), 3, down=True),
                decimal(Fraction(leak.bound), 2, up=True),
            ]
            for leak in found.published_chain_output
        ],
    )
    screen.blank()
    if not found.ok:
        screen.last("A derived sensitivity is wrong", symbol=FAIL)
        return EXIT_CHECK_FAILED
    screen.last("Derived sensitivities are exact; M_c^ch as published is not private as claimed")
    return EXIT_OK


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
@click.option("--out", type=ANY_PATH, required=True, help="New folder.")
def synth_command(screen: Screen, *, shape: str, seed: int, out: Path) -> int:
    """Write made-up groups.csv with its mark, hierarchy.csv and run.toml. No real household is in them."""
    made = write_practice(shape, seed, out)
    screen.document(made)
    screen.last(f"Made-up {shape} data in {out}: {made.groups:,} groups. No real household is in it.")
    screen.next(
        (f"pgsr ledger new {quoted(out / 'run.toml')}", "make the ledger of these data, once"),
        (f"pgsr release {quoted(out / 'run.toml')}", "make a release of them"),
    )
    return EXIT_OK


OWN_PAGES = Path(__file__).parent / "explain.toml"


def known_pages() -> dict[str, Page]:
    """Return all pages by code, by family, then number; where both have one, pgsr's is shown."""
    both = pages() | pages(OWN_PAGES)
    order = list(FAMILIES)
    return dict(sorted(both.items(), key=lambda item: (order.index(item[0][0]), item[0])))


@command(
    "explain",
    examples=(
        ("pgsr explain C162", "What the error means, why it is one, how to fix it."),
        ("pgsr explain", "List all codes, those of topdown included."),
    ),
)
@click.argument("code", required=False)
def explain_command(screen: Screen, *, code: str | None) -> int:
    """Print the page of an error code."""
    return show_pages(screen, known_pages(), code, "pgsr")


@command(
    "schema",
    examples=(
        ("pgsr schema certificate", "Print the schema of certificate.json."),
        ("pgsr schema", "List the documents that have one."),
    ),
)
@click.argument("name", required=False)
def schema_command(screen: Screen, *, name: str | None) -> int:
    """Print the JSON Schema of a document."""
    wanted = name and name.removeprefix("pgsr.").removeprefix("topdown.")
    return show_schemas(screen, document_names(), document_schema, wanted)


completion_command = completion_of(group, "pgsr", "commands and options")
