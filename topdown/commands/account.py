"""`topdown account`: the exact privacy loss of a composition, without a plan."""

from __future__ import annotations

from typing import Any

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen


@command(
    "account",
    examples=(
        ('topdown account --rho "11/10000*20,73/10000*18" --delta 1e-10', "20 and 18 measurements."),
        ("topdown account --dhc2020 --proxy", "The 2020 DHC persons release, one path."),
    ),
)
@click.option("--rho", metavar="R*N,...", help="rho of each measurement, and how many have it.")
@click.option("--dhc2020", is_flag=True, help="The published allocations of the 2020 DHC persons release.")
@click.option("--proxy", is_flag=True, help="With --dhc2020: the un-bypassed path only, not all 946 pairs.")
@click.option("--epsilon", "epsilons", multiple=True, help="Give delta at this epsilon; may be repeated.")
@click.option("--delta", "deltas", multiple=True, help="Give epsilon at this delta; may be repeated.")
@click.option("--alpha", "alphas", multiple=True, help="Give the misses of a test with these false alarms.")
@click.option("--engine", default="auto", show_default=True, help="How to compute.")
@click.option(
    "--digits", type=click.IntRange(6, 1000), default=17, show_default=True, help="Of the ball engines."
)
def account(
    screen: Screen,
    *,
    rho: str | None,
    dhc2020: bool,
    proxy: bool,
    epsilons: tuple[str, ...],
    deltas: tuple[str, ...],
    alphas: tuple[str, ...],
    engine: str,
    digits: int,
) -> int:
    """Compute the exact privacy loss of composed measurements.

    Every answer is a pair of numbers with the exact value between them.
    """
    from topdown.accountant import commands as accountant

    if (rho is None) != dhc2020 or (proxy and not dhc2020) or (dhc2020 and (epsilons or alphas)):
        raise ConfigError(
            "give either --rho, or --dhc2020 with --delta and --proxy only",
            code="C005",
            fix="see: topdown account --help",
        )
    if dhc2020:
        document: dict[str, Any] = accountant.dhc2020(deltas or ("1e-10",), proxy=proxy)
        screen.document(document)
        _show_dhc(screen, document)
        return EXIT_OK
    document = accountant.account(
        rho or "", epsilons=epsilons, deltas=deltas, alphas=alphas, engine=engine, digits=digits
    )
    screen.document(document)
    _show(screen, document)
    return EXIT_OK


def _show(screen: Screen, document: dict[str, Any]) -> None:
    from topdown.screen.layout import Column
    from topdown.screen.look import bold

    n = document["n_measurements"]
    screen.say(bold(f"{n:,} measurement{'s' if n != 1 else ''}"), f", ρ {document['rho']} in all, exact")
    screen.blank()
    names = (("epsilon", "ε at δ"), ("delta", "δ at ε"), ("trade_off", "misses at false alarms"))
    rows = [
        (f"{name} {given}", low, high) for key, name in names for given, (low, high) in document[key].items()
    ]
    screen.table([Column(""), Column("not below"), Column("not above")], rows)
    _usual(screen, document["usual"])
    screen.blank()
    screen.last(document["sentence"], symbol="")


def _show_dhc(screen: Screen, document: dict[str, Any]) -> None:
    from topdown.screen.layout import Column
    from topdown.screen.look import bold

    pairs = f"{document['n_pairs']:,} pairs of {document['n_paths']:,} paths"
    screen.say(bold("2020 DHC persons"), f", {pairs}, ρ {document['rho']} on the un-bypassed path")
    screen.blank()
    rows = []
    for delta, worst in document["worst"].items():
        rows.append((f"worst ε at δ {delta}, paths {' and '.join(worst['paths'])}", *worst["epsilon"]))
        rows.append((f"un-bypassed ε at δ {delta}", *document["unbypassed"][delta]))
    screen.table([Column("", wraps=True), Column("not below"), Column("not above")], rows)
    _usual(screen, document["usual"])
    low, high = next(iter(document["worst"].values()))["epsilon"]
    screen.blank()
    screen.last(f"ε between {low} and {high}", symbol="")


def _usual(screen: Screen, usual: dict[str, Any]) -> None:
    from topdown.screen.look import dim

    for delta, value in usual["bun_steinke"].items():
        tight = usual["canonne_kamath_steinke"][delta]
        screen.say(dim(f"usual formulas at δ {delta}: {value} (Bun, Steinke), {tight} (Canonne, Kamath, Steinke)"),
                   indent=2, hang=4)  # fmt: skip
