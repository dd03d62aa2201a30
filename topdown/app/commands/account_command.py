"""`topdown account`: the exact privacy loss of a composition, without a plan."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

import click

from topdown import app
from topdown.app.commands.command import command
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import Column, bold, dim
from topdown.errors import EXIT_OK, ConfigError
from topdown.formats.common import USUAL_NEIGHBOURS, Neighbours
from topdown.privacy.relation import RELATIONS, Relation


class ComposedLosses(TypedDict):
    """What is asked of a composition."""

    neighbours: Neighbours
    epsilons: tuple[str, ...]
    deltas: tuple[str, ...]
    alphas: tuple[str, ...]
    engine: str | None
    digits: int


@command(
    "account",
    examples=(
        (
            'topdown account --rho "11/10000*20,73/10000*18"',
            "20 and 18 measurements that cost a replaced record 11/10000 and 73/10000 each.",
        ),
        ("topdown account --rho 1/2 --neighbours add_remove", "One measurement; a record added or removed."),
        ("topdown account --dhc2020 --proxy", "The 2020 DHC persons release, one path."),
    ),
)
@click.option(
    "--rho",
    metavar="R*N,...",
    help="What a measurement costs in rho (zCDP of the relation, as a plan prints it), and how many cost that.",
)
@click.option(
    "--neighbours",
    type=click.Choice(list(RELATIONS)),
    default=USUAL_NEIGHBOURS,
    show_default=True,
    help="A record replaced (two counts of a measurement move by one), or added or removed (one count).",
)
@click.option(
    "--dhc2020",
    is_flag=True,
    help="The published allocations of the 2020 DHC persons release; a record replaced.",
)
@click.option("--proxy", is_flag=True, help="With --dhc2020: the un-bypassed path only, not all 946 pairs.")
@click.option("--epsilon", "epsilons", multiple=True, help="Give delta at this epsilon; may be repeated.")
@click.option("--delta", "deltas", multiple=True, help="Give epsilon at this delta; may be repeated.")
@click.option("--alpha", "alphas", multiple=True, help="Give the misses of a test with these false alarms.")
@click.option("--engine", default=None, help="How to compute; without it as topdown audit does.")
@click.option(
    "--digits", type=click.IntRange(6, 1000), default=17, show_default=True, help="Of the ball engines."
)
def account_command(
    screen: Screen, *, rho: str | None, dhc2020: bool, proxy: bool, **asked: Unpack[ComposedLosses]
) -> int:
    """Compute the exact privacy loss of composed measurements.

    rho is zCDP of the relation in --neighbours, as in a plan: a measurement's noise has variance 1/rho where a record
    is replaced, 1/(2 rho) where one is added or removed. Every answer is a pair of numbers with the exact value
    between them.
    """
    alone = asked["epsilons"] or asked["alphas"] or asked["neighbours"] != USUAL_NEIGHBOURS
    if (rho is None) != dhc2020 or (proxy and not dhc2020) or (dhc2020 and alone):
        raise ConfigError(
            "give either --rho, or --dhc2020 with --delta and --proxy only",
            code="C005",
            fix="see: topdown account --help",
        )
    if dhc2020:
        document: dict[str, Any] = app.dhc2020_document(asked["deltas"] or ("1e-10",), proxy=proxy)
        screen.document(document)
        _show_dhc_losses(screen, document)
        return EXIT_OK
    document = app.account_document(rho or "", **asked)
    screen.document(document)
    _show_composition(screen, document)
    return EXIT_OK


def _show_composition(screen: Screen, document: dict[str, Any]) -> None:
    n, moved = document["n_measurements"], document["n_counts_moved"]
    relation = Relation.named(document["neighbours"]).noun
    screen.say(
        bold(f"{n:,} measurement{'s' if n != 1 else ''}"),
        f", ρ {document['rho']} in all: zCDP for {relation}, which moves {moved:,} "
        f"count{'s' if moved != 1 else ''} by one",
    )
    for row in document["measurements"]:
        screen.say(
            f"{row['count']:,} × ρ {row['rho']} for {relation}, variance {row['variance']} a count", indent=2
        )
    screen.blank()
    names = (("epsilon", "ε at δ"), ("delta", "δ at ε"), ("trade_off", "misses at false alarms"))
    rows = [
        (f"{name} {given}", low, high) for key, name in names for given, (low, high) in document[key].items()
    ]
    columns = [Column(f"for {relation}"), Column("not below"), Column("not above")]
    screen.table(columns, rows)
    _usual_formula(screen, document["usual"], relation)
    screen.blank()
    screen.last(document["sentence"], symbol="")


def _show_dhc_losses(screen: Screen, document: dict[str, Any]) -> None:
    n_paths = document["n_paths"]
    pairs = f"{document['n_pairs']:,} pairs of {n_paths:,} paths" if n_paths > 1 else "one path with itself"
    relation = Relation.named(document["neighbours"]).noun
    screen.say(
        bold("2020 DHC persons"),
        f", {pairs}; ρ {document['rho']} in all: zCDP for {relation} that stays on the un-bypassed path, where "
        f"it moves {document['n_counts_moved']:,} counts by one",
    )
    screen.blank()
    rows = []
    for delta, worst in document["worst"].items():
        rows.append((f"worst ε at δ {delta}, paths {' and '.join(worst['paths'])}", *worst["epsilon"]))
        rows.append((f"un-bypassed ε at δ {delta}", *document["unbypassed"][delta]))
    screen.table([Column(f"for {relation}", wraps=True), Column("not below"), Column("not above")], rows)
    _usual_formula(screen, document["usual"], relation)
    low, high = next(iter(document["worst"].values()))["epsilon"]
    screen.blank()
    screen.last(f"ε between {low} and {high} for {relation}", symbol="")


def _usual_formula(screen: Screen, usual: dict[str, Any], relation: str) -> None:
    for delta, value in usual["bun_steinke"].items():
        tight = usual["canonne_kamath_steinke"][delta]
        screen.say(
            dim(
                f"usual formulas, ε at δ {delta} for {relation}: {value} (Bun, Steinke), "
                f"{tight} (Canonne, Kamath, Steinke)"
            ),
            indent=2,
            hang=4,
        )
