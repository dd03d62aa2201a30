"""`topdown plan` and `topdown tune`: everything about a release before anything is spent, and shares that suit it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click
from msgspec import UNSET, structs

import topdown
from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import ANY_PATH, FILE, base_option
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import Column, bold, numbers
from topdown.errors import EXIT_OK, DataError, quoted

EXIT_DIFFERS = 5


@command(
    "plan",
    examples=(
        ("topdown plan run.toml", "Show the plan and save it as plan.json beside the run file."),
        ("topdown plan more.toml --base release/", "Show the plan of an extension (topdown extend)."),
        ("topdown plan run.toml --diff old/plan.json", "Mark what changed since an older plan."),
        (
            "topdown plan run.toml --compare-noise 1:1/1000000",
            "Compare two kinds of noise, both at epsilon 1 and delta 1/1000000.",
        ),
        ("topdown plan a.toml --compare b.toml", "Show costs, noise and errors of two plans side by side."),
        ("topdown plan run.toml --budget-for 5", "Find the rho that costs at most epsilon 5 at delta 1e-10."),
        (
            "topdown plan run.toml --report plan.html --grid 1,2,4,8",
            "Write error and risk at four epsilons as a page for those who decide.",
        ),
        (
            "topdown plan run.toml --exit-code --json",
            "For scripts: exit code 5 if the saved plan is another one.",
        ),
    ),
    exits=(0, 2, 3, 5),
    groups={
        "Compare": ("old", "compare", "compare_noise", "exit_code"),
        "Decide on a budget": ("budget_for", "page", "grid"),
    },
)
@click.argument("run_file", metavar="RUN.toml", type=FILE)
@base_option
@click.option("--details", is_flag=True, help="All queries, with exact losses and variances.")
@click.option("--diff", "old", metavar="OLD.json", type=ANY_PATH, help="Compare with another plan.")
@click.option("--compare", metavar="OTHER.toml", type=FILE, help="Compare with the plan of another run file.")
@click.option(
    "--compare-noise",
    metavar="[E:]D",
    help="Compare with the best noise for single counts, both at delta D and epsilon E (the plan's own without it).",
)
@click.option(
    "--budget-for",
    metavar="E[:D]",
    help="The budget that costs at most epsilon E at delta D (1e-10 without it), all shares as they are.",
)
@click.option(
    "--report",
    "page",
    metavar="FILE",
    type=FILE,
    help="Write error and risk over a grid of epsilon as a page, with those of --compare beside.",
)
@click.option(
    "--grid",
    metavar="E,E..[:D]",
    default="1,2,4,8,16",
    show_default=True,
    help="Epsilons of --report, at delta D (1e-10 without it).",
)
@click.option("--exit-code", is_flag=True, help="Save nothing; exit 5 if the saved plan differs.")
@click.option("--final", is_flag=True, help="Refuse answers that are still open.")
@click.option("--out", metavar="FILE", type=ANY_PATH, help="Where to save the plan.")
def plan_command(
    screen: Screen,
    run_file: Path,
    *,
    base: Path | None,
    details: bool,
    old: Path | None,
    compare: Path | None,
    compare_noise: str | None,
    budget_for: str | None,
    page: Path | None,
    grid: str,
    exit_code: bool,
    final: bool,
    out: Path | None,
) -> int:
    """Show what a release would measure, at what cost; spend nothing.

    Opens the run file, the public tables and, for an extension, the base release; never the confidential records.
    """
    planned = topdown.plan(run_file, base=base, final=final)
    compared = app.read_plan(old) if old else None
    summary = planned.summary
    noise = None if compare_noise is None else app.noise_comparison(planned, compare_noise)
    wished = None if budget_for is None else app.budget_for_wish(planned, budget_for)
    other = None if compare is None else topdown.plan(compare)
    beside = None if other is None else planned.compare(other)
    if page is not None:
        with follow(screen, patient=True) as progress:
            app.write_decision(
                planned.prepared,
                page,
                *app.grid_of_wish(grid),
                other=None if other is None else other.prepared,
                report=progress,
            )
    target = out or run_file.parent / "plan.json"
    saved = app.read_plan(target) if exit_code and target.exists() else None
    differs = None if not exit_code else saved is None or bool(app.changes(saved, planned.plan))
    unsaved = ""  # why: a plan can be looked at where nothing may be written
    try:
        if not exit_code:
            planned.save(target)
    except DataError as error:
        if out is not None or error.code != "D050":
            raise
        unsaved = error.text
    found = None if compared is None else app.changes(compared, planned.plan)
    screen.document(
        structs.replace(
            summary,
            saved=None if exit_code or unsaved else str(target),
            differs=differs,
            noise_compared=UNSET if noise is None else noise.document(),
            budget_for=UNSET if wished is None else wished.document(),
            compared=UNSET if beside is None else beside.document(),
            changes=UNSET if found is None else found,
        )
    )
    app.show_plan(screen, summary, details=details)
    if noise is not None:
        app.show_noise_comparison(screen, planned.plan, noise)
    if wished is not None:
        app.show_budget(screen, wished)
    if beside is not None:
        app.show_compared(screen, beside, str(compare))
    if found is not None:
        screen.heading("Changed", f" since {old}" if found else f" since {old}: nothing")
        app.show_changes(screen, found, everything=details)
    screen.blank()
    if page is not None:
        screen.say(f"Report for those who decide: {page}")
    screen.last(*app.plan_line(summary), symbol="")
    if exit_code:
        than = "differs" if differs else "is the same"
        screen.say(f"The plan saved in {target} {than}." if saved else f"There is no saved plan at {target}.")
        return EXIT_DIFFERS if differs else EXIT_OK
    exactly = "this plan" if base or unsaved else "exactly this plan"
    where = f"Not saved ({unsaved}; --out FILE saves it elsewhere)" if unsaved else f"Saved to {target}"
    screen.say(f"Nothing is spent yet. {where}; to run {exactly}:")
    if screen.talks:
        line = f"topdown generate {quoted(run_file if unsaved else target)} --out release/"
        more = base and f"topdown extend {quoted(run_file)} --base {quoted(base)} --out more/"
        screen.out.commands([(more or line, "")])
    return EXIT_OK


@command(
    "tune",
    examples=(
        ("topdown tune run.toml --out tuned.toml", "Make the worst table of all levels as good as can be."),
        ("topdown tune run.toml --out tuned.toml --goals goals.toml", "Let some tables matter more."),
    ),
    exits=(0, 2, 3),
)
@click.argument("run_file", metavar="RUN.toml", type=FILE)
@click.option("--out", metavar="FILE", type=ANY_PATH, required=True, help="The run file to write.")
@click.option("--goals", metavar="FILE", type=ANY_PATH, help="Tables that matter more.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def tune_command(screen: Screen, run_file: Path, *, out: Path, goals: Path | None, force: bool) -> int:
    """Write a run file with shares that suit the tree estimate.

    Opens the run file and the public tables; neither records nor ledger. The budget stays what it is; only its parts
    change.
    """
    with follow(screen, patient=True) as progress:
        found = app.opened(run_file).tune(out, goals=goals, force=force, report=progress).document
    screen.document(found)
    names = list(dict.fromkeys(q.query for level in found.levels for q in level.queries))
    screen.heading("Shares", ", per cent, of the budget and of each level; before > after")
    of = {
        (q.query, level.level): _share_change(q.before, q.after)
        for level in found.levels
        for q in level.queries
    }
    rows = [["level", *(_share_change(level.before, level.after) for level in found.levels)]]
    rows += [[name, *(of.get((name, level.level), "-") for level in found.levels)] for name in names]
    columns = [Column("", wraps=True), *numbers(*(level.level for level in found.levels))]
    screen.table(columns, rows)
    screen.heading("Estimates", ", mean standard deviation; before > after")
    levels = [level.level for level in found.levels]
    deviation = {(at.query, at.level): f"{at.before:,.1f} > {at.after:,.1f}" for at in found.deviations}
    lines = [
        [name, *(deviation[name, level] for level in levels)]
        for name in dict.fromkeys(at.query for at in found.deviations)
    ]
    screen.table([Column("table", wraps=True), *numbers(*levels)], lines)
    screen.blank()
    screen.last("Wrote ", bold(str(out)), ": the budget of ", bold(str(run_file)), " in other parts.")
    screen.say(
        "Deviations are those of estimates. A release is whole and at least 0 besides, which changes small counts: "
        "simulate it first."
    )
    screen.next(
        (f"topdown simulate {quoted(out)} --truth FILE --out try/", "its errors on made-up or public records")
    )
    return EXIT_OK


def _share_change(before: str, after: str) -> str:
    return " > ".join(figures.decimal(100 * Fraction(share), 1) for share in (before, after))
