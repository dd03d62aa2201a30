"""`topdown verify`, `evaluate`, `interval` and `tables`: look at a finished release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

import topdown
from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import ANY_PATH, FILE, Solving, solving_options
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import FAIL, OK, WARN, Chunk, Column, Span, bold, dim, numbers
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, ConfigError

if TYPE_CHECKING:
    from topdown.formats.accuracy_documents import CutAreas, IntervalsOfUnion
    from topdown.verify import VerifyResult


SHOWN_A_CHECK = 3
ALWAYS = ("manifest", "plan", "ledger")  # shown even when they pass and others fail


def show_checks(screen: Screen, result: VerifyResult, *, everything: bool) -> None:
    """Write one line a check; where some fail, the passed ones are only counted."""
    if not screen.talks:
        return
    key = max((len(check.name) for check in result.checks), default=0)
    hidden = 0
    for check in result.checks:
        if check.ok and not result.ok and not everything and check.name not in ALWAYS:
            hidden += 1
            continue
        symbol = OK if check.ok else FAIL
        mark = len(screen.out.look.plain(symbol))
        pad = " " * (len(screen.out.look.plain(FAIL)) - mark)
        time = f"  {figures.seconds(check.seconds)}" if screen.verbose else ""
        hang = 2 + mark + len(pad) + 1 + key + 2
        screen.say(
            symbol,
            pad,
            " ",
            check.name.ljust(key).replace(" ", "\u00a0"),
            "  ",
            check.text,
            time,
            indent=2,
            hang=hang,
        )
        for warning in check.warnings:
            screen.item(WARN, warning, indent=4)
    if hidden:
        screen.say(dim(f"({hidden} more passed; --all shows them)"), indent=4)
    for what in result.not_checked:
        screen.say(dim(f"not checked: {what}"), indent=4, hang=6)


def show_findings(screen: Screen, result: VerifyResult, release: Path) -> None:
    """Write what the failed checks found: code, place, both values, why and fix."""
    said: set[tuple[str, str]] = set()
    for check in result.checks:
        if check.ok:
            continue
        for finding in check.findings[:SHOWN_A_CHECK]:
            screen.say(Span(finding.code, "error"), " ", finding.text, hang=5)
            place = [str(release / finding.file)] if finding.file else []
            place += [f"row {finding.row:,}"] if finding.row is not None else []
            if place and place[0] not in finding.text:
                screen.say(", ".join(place), indent=5, hang=7)
            rows: list[tuple[Chunk, Chunk]] = []
            if finding.node and finding.node not in finding.text:
                rows.append((dim("area"), finding.node))
            if finding.expected or finding.found:
                rows += [(dim("expected"), finding.expected or "-"), (dim("found"), finding.found or "-")]
            if (finding.why, finding.fix) not in said:
                said.add((finding.why, finding.fix))
                rows += [(dim(k), v) for k, v in (("why", finding.why), ("fix", finding.fix)) if v]
            screen.pairs(rows, indent=5)
        more = check.n_findings - min(len(check.findings), SHOWN_A_CHECK)
        if more > 0:
            screen.say(dim(f"({more:,} more from the check {check.name}; --json lists them)"), indent=5)


@command(
    "verify",
    examples=(
        ("topdown verify release/", "Check a release, as an auditor would."),
        ("topdown verify release/ --all --json", "All findings, for a program."),
        ("topdown verify release/ --solve", "Also solve it again and compare the records."),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="DIR", type=ANY_PATH)
@click.option("--all", "everything", is_flag=True, help="Show passed checks too when others fail.")
@click.option("--solve", is_flag=True, help="Solve again from the measurements and compare the records.")
@solving_options("Processes; default: one a core.", "--solve here, or on a Ray cluster.")
def verify_command(screen: Screen, release: Path, *, everything: bool, solve: bool, solving: Solving) -> int:
    """Check a release from its files alone.

    Needs no confidential data and no solver: sums, invariants, budget and ledger are
    recomputed in whole numbers. With --solve the records are also solved again.
    """
    if solving.on == "ray" and not solve:
        raise ConfigError(
            "without --solve, verify stays on this machine", code="C005", fix="leave --on out, or add --solve"
        )
    executor = solving.executor
    if not app.is_choice(release):
        app.require_release(release)
    how = "Solves again what was measured." if solve else "Needs no confidential data and no solver."
    screen.say(f"Reads only the files of {release}. {how}")
    screen.blank()
    with follow(screen, patient=not solve) as progress:
        result = topdown.verify(release, solve=solve, workers=executor, report=progress)
    return show_verified(screen, result, release, everything=everything)


def show_verified(screen: Screen, result: VerifyResult, release: Path, *, everything: bool) -> int:
    """Show what was found in a folder of either program; return the exit code."""
    screen.document(result)
    show_checks(screen, result, everything=everything)
    screen.blank()
    if not result.ok:
        show_findings(screen, result, release)
        screen.blank()
        text = f"{result.n_failed} of {result.n_checks} checks failed, {figures.seconds(result.seconds)}."
        screen.last(text, " All findings: --json", symbol=FAIL)
        return EXIT_CHECK_FAILED
    warnings = (
        f", {result.n_warnings} warning{'s' if result.n_warnings > 1 else ''}" if result.n_warnings else ""
    )
    text = (
        f"{result.n_checks} of {result.n_checks} checks passed{warnings}, {figures.seconds(result.seconds)}"
    )
    screen.last(text, symbol=OK)
    return EXIT_OK


_MAIN_FIGURES = 6  # tables of a level shown without --details


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
@click.argument("release", metavar="DIR", type=ANY_PATH)
@click.option("--truth", metavar="FILE", type=ANY_PATH, required=True, help="Confidential records.")
@click.option(
    "--run",
    metavar="RUN.toml",
    type=FILE,
    help="Its table [input] says how the records are read, and what their values mean.",
)
@click.option("--out", metavar="FILE", type=ANY_PATH, help="Also write the JSON document.")
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
def evaluate_command(
    screen: Screen,
    release: Path,
    *,
    truth: Path,
    run: Path | None,
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
    called = dict(pair.split("=", 1) for pair in columns if "=" in pair)
    if len(called) < len(columns):
        raise click.UsageError("--column needs pairs of different columns, as geocode=settlement")
    found = topdown.evaluate(
        release, truth, out=out, force=force, ignore=ignore, count=not no_count, columns=called, run=run
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
        screen.say("Coverage: published intervals that contain the true count, of those that are not exact.")
    screen.say(f"{n['released']:,} {document['unit']}s released, {n['true']:,} true.")
    for level in document["levels"]:
        _show_level_errors(screen, level, warning, details)
    screen.heading("Invariants", "   ", warning)
    heads = [Column("", wraps=True), *numbers("exact at", "of")]
    rows = [[c["name"], f"{c['n_met']:,}", f"{c['n_checked']:,}"] for c in document["invariants"]["checks"]]
    screen.table(heads, rows)
    screen.say(figures.convergence(found.solver))
    saved = f" Written to {out}, readable by its owner only." if out is not None else ""
    screen.blank()
    screen.last(warning, "." + saved, symbol="")
    return EXIT_OK


def _show_level_errors(screen: Screen, level: dict[str, Any], warning: Any, details: bool) -> None:
    screen.heading(
        level["level"], f", {level['n_nodes']:,} area{'s' if level['n_nodes'] != 1 else ''}   ", warning
    )
    asked = sorted(level["tables"], key=lambda table: not table["measured"])
    shown = asked if details else asked[:_MAIN_FIGURES]
    has_intervals = any("intervals" in table for table in level["tables"])
    rows: list[list[str]] = []
    for table in shown:
        rows.append(
            [table["query"], *_error_figures(table), *([_coverage_text(table)] if has_intervals else [])]
        )
        rows += [
            [f"  {answer['label']}", *_error_figures(answer), *([""] if has_intervals else [])]
            for answer in table.get("answers", ())
            if details
        ]
    names = ("MAE", "RMSE", "bias", "95 %", "max")
    more = ("coverage",) if has_intervals else ()
    screen.table([Column("table", wraps=True), *numbers(*names, *more)], rows)
    if len(shown) < len(asked):
        screen.say(dim(f"({len(asked) - len(shown)} more tables: --details)"), indent=4)
    bins = [
        [_group_range(b["from"], b["to"]), f"{b['n_nodes']:,}", *_error_figures(b)]
        for b in level["total_by_population"]
    ]
    columns = [Column("total, areas of"), *numbers("areas", *names)]
    screen.table(columns, bins)


def _error_figures(of: dict[str, Any]) -> list[str]:
    worst = of["quantiles"]
    return [
        figures.error(of["mae"]),
        figures.error(of["rmse"]),
        figures.error(of["bias"], "+"),
        f"{worst['95']:,}",
        f"{worst['max']:,}",
    ]


def _coverage_text(table: dict[str, Any]) -> str:
    of = table.get("intervals", {"n_intervals": 0})
    return f"{100 * of['n_held'] / of['n_intervals']:.1f} %" if of["n_intervals"] else "-"


def _group_range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,} people or more"
    return f"{low:,} people" if low == high else f"{low:,}-{high:,} people"


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
@click.argument("release", metavar="DIR", type=ANY_PATH)
@click.option(
    "--areas",
    metavar="FILE",
    type=ANY_PATH,
    required=True,
    help="Table geocode, and area if there are several unions.",
)
@click.option("--query", metavar="QUERY", required=True, help='Such as "total", or attributes joined by *.')
@click.option("--coverage", metavar="A/B", help="Chance, exact; the plan's, or 19/20.")
@click.option(
    "--expected-error",
    "replicates",
    metavar="N",
    type=click.IntRange(1),
    help="Simulate N releases of this plan, the released records taken for true: errors of counts there.",
)
@click.option("--workers", metavar="N", default=1, show_default=True, type=click.IntRange(1), help="Of it.")
def interval_command(
    screen: Screen,
    release: Path,
    *,
    areas: Path,
    query: str,
    coverage: str | None,
    replicates: int | None,
    workers: int,
) -> int:
    """Print intervals for counts of any union of areas.

    Made from all measurements of a release; intervals in its tables cannot be added up. Costs no privacy.

    Draw borders along whole areas of the level above the lowest (block groups): most of the noise of a district
    comes from those that its border cuts, however large it is. Where areas are cut, the standard deviation along
    whole ones is shown.
    """
    found = app.interval(
        release, areas, query, coverage=coverage, replicates=replicates or 0, workers=workers
    )
    screen.document(found)
    for union in found.unions:
        _show_intervals(screen, union)
    screen.blank()
    if found.simulated is not None:
        screen.say(
            f"error: root mean square error of the released count in {found.simulated.replicates:,} simulated "
            "releases of this plan, with the released records taken for true. An expectation for records like these, "
            "no guarantee."
        )
    screen.last(found.meaning, symbol="")
    return EXIT_OK


def _show_intervals(screen: Screen, union: IntervalsOfUnion) -> None:
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
            *([] if at.expected_error is None else [f"{at.expected_error:,.1f}"]),
            at.basis,
        ]
        for at in union.answers[:MOST_SHOWN]
    ]
    names = ["count", "estimate", "stddev", "low", "high"]
    names += ["error"] if any(at.expected_error is not None for at in union.answers) else []
    columns = [Column("", wraps=True), *numbers(*names), Column("basis")]
    screen.table(columns, rows)
    if len(union.answers) > MOST_SHOWN:
        screen.say(dim(f"({len(union.answers) - MOST_SHOWN:,} more answers: --json)"), indent=4)
    if union.cut is not None:
        screen.say(_borders_text(union.cut), indent=4)


def _borders_text(cut: CutAreas) -> str:
    """Say what borders along whole areas would change."""
    many = cut.n_cut > 1
    text = f"Its border cuts {cut.n_cut:,} area{'s' if many else ''} of level {cut.level}. "
    if cut.mean_stddev_whole is None:
        return text + "It holds less than half of each: no border along whole ones is near."
    return (
        f"{text}Along whole ones (those inside by half or more) the mean standard deviation would be "
        f"{cut.mean_stddev_whole:,.1f} instead of {cut.mean_stddev:,.1f}."
    )


@command(
    "tables",
    examples=(
        ("topdown tables release/ --out tables/", "Every attribute and recode, at every level."),
        (
            "topdown tables release/ --areas districts.csv --by sex,age --out districts/",
            "Districts of your own.",
        ),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="DIR", type=ANY_PATH)
@click.option("--out", metavar="DIR", type=ANY_PATH, required=True, help="A new folder.")
@click.option(
    "--by", metavar="A,B", multiple=True, help="A table of these attributes or recodes; may be repeated."
)
@click.option("--level", "levels", metavar="NAME", multiple=True, help="Only this level; may be repeated.")
@click.option(
    "--areas",
    metavar="FILE",
    type=ANY_PATH,
    help="Table geocode, and area if there are several unions: these instead of levels.",
)
@click.option("--names", metavar="FILE", type=ANY_PATH, help="Table geocode, name; or the table of leaves.")
@click.option("--coverage", metavar="A/B", help="Chance of intervals, exact; default: the plan's, if any.")
@click.option(
    "--all-cells",
    is_flag=True,
    help="Tables too large for zeros: every cell whose interval is not 0 to 0, instead of counts above 0.",
)
def tables_command(screen: Screen, release: Path, *, out: Path, **which: Any) -> int:
    """Write tables of a release for ordinary programs.

    CSV with every area, names and intervals, a dictionary, codes, datapackage.json, and wide tables for maps. Reads
    published files only; costs no privacy.
    """
    made = app.tables(release, out, **which)
    screen.document(made)
    n_tables = sum(not table.wide for table in made.tables)
    screen.last("Wrote ", bold(made.out), f": {n_tables:,} tables, {made.n_files:,} files")
    if made.unnamed:
        left = ", ".join(f"{level} {n:,}" for level, n in made.unnamed.items())
        screen.say(f"{made.n_named:,} areas have a name; without one: {left}.")
    rows = [
        ("tables/, areas/", "one row an area and answer"),
        ("wide/", "one row an area, for maps"),
        ("dictionary.csv", "what every column says"),
        ("codes.csv", "labels and their groups"),
        ("datapackage.json", "the same for programs"),
    ]
    screen.pairs(rows)
    if made.meaning:
        screen.say(made.meaning)
    return EXIT_OK
