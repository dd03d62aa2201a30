"""`topdown audit`: the exact privacy loss of a plan or release, and whether its certificate says the same."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import topdown
from topdown.commands.base import command
from topdown.commands.files import Picture
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, ConfigError, InternalError
from topdown.screen.console import Screen

MOST_SHOWN = 5  # contradictions on the screen; topdown verify lists them all

if TYPE_CHECKING:
    from topdown import Audit
    from topdown.screen.layout import Column
    from topdown.screen.look import Chunk


@command(
    "audit",
    examples=(
        ("topdown audit release/", "The exact loss of a release, and what its certificate states."),
        ("topdown audit run.toml --delta 1e-10 --delta 1e-15", "The exact loss of a plan, at two deltas."),
        ("topdown audit --ledger ledger/people.jsonl", "Everything ever released from a data set, together."),
        ("topdown audit more.toml --base release/", "An extension, alone and together with its base."),
        ("topdown audit release/ --runs 100000", "The drawing code itself, on made-up neighbours."),
    ),
    exits=(0, 1, 2),
)
@click.argument("source", metavar="RUN.toml|plan.json|DIR", required=False, type=click.Path(path_type=Path))
@click.option(
    "--ledger",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Everything ever released from a data set, by its ledger, together.",
)
@click.option(
    "--base",
    metavar="RELEASE",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The published release that RUN.toml extends.",
)
@click.option(
    "--delta", "deltas", multiple=True, default=("1e-10",), show_default=True, help="Repeat for more."
)
@click.option(
    "--runs",
    metavar="N",
    type=int,
    help="Draw N times on each of two made-up neighbours, many pairs; hold what it shows against the claim.",
)
@click.option("--plot", metavar="FILE.svg", type=Picture(), help="Draw the trade-off curve.")
@click.option("--force", is_flag=True, help="Replace an existing plot.")
def audit(
    screen: Screen,
    *,
    source: Path | None,
    ledger: Path | None,
    base: Path | None,
    deltas: tuple[str, ...],
    runs: int | None,
    plot: Path | None,
    force: bool,
) -> int:
    """Compute the exact privacy loss of a plan or release.

    Together with the releases it extends. Every number is certified: it lies between two bounds that are
    printed or in the JSON document. What exact statistics give away is named and has no number.

    With --runs, the code that draws a release is run on made-up neighbours; no records are opened.
    """
    if (source is None) == (ledger is None) or (ledger is not None and (base or plot or runs is not None)):
        raise ConfigError(
            "give a run file, plan or release, or --ledger FILE alone",
            code="C005",
            fix="see: topdown audit --help",
        )
    if ledger is not None:
        from topdown.commands.audit_ledger import audit_ledger

        return audit_ledger(screen, ledger, deltas)
    if source is None:
        raise InternalError("no source", code="X001", fix="report it")
    if runs is not None:
        from topdown.commands.audit_by_runs import audit_by_runs

        if plot is not None:
            raise ConfigError("--runs draws no curve", code="C005", fix="give --plot without --runs")
        return audit_by_runs(screen, source, base, deltas, runs)
    found = topdown.audit(source, base=base, deltas=deltas)
    if plot is not None:
        from topdown.accountant.svg import trade_off_svg
        from topdown.commands.files import write_new
        from topdown.publish.certified import first_loss

        policy = found.policy
        write_new(plot, trade_off_svg(first_loss(policy), policy.plan.release.title), force=force)
    screen.document(found.document)
    _show(screen, found)
    return EXIT_CHECK_FAILED if found.agrees is False else EXIT_OK


def _show(screen: Screen, found: Audit) -> None:
    from topdown.commands.right_choices import disclosed, fitting
    from topdown.screen.look import FAIL, OK, WARN, bold, dim

    policy, said, wrong = found.policy, found.statement, found.contradictions
    plan = policy.plan
    change = {"bounded": "replace one record", "add_remove": "add or remove one record"}[plan.neighbours]
    based = ", with what it extends" if policy.bases else ""
    exact = "sums of ε and δ" if "composed" in said else "exact"
    screen.say(bold("What the plan costs"), f"{based}, {exact}, by plan {plan.plan_hash[:8]} ({change})")
    for delta in said["deltas"]:
        screen.blank()
        screen.table(*(_pairs(said) if "composed" in said else _table(said, delta)))
    for one in said.get("composed", [])[:-1]:
        screen.say(f"δ {one['delta']} at ε {one['epsilon']}, from composed losses", indent=2)
    if plan.loss_name == "rho" and not policy.bases:
        screen.say(dim("usual: rho + 2 sqrt(rho ln(1/delta)), never below the exact value"), indent=2)
    fits = fitting(said["secrets"], public_facts=policy.has_public_facts)
    if fits:
        screen.say(fits, indent=2)
    for line in disclosed(said["secrets"]):
        screen.item(WARN, line)
    if wrong is not None:
        symbol, word = (FAIL, "contradicts") if wrong else (OK, "agrees with")
        value = "what follows from the plan" if "composed" in said else "the exact value"
        screen.item(symbol, f"the certificate {word} {value}")
        for line in wrong[:MOST_SHOWN]:
            screen.say(line, indent=2)
    if screen.verbose:
        for secret in said["secrets"]:
            for delta, (low, high) in secret.get("epsilon", {}).items():
                screen.say(
                    f"{secret['name']}: ε in [{low}, {high}] at δ {delta}, {secret['method']}",
                    indent=2,
                    hang=4,
                )
    screen.blank()
    screen.last(said["sentence"], symbol="")


def _pairs(said: dict[str, Any]) -> tuple[list[Column], list[tuple[Chunk, ...]]]:
    """Return columns and rows where losses are pairs: every secret has a delta of its own."""
    from topdown.screen import figures
    from topdown.screen.layout import Column

    columns = [Column("secret", wraps=True), Column("status")]
    columns += [Column(name, right=True) for name in ("ε", "δ", "right in 100")]
    rows: list[tuple[Chunk, ...]] = []
    for secret in said["secrets"]:
        row: list[Chunk] = ["-"] * 3
        if secret["status"] != "disclosed":
            ((_, (_, high)),) = secret["epsilon"].items()
            row = [
                figures.decimal(Fraction(high), 3, up=True),
                figures.tiny(Fraction(secret["delta"])) if Fraction(secret["delta"]) else "0",
                str(secret["right_in_100"]),
            ]
        rows.append((secret["name"], secret["status"], *row))
    return columns, rows


def _table(said: dict[str, Any], delta: str) -> tuple[list[Column], list[tuple[Chunk, ...]]]:
    """Return columns and rows of one table: every secret, its status, and its numbers if it has any."""
    from topdown.screen import figures
    from topdown.screen.layout import Column

    usual = "usual" in said["secrets"][0] and not said["steps"]
    alone = said["steps"][-1]["secrets"] if said["steps"] else [None] * len(said["secrets"])
    names = ["status", "ε at every δ" if delta == "0" else f"ε at δ {delta}"]
    names += ["usual"] if usual else []
    names += ["right in 100"] + (["this step"] if said["steps"] else [])
    columns = [Column("secret", wraps=True), *(Column(name, right=i > 0) for i, name in enumerate(names))]
    rows: list[tuple[Chunk, ...]] = []
    for secret, step in zip(said["secrets"], alone, strict=True):
        row: list[Chunk] = [secret["name"], secret["status"]]
        if secret["status"] == "disclosed":
            row += ["-"] * (len(columns) - 2)
        else:
            row.append(figures.decimal(Fraction(secret["epsilon"][delta][1]), 3, up=True))
            if usual:
                row.append(figures.decimal(Fraction(secret["usual"]["bun_steinke"][delta]), 3, up=True))
            row.append(str(secret["right_in_100"]))
            row += [] if step is None else [str(step["right_in_100"])]
        rows.append(tuple(row))
    return columns, rows
