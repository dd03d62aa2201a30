"""`topdown audit`: the exact privacy loss of a plan or release, and whether its certificate says the same."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from topdown.commands.base import command
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.plan.plan import Plan


@command(
    "audit",
    examples=(
        ("topdown audit release/", "The exact loss of a release, and what its certificate states."),
        ("topdown audit run.toml --delta 1e-10 --delta 1e-15", "The exact loss of a plan, at two deltas."),
    ),
    exits=(0, 1, 2),
)
@click.argument("source", metavar="RUN.toml|plan.json|DIR", type=click.Path(path_type=Path))
@click.option(
    "--delta", "deltas", multiple=True, default=("1e-10",), show_default=True, help="Repeat for more."
)
@click.option("--plot", metavar="FILE.svg", type=click.Path(path_type=Path), help="Draw the trade-off curve.")
@click.option("--force", is_flag=True, help="Replace an existing plot.")
def audit(screen: Screen, *, source: Path, deltas: tuple[str, ...], plot: Path | None, force: bool) -> int:
    """Compute the exact privacy loss of a plan or release.

    Every number is certified: it lies between two bounds that are printed or in the JSON document.
    """
    from topdown.accountant.commands import audit_static, secrets_first
    from topdown.publish.certified import plan_measurements

    plan = _plan(source)
    rows = plan_measurements(plan)
    document = audit_static(rows, deltas, neighbours=plan.neighbours)
    agrees = _certificate(source, document)
    if plot is not None:
        from topdown.accountant.svg import trade_off_svg
        from topdown.commands.files import write_new

        write_new(plot, trade_off_svg(secrets_first(rows, plan.neighbours), plan.release.title), force=force)
    screen.document(document | {"plan_hash": plan.plan_hash, "certificate_agrees": agrees})
    _show(screen, plan, document, deltas, agrees)
    return EXIT_CHECK_FAILED if agrees is False else EXIT_OK


def _plan(source: Path) -> Plan:
    from topdown.commands.plan_file import open_plan
    from topdown.made_up import refuse_simulation
    from topdown.plan.plan import plan_from_document
    from topdown.plan.prepare import read_plan_document

    if source.is_dir():
        refuse_simulation(source)
        return plan_from_document(read_plan_document(source / "plan.json"))
    if source.suffix == ".json":
        return plan_from_document(read_plan_document(source))
    return open_plan(source).context.plan


def _certificate(source: Path, document: dict[str, Any]) -> bool | None:
    """Tell whether the certified epsilons of a release can be true; None if it states none."""
    try:
        stated = json.loads((source / "certificate.json").read_text(encoding="utf-8"))["privacy"]["epsilon"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(stated, dict):
        return None
    exact = document["secrets"][0]["epsilon"]
    both = [(stated[d], exact[d]) for d in exact if d in stated]
    if not both:
        return None
    return all(Fraction(a[0]) <= Fraction(b[1]) and Fraction(b[0]) <= Fraction(a[1]) for a, b in both)


def _show(
    screen: Screen, plan: Plan, document: dict[str, Any], deltas: tuple[str, ...], agrees: bool | None
) -> None:
    from topdown.screen import figures
    from topdown.screen.layout import Column
    from topdown.screen.look import FAIL, OK, bold, dim

    change = {"bounded": "replace one record", "add_remove": "add or remove one record"}[plan.neighbours]
    screen.say(bold("What the plan costs"), f", exact, by plan {plan.plan_hash[:8]} ({change})")
    for delta in deltas:
        screen.blank()
        columns = [Column("secret", wraps=True), Column(f"ε at δ {delta}", right=True)]
        columns += [Column("usual", right=True), Column("right in 100", right=True)]
        rows = []
        for secret in document["secrets"]:
            exact = figures.decimal(Fraction(secret["epsilon"][delta][1]), 3, up=True)
            usual = figures.decimal(Fraction(secret["usual"]["bun_steinke"][delta]), 3, up=True)
            rows.append((secret["name"], exact, usual, str(secret["right_in_100"])))
        screen.table(columns, rows)
    screen.say(dim("usual: rho + 2 sqrt(rho ln(1/delta)), never below the exact value"), indent=2)
    if agrees is not None:
        symbol, word = (OK, "agrees with") if agrees else (FAIL, "contradicts")
        screen.item(symbol, f"the certificate {word} the exact value")
    if screen.verbose:
        for secret in document["secrets"]:
            for delta in deltas:
                low, high = secret["epsilon"][delta]
                screen.say(
                    f"{secret['name']}: ε in [{low}, {high}] at δ {delta}, {secret['method']}",
                    indent=2,
                    hang=4,
                )
    screen.blank()
    screen.last(document["sentence"], symbol="")
