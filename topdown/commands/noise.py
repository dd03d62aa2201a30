"""`topdown noise`: the best noise for one answer, before anything is measured."""

from __future__ import annotations

from pathlib import Path

import click

from topdown.commands.base import command
from topdown.commands.files import Picture
from topdown.errors import ConfigError
from topdown.screen.console import Screen


@command(
    "noise",
    examples=(
        ("topdown noise --epsilon 1 --delta 1/1000000", "The best noise for one count, for |error|."),
        (
            "topdown noise --epsilon 1 --delta 1/1000 --sensitivity 2 --loss l2 --compare",
            "For squared errors of an answer that a record moves by 2, beside other noise.",
        ),
        (
            "topdown noise --continuous --epsilon 1 --delta 1/1000 --sensitivity 3/2",
            "For a real query: what the best noise costs, between two proved bounds.",
        ),
        (
            "topdown noise --dependent 0:40 --epsilon 1 --delta 1/1000",
            "A law of the answer for every count 0 .. 40, beside clamped noise.",
        ),
        ("topdown noise --check law.json", "Check a law that was saved with --out."),
    ),
    exits=(0, 1, 2),
)
@click.option("--epsilon", metavar="E", help="Exact, 0 to 10: 1, 1/2 or 0.5.")
@click.option("--delta", metavar="D", help="Exact, above 0: 1/1000000 or 0.000001.")
@click.option(
    "--sensitivity",
    metavar="N",
    help="How far one record moves the answer at most; 1 if not given; exact, for real queries: 3/2.",
)
@click.option(
    "--loss", metavar="LOSS", help="l1 (if not given), l2, pinball:OVER:UNDER or table:V,V,V:LEFT:RIGHT."
)
@click.option("--also", multiple=True, metavar="E:D", help="One more epsilon:delta to keep; may be repeated.")
@click.option("--integer", is_flag=True, help="For whole-number answers; the default.")
@click.option("--continuous", is_flag=True, help="For a real query: bounds, and noise on a lattice.")
@click.option("--cells", type=int, metavar="K", help="Lattice widths in the sensitivity of a real query.")
@click.option("--dependent", metavar="0:M", help="For counts 0 .. M: noise that depends on the count.")
@click.option("--worst-case", is_flag=True, help="Minimise the worst count's loss, with --dependent.")
@click.option("--compare", is_flag=True, help="Show noise of other kinds too; the other two modes always do.")
@click.option("--large-delta", is_flag=True, help="Allow a delta above 1/1000.")
@click.option(
    "--check",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Check a saved law instead of making one.",
)
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Save the law, with its proof.")
@click.option(
    "--plot",
    metavar="FILE.svg",
    type=Picture(),
    help="Draw the law, or with --dependent those of five counts.",
)
@click.option("--force", is_flag=True, help="Let --out and --plot replace files.")
def noise(
    screen: Screen,
    *,
    epsilon: str | None,
    delta: str | None,
    sensitivity: str | None,
    loss: str | None,
    also: tuple[str, ...],
    integer: bool,
    continuous: bool,
    cells: int | None,
    dependent: str | None,
    worst_case: bool,
    compare: bool,
    large_delta: bool,
    check: Path | None,
    out: Path | None,
    plot: Path | None,
    force: bool,
) -> int:
    """Make the best noise for one answer, with its proof.

    Of all noise on the integers that keeps epsilon and delta, the one whose error costs least on average; with
    --continuous for a real query, with --dependent for a count whose noise may depend on it. Nothing is read, drawn
    or charged. It is made for one answer: see docs/how-to/optimal-noise.md.
    """
    from topdown.commands import noise_integer
    from topdown.commands.noise_continuous import RealWish, make_continuous
    from topdown.commands.noise_dependent import CountWish, make_dependent
    from topdown.commands.noise_integer import Wish
    from topdown.commands.noise_modes import refuse_mixed, whole

    if check is not None:
        if any((epsilon, delta, sensitivity, loss, also, large_delta, integer, continuous, dependent)):
            raise ConfigError(
                "a saved law says itself what it keeps", code="C005", fix="give --check without what to make"
            )
        return noise_integer.check(screen, check, compare=compare, plot=plot, force=force)
    if epsilon is None or delta is None:
        raise ConfigError(
            "noise needs an epsilon and a delta",
            code="C005",
            fix="e.g.: topdown noise --epsilon 1 --delta 1/1000000",
        )
    refuse_mixed(
        {"--integer": integer, "--continuous": continuous, "--dependent": dependent is not None},
        {"--also": bool(also), "--out": out is not None},
        {"--cells": cells is not None, "--worst-case": worst_case},
    )
    if continuous:
        real = RealWish(epsilon, delta, sensitivity or "1", loss or "l1", large_delta, cells)
        return make_continuous(screen, real, plot=plot, force=force)
    moved = whole(sensitivity or "1")
    if dependent is not None:
        counts = CountWish(epsilon, delta, moved, loss or "l1", large_delta, dependent, worst_case)
        return make_dependent(screen, counts, plot=plot, force=force)
    wish = Wish(epsilon, delta, moved, loss or "l1", also, large_delta)
    return noise_integer.make(screen, wish, compare=compare, out=out, plot=plot, force=force)
