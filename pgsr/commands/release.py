"""`pgsr release`: one release of group sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from pgsr.prepared import Release
    from topdown.progress import Report


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
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option(
    "--groups",
    type=click.Path(path_type=Path),
    help="user,unit,region,quantity; unit,region,size; or region,size,count.",
)
@click.option("--hierarchy", type=click.Path(path_type=Path), help="Table of region, parent, level.")
@click.option("--mechanism", help="tracking+parent (default), tracking+parent+rows, tracking, M_c^dp, ...")
@click.option("--epsilon", help='Exact budget, such as "1/2".')
@click.option("--rho", help="Budget of discrete Gaussian noise, instead of epsilon.")
@click.option("--sizes", type=int, help="Number of sizes N; public.")
@click.option("--smallest", type=int, help="Smallest size, 0 or 1 (default).")
@click.option("--too-large", type=click.Choice(["refuse", "top-code"]), help="Groups past the last size.")
@click.option("--total", type=int, help="Public number of groups, checked against the data.")
@click.option(
    "--public", type=click.Path(path_type=Path), help="Table of region, groups: public totals, kept exactly."
)
@click.option("--shares", multiple=True, help="Share of the budget of each level, root first.")
@click.option(
    "--direction",
    type=click.Choice(["tail", "cumulative"]),
    help="Sums from the largest size (default) or smallest.",
)
@click.option(
    "--relations",
    multiple=True,
    type=click.Choice(["move", "new", "dropped", "household", "appears"]),
    help="Neighbour steps that the noise covers; default move, and new unless size 0 is listed.",
)
@click.option(
    "--calibration",
    type=click.Choice(["correct", "published"]),
    help="published: not private; only with --simulate.",
)
@click.option("--unit", help="Who adds one to the size of a group: person (default), job, taxi.")
@click.option("--data-set", help="Name of the confidential data set.")
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="Ledger of the data set (default: beside --groups)."
)
@click.option("--ledger-id", help="Id of the ledger, as pgsr ledger printed it.")
@click.option(
    "--witness",
    type=click.Path(path_type=Path),
    help="Folder of the ledger's witness (default: that of --groups).",
)
@click.option(
    "--limit",
    help="Most that may ever be charged to the data set (default: this release, what a crash tore included).",
)
@click.option("--limit-reason", help="Why the limit is what it is.")
@click.option(
    "--simulate", type=int, metavar="SEED", help="On made-up or public groups; NOT-A-RELEASE, not charged."
)
@click.option(
    "--truth-is-public", metavar="REASON", help="With --simulate: why unmarked groups are public; stamped."
)
@click.option("--resume", is_flag=True, help="Go on with an interrupted run in --out.")
@click.option("--again", is_flag=True, help="Spend a second time on a release the ledger holds already.")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column of the tables that is not read.")
@click.option("--out", type=click.Path(path_type=Path), help="New folder for the release.")
def release(screen: Screen, run: Path | None, *, again: bool, resume: bool, **options: Any) -> int:
    """Release the number of groups of every size in every region.

    The data are checked before the ledger is opened; a durable intent precedes the first draw.
    """
    from pgsr.runfile import settings_of
    from topdown.screen.bars import follow

    given = {key: value for key, value in options.items() if value not in (None, ())}
    settings = settings_of(run, given)
    for needed in ("groups", "hierarchy", "sizes", "out"):
        if needed not in settings:
            raise ConfigError(
                f"{needed} is missing", code="C165", fix=f"add --{needed}, or give it in the run file"
            )
    progress = follow(screen)
    made = _make(settings, again=again, resume=resume, report=progress)
    progress.close()
    _show(screen, made)
    return EXIT_OK


def _make(settings: dict[str, Any], *, again: bool, resume: bool, report: Report) -> Release:
    from pgsr.charge import tells_what_was_spent
    from pgsr.make import release, simulate
    from pgsr.runfile import ledger_of, plan_of, policy_of, source_of

    @tells_what_was_spent
    def made() -> Release:
        plan, source, out = plan_of(settings), source_of(settings), settings["out"]
        if "simulate" in settings:
            why = settings.get("truth_is_public", "")
            return simulate(plan, source, settings["simulate"], out, truth_is_public=why, report=report)
        policy = policy_of(settings, again=again, resume=resume)
        return release(plan, source, out, ledger_of(settings), policy, report=report)

    return made()


def _show(screen: Screen, made: Release) -> None:
    from msgspec import convert

    from pgsr.documents.release import Release as ReleaseDocument
    from pgsr.documents.shared import Privacy
    from topdown import __version__
    from topdown.screen import figures
    from topdown.screen.look import FAIL, OK

    plan, noise = made.prepared, made.calibration
    name = "epsilon" if noise.noise == "geometric" else "rho"
    screen.document(
        ReleaseDocument(
            engine=__version__,
            release=made.is_release,
            stamp=made.stamp,
            folder=str(made.folder),
            mechanism=plan.mechanism.name,
            plan_hash=plan.plan_hash,
            n_regions=plan.hierarchy.tree.n_nodes,
            n_sizes=plan.sizes.n_sizes,
            total=plan.total,
            charged=str(made.charged),
            n_attempts=made.n_attempts,
            privacy=convert(plan.sections["privacy"], Privacy),
        )
    )
    private = f"{figures.loss(name, noise.loss)}, exact {noise.loss}"
    if not noise.private:
        private = f"NOT private as claimed: true {figures.loss(name, noise.loss)} at claim {noise.claimed}"
    charged = [("charged", f"{figures.loss(name, made.charged)}; a part was torn by a crash and drawn again")]
    stated = plan.sections["privacy"]
    screen.pairs(
        [
            ("mechanism", f"{plan.mechanism.name}; optimality: {plan.mechanism.claim}"),
            ("privacy", private),
            *(charged if made.n_attempts > 1 else ()),
            *(_promise(secret) for secret in stated["secrets"]),
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
    screen.next((f"pgsr verify {made.folder}", "check it from its files alone"))


def _promise(secret: dict[str, Any]) -> tuple[str, str]:
    """Return the line of one neighbour step: what it costs and how well it can be guessed, or what discloses it."""
    if secret["status"] == "disclosed":
        return "disclosed", f"{secret['name']}; {secret['sentence']}"
    ((delta, (_, high)),) = secret["epsilon"].items()
    at = "" if delta == "0" else f" at δ {delta}"
    guess = f"ε at most {high}{at}; guessed rightly at most {secret['right_in_100']} times in 100"
    return secret["status"], f"{secret['name']}: {guess}"
