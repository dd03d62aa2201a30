"""`pgsr ledger`, `release`, `verify`, `export`, `microdata`: make a ledger, spend it once, check and use what came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import click

from pgsr.group_checks import verify as check_release
from pgsr.group_files import release_document, write_groups
from pgsr.group_report import check_group_report, export_groups, write_group_report
from pgsr.neighbours import RELATIONS, Relation
from pgsr.prepared_release import Prepared, Release
from pgsr.releasing import release as release_groups
from pgsr.releasing import simulate, with_spend_note
from pgsr.run_settings import (
    RunFile,
    binding_of,
    ledger_place,
    new_ledger,
    refuse_unnamed,
    settings_of,
    write_settings,
)
from topdown.app.commands.check_commands import show_verified
from topdown.app.commands.command import StoppedRun, command, packed, said_when_stopped, with_options
from topdown.app.commands.ledger_command import (
    ACTIONS,
    Action,
    Told,
    document_ledger,
    examples_of_notes,
    former_of,
    ledger_state,
    refuse_other_options,
    show_ledger,
    told_options,
)
from topdown.app.commands.options import ANY_PATH
from topdown.app.commands.report_command import (
    export_options,
    report_options,
    show_export,
    show_report,
    show_report_check,
)
from topdown.app.commands.spending import confirm
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import FAIL, OK, bold
from topdown.errors import EXIT_OK, quoted
from topdown.privacy.ledger import LedgerLocation
from topdown.progress import Report
from topdown.verify.findings import verify_result

NOT_CHECKED = (
    "that the noisy answers were drawn from the groups",
    "that the counts are what the mechanism makes of them (but of M_H^dp)",
)
data_options = with_options(
    click.option(
        "--groups",
        type=ANY_PATH,
        help="File of groups: user,unit,region,quantity; unit,region,size; or region,size,count.",
    ),
    click.option("--smallest", type=int, help="Smallest size, 0 or 1 (default)."),
    click.option(
        "--relations",
        multiple=True,
        type=click.Choice(RELATIONS),
        help="Neighbour steps that the noise covers; default move, and new unless size 0 is listed.",
    ),
    click.option("--unit", help="Who adds one to the size of a group: person (default), job, taxi."),
    click.option("--data-set", help="Name of the confidential data set."),
    click.option(
        "--ledger", type=ANY_PATH, help="Its ledger (default: in a folder ledger beside the groups)."
    ),
    click.option("--ledger-id", help="Id of the ledger, as pgsr ledger printed it."),
    click.option("--registry", type=ANY_PATH, help="Folder of its registry (default: that of the groups)."),
)
"""Which data they are, and whose ledger."""
limit_options = with_options(
    click.option(
        "--rho-limit", help="Most rho of everything charged to the ledger together; else one release alone."
    ),
    click.option("--epsilon-limit", help="Most epsilon of everything together, at --delta-limit."),
    click.option("--delta-limit", help="Delta of --epsilon-limit; 0 (default): for every delta."),
)
"""The limits of a ledger, where it is made, changed and charged."""


@command(
    "ledger",
    examples=(
        ("pgsr ledger new run.toml", "Make the ledger, and write its id into the run file."),
        ("pgsr ledger new --groups groups.csv", "Make it, and print the id for --ledger-id."),
        ("pgsr ledger show run.toml --head", "One line to print with a release and keep apart."),
        (
            "pgsr ledger move run.toml --from /old/secure",
            "Write down that ledger, groups or registry were moved.",
        ),
        *examples_of_notes("pgsr"),
    ),
    exits=(0, 2),
)
@click.argument("action", metavar="|".join(ACTIONS), type=click.Choice(ACTIONS))
@click.argument("run", required=False, type=ANY_PATH)
@data_options
@limit_options
@told_options
@packed("told", Told)
def ledger_command(screen: Screen, run: Path | None, *, action: Action, told: Told, **options: Any) -> int:
    """Make the ledger of a data set, show it, or write down what happened to it. Nothing is released or spent.

    It is bound to its unit of privacy and its neighbour steps. One that is there already is checked and named.
    """
    refuse_other_options(action, told, "pgsr ledger --help")
    settings = settings_of(run, {key: value for key, value in options.items() if value not in (None, ())})
    groups = Path(settings.needed("groups"))
    relations = cast("tuple[Relation, ...] | None", settings.relations)
    binding = binding_of(settings.data_set, relations, settings.smallest, settings.unit)
    place = ledger_place(groups, binding, settings.ledger_file())
    moved = options.get("registry") is not None
    limits = settings.policy().limits
    if action == "new":
        place = _named_ledger(place, run, settings, moved)
    elif action == "take-over":
        former = former_of(place, told)
        place = _named_ledger(place, run, settings, moved, instead_of=former.ledger)
    if action != "new":
        refuse_unnamed(place)
        document_ledger(place, action, told, limits)
    state = ledger_state(place, action, limits)
    show_ledger(screen, place, state, head=told.head)
    if run is None and action in ("new", "take-over"):
        screen.say(f"For release: --ledger-id {place.id}")
    return EXIT_OK


def _named_ledger(
    place: LedgerLocation, run: Path | None, settings: RunFile, moved: bool, instead_of: str = ""
) -> LedgerLocation:
    """Make a ledger, or find the one that is there, and name it in the run file."""
    place = replace(place, id=new_ledger(place, settings.policy().limits, instead_of))
    if run is not None:
        found = {"ledger_id": place.id} if settings.ledger_id != place.id else {}
        found |= {"registry": str(place.registry_folder.absolute())} if moved else {}
        write_settings(run, found)
    return place


@command(
    "release",
    examples=(
        ("pgsr release run.toml --out release/", "Release what a run file says."),
        (
            "pgsr release --groups g.csv --hierarchy h.csv --sizes 20 --epsilon 1/2 --out release/",
            "The same without a run file.",
        ),
        ("pgsr release run.toml --out release/ --resume", "Go on after an interrupt, with the same noise."),
    ),
    exits=(0, 2, 3, 4, 130),
)
@click.argument("run", required=False, type=ANY_PATH)
@data_options
@click.option("--hierarchy", type=ANY_PATH, help="Table of region, parent, level.")
@click.option("--mechanism", help="posterior (default), tracking, M_c^dp, ...")
@click.option("--epsilon", help='Exact budget, such as "1/2".')
@click.option("--rho", help="Budget of discrete Gaussian noise, instead of epsilon.")
@click.option("--sizes", type=int, help="Number of sizes N; public.")
@click.option("--too-large", type=click.Choice(["refuse", "top-code"]), help="Groups past the last size.")
@click.option("--total", type=int, help="Public number of groups, checked against the data.")
@click.option("--public", type=ANY_PATH, help="Table of region, groups: public totals, kept exactly.")
@click.option("--shares", multiple=True, help="Share of the budget of each level, root first.")
@click.option(
    "--direction",
    type=click.Choice(["tail", "cumulative"]),
    help="Sums from the largest size (default) or smallest.",
)
@click.option(
    "--coverage",
    multiple=True,
    help="Of intervals beside counts: 0.5, 0.9, 0.95 (default), 0.99; several with one option each.",
)
@click.option(
    "--calibration",
    type=click.Choice(["correct", "published"]),
    help="published: not private; only with --simulate.",
)
@click.option("--title", help="Of the release, for people; README.txt, reports and citations show it.")
@click.option("--agency", help="Who answers for the release.")
@click.option("--contact", help="Whom to ask about it.")
@click.option("--licence", help="Under which the data may be used.")
@limit_options
@click.option("--limit-reason", help="Why the limit is what it is.")
@click.option(
    "--simulate", type=int, metavar="SEED", help="On made-up or public groups; NOT-A-RELEASE, not charged."
)
@click.option(
    "--truth-is-public", metavar="REASON", help="With --simulate: why unmarked groups are public; stamped."
)
@click.option("--approve", metavar="HASH", help="Approve the plan by 4 or more characters of its hash.")
@click.option("--yes", is_flag=True, help="Approve whatever the plan is.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run in --out.")
@click.option("--again", is_flag=True, help="Spend a second time on a release the ledger holds already.")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column of the tables that is not read.")
@click.option("--rows", type=int, help="Control total: rows of the groups, from their owner.")
@click.option("--people", type=int, help="Control total: members of all groups.")
@click.option("--sha256", help="Control total: SHA-256 of the file of groups.")
@click.option("--out", type=ANY_PATH, help="New folder for the release.")
def release_command(
    screen: Screen,
    run: Path | None,
    *,
    approve: str | None,
    yes: bool,
    again: bool,
    resume: bool,
    **options: Any,
) -> int:
    """Release the number of groups of every size in every region.

    The data are checked before the ledger is opened; a person approves the plan, on a terminal or by --approve or
    --yes; a durable intent precedes the first draw.
    """
    given = {key: value for key, value in options.items() if value not in (None, ())}
    settings = settings_of(run, given)
    for needed in ("groups", "hierarchy", "sizes", "out"):
        settings.needed(needed)
    progress = follow(screen)

    def approved(plan: Prepared) -> None:
        progress.close()
        noise = plan.calibration
        loss = figures.loss(noise.loss_name, noise.loss)
        source = settings.source()
        words = ("Plan ", bold(plan.plan_hash[:8]), f' spends {loss} of data set "{source.data_set}".')
        names = ", ".join(source.totals.names)
        agree = (
            f"The groups agree with their control totals: {names}."
            if names
            else "No control totals were given."
        )
        confirm(
            screen, plan.plan_hash, (words, (agree,)), approve, yes=yes, look="pgsr release without --approve"
        )

    made = _release_or_simulate(settings, approved, again=again, resume=resume, report=progress)
    progress.close()
    if not made.stamp:
        charged = figures.loss(made.calibration.loss_name, made.charged)
        text = f"Stopped after the release was written. {charged} is spent"
        said_when_stopped.set(
            lambda: StoppedRun(text, f"look at it with: pgsr verify {quoted(made.folder)}", charged)
        )
    _show_release(screen, made)
    return EXIT_OK


@with_spend_note
def _release_or_simulate(
    settings: RunFile, approve: Callable[[Prepared], None], *, again: bool, resume: bool, report: Report
) -> Release:
    plan, source, out = settings.plan(settings.ignore), settings.source(), Path(settings.needed("out"))
    if settings.simulate is not None:
        why = settings.truth_is_public
        return simulate(plan, source, settings.simulate, out, truth_is_public=why, report=report)
    policy, ledger = settings.policy(again=again, resume=resume), settings.ledger_file()
    return release_groups(plan, source, out, ledger, policy, approve=approve, report=report)


def _show_release(screen: Screen, made: Release) -> None:
    plan, noise = made.prepared, made.calibration
    screen.document(release_document(made))
    loss, charge = (figures.loss(noise.loss_name, amount) for amount in (noise.loss, made.charged))
    private = f"{loss}, exact {noise.loss}"
    if not noise.private:
        private = f"NOT private as claimed: true {loss} at claim {noise.claimed}"
    charged = [("charged", f"{charge}; a part was torn by a crash and drawn again")]
    stated = plan.sections["privacy"]
    screen.pairs(
        [
            ("mechanism", f"{plan.mechanism.name}; optimality: {plan.mechanism.claim}"),
            ("privacy", private),
            *(charged if made.n_attempts > 1 else ()),
            *(_step_line(secret) for secret in stated["secrets"]),
            ("exact", ", ".join(stated["conditional_on"])),
            (
                "counts",
                f"{plan.hierarchy.tree.n_nodes:,} regions × {plan.sizes.n_sizes:,} sizes, {plan.total:,} groups",
            ),
        ]
    )
    if made.stamp:
        screen.last(
            f"{made.stamp}: simulation written to {made.folder}", symbol=OK if noise.private else FAIL
        )
        return
    screen.last(f"Release written to {made.folder}", symbol=OK)
    screen.next((f"pgsr verify {quoted(made.folder)}", "check it from its files alone"))


def _step_line(secret: dict[str, Any]) -> tuple[str, str]:
    """Return the line of one neighbour step: what it costs and how well it can be guessed, or what discloses it."""
    if secret["status"] == "disclosed":
        return "disclosed", f"{secret['name']}; {secret['sentence']}"
    ((delta, (_, high)),) = secret["epsilon"].items()
    at = "" if delta == "0" else f" at δ {delta}"
    guess = f"ε at most {high}{at}; guessed rightly at most {secret['right_in_100']} times in 100"
    return secret["status"], f"{secret['name']}: {guess}"


@command(
    "verify",
    examples=(
        ("pgsr verify release/", "Check a release, as an auditor would."),
        ("pgsr verify release/ --json", "All findings, for a program."),
    ),
    exits=(0, 1, 2),
)
@click.argument("folder", metavar="DIR", type=ANY_PATH)
def verify_command(screen: Screen, folder: Path) -> int:
    """Check a release from its files alone, in whole numbers."""
    screen.say(f"Reads only the files of {folder}. Needs no confidential data and no solver.")
    start = perf_counter()
    checks = tuple(check_release(folder))
    return show_verified(
        screen, verify_result(checks, perf_counter() - start, NOT_CHECKED), folder, everything=True
    )


@command(
    "report",
    examples=(
        ("pgsr report release/ --out report.html", "Write the report of a release."),
        ("pgsr report release/ --out report.html --check", "Check a report that somebody gave you."),
    ),
    exits=(0, 1, 2),
)
@click.argument("folder", metavar="DIR", type=ANY_PATH)
@report_options
def report_command(
    screen: Screen, folder: Path, *, out: Path, language: str, force: bool, check: bool
) -> int:
    """Write a report of a release for people, as one HTML file.

    Two pages: what was measured and how people are protected; intervals by size. It is made from the published files
    alone, without scripts, and is equal for equal releases. Verify the release first.
    """
    if check:
        return show_report_check(screen, check_group_report(folder, out), out)
    made = write_group_report(folder, out, language=language, force=force)
    return show_report(screen, made, f"pgsr report {quoted(folder)}")


@command(
    "export",
    examples=(
        ("pgsr export release/ --to citation --out CITATION.cff", "How to cite a release."),
        ("pgsr export release/ --to registry", "An entry of the registry of deployments, as a draft."),
    ),
)
@click.argument("folder", metavar="DIR", type=ANY_PATH)
@export_options
def export_command(screen: Screen, folder: Path, *, to: str, out: Path | None, force: bool) -> int:
    """Write what catalogues ask of a release.

    It is made from the certificate. Numbers are rounded up, exact fractions stand beside them; what only the office
    knows is left open by name. Verify the release first.
    """
    return show_export(screen, export_groups(folder, to), to, out, force=force)


@command(
    "microdata",
    examples=(
        ("pgsr microdata release/ --out groups.parquet", "One row a released group: unit, region, size."),
        (
            "pgsr microdata release/ --out groups.parquet --json",
            "How many groups and members, for a program.",
        ),
    ),
    exits=(0, 2),
)
@click.argument("folder", metavar="DIR", type=ANY_PATH)
@click.option("--out", type=ANY_PATH, required=True, help="New Parquet file.")
def microdata_command(screen: Screen, *, folder: Path, out: Path) -> int:
    """Write one row for every group of a release, after every check. Reads published files only; costs nothing."""
    made, sizes = write_groups(folder, out)
    screen.document(made)
    more = "" if made.members_exact else f" at least: size {sizes.largest} means {sizes.largest} or more"
    screen.say(f"{made.groups:,} groups with {made.members:,} members{more}.")
    screen.last(f"Groups of {folder} written to {out}", symbol=OK)
    return EXIT_OK
