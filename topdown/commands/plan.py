"""`topdown plan`: everything about a release before anything is spent."""

from __future__ import annotations

from pathlib import Path

import click

import topdown
from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

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
            "topdown plan run.toml --exit-code --json",
            "For scripts: exit code 5 if the saved plan is another one.",
        ),
    ),
    exits=(0, 2, 3, 5),
)
@click.argument("run_file", metavar="RUN.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--base",
    metavar="RELEASE",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The published release that the run extends.",
)
@click.option("--details", is_flag=True, help="All queries, with exact losses and variances.")
@click.option(
    "--diff", "old", metavar="OLD.json", type=click.Path(path_type=Path), help="Compare with another plan."
)
@click.option(
    "--compare",
    metavar="OTHER.toml",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Show another run file's plan beside this one.",
)
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
@click.option("--exit-code", is_flag=True, help="Save nothing; exit 5 if the saved plan differs.")
@click.option("--final", is_flag=True, help="Refuse answers that are still open.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Where to save the plan.")
def plan(
    screen: Screen,
    run_file: Path,
    *,
    base: Path | None,
    details: bool,
    old: Path | None,
    compare: Path | None,
    compare_noise: str | None,
    budget_for: str | None,
    exit_code: bool,
    final: bool,
    out: Path | None,
) -> int:
    """Show what a release would measure, at what cost; spend nothing.

    Opens the run file, the public tables and, for an extension, the base release; never the confidential records.
    """
    from topdown.api.plan_file import changes
    from topdown.commands.plan_budget import find_budget, show_budget
    from topdown.commands.plan_changes import show_changes
    from topdown.commands.plan_compare import show_compared
    from topdown.commands.plan_noise import compare_as, show_noise
    from topdown.commands.plan_screen import plan_line, show_plan
    from topdown.plan.bases import read_plan_document

    planned = topdown.plan(run_file, base=base, final=final)
    document = planned.plan.to_document()
    compared = read_plan_document(old) if old else None
    summary = planned.summary
    noise = None if compare_noise is None else compare_as(planned, compare_noise)
    wished = None if budget_for is None else find_budget(planned, budget_for)
    beside = None if compare is None else planned.compare(topdown.plan(compare))
    target = out or run_file.parent / "plan.json"
    saved = read_plan_document(target) if exit_code and target.exists() else None
    differs = None if not exit_code else saved is None or bool(changes(saved, document))
    if not exit_code:
        planned.save(target)
    found = None if compared is None else changes(compared, document)
    screen.document(
        summary
        | {"saved": None if exit_code else str(target), "differs": differs}
        | ({} if noise is None else {"noise_compared": noise.document()})
        | ({} if wished is None else {"budget_for": wished.document()})
        | ({} if beside is None else {"compared": beside.document()})
        | ({} if found is None else {"changes": [{"key": c.key, "old": c.old, "new": c.new} for c in found]})
    )
    show_plan(screen, summary, details=details)
    if noise is not None:
        show_noise(screen, planned.plan, noise)
    if wished is not None:
        show_budget(screen, wished)
    if beside is not None:
        show_compared(screen, beside, str(compare))
    if found is not None:
        screen.heading("Changed", f" since {old}" if found else f" since {old}: nothing")
        show_changes(screen, found, everything=details)
    screen.blank()
    screen.last(*plan_line(summary), symbol="")
    if exit_code:
        screen.say(_verdict(target, saved is not None, bool(differs)))
        return EXIT_DIFFERS if differs else EXIT_OK
    exactly = "this plan" if base else "exactly this plan"
    screen.say(f"Nothing is spent yet. Saved to {target}; to run {exactly}:")
    if screen.talks:
        line = f"topdown extend {run_file} --base {base} --out more/" if base else ""
        screen.out.commands([(line or f"topdown generate {target} --out release/", "")])
    return EXIT_OK


def _verdict(target: Path, exists: bool, differs: bool) -> str:
    if not exists:
        return f"There is no saved plan at {target}."
    return f"The plan saved in {target} {'differs' if differs else 'is the same'}."
