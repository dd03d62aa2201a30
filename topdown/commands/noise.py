"""`topdown noise`: the best noise for one answer, before anything is measured."""

from __future__ import annotations

from pathlib import Path

import click

from topdown.commands.base import command
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
        ("topdown noise --check law.json", "Check a law that was saved with --out."),
    ),
    exits=(0, 1, 2),
)
@click.option("--epsilon", metavar="E", help="Exact, 0 to 10: 1, 1/2 or 0.5.")
@click.option("--delta", metavar="D", help="Exact, above 0: 1/1000000 or 0.000001.")
@click.option(
    "--sensitivity",
    type=int,
    metavar="N",
    help="How far one record moves the answer at most; 1 if not given.",
)
@click.option(
    "--loss", metavar="LOSS", help="l1 (if not given), l2, pinball:OVER:UNDER or table:V,V,V:LEFT:RIGHT."
)
@click.option("--also", multiple=True, metavar="E:D", help="One more epsilon:delta to keep; may be repeated.")
@click.option("--integer", is_flag=True, help="For whole-number answers; the default.")
@click.option("--compare", is_flag=True, help="Show noise of other kinds too.")
@click.option("--large-delta", is_flag=True, help="Allow a delta above 1/1000.")
@click.option(
    "--check",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Check a saved law instead of making one.",
)
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Save the law, with its proof.")
@click.option("--plot", metavar="FILE.svg", type=click.Path(path_type=Path), help="Draw the law.")
@click.option("--force", is_flag=True, help="Let --out and --plot replace files.")
def noise(
    screen: Screen,
    *,
    epsilon: str | None,
    delta: str | None,
    sensitivity: int | None,
    loss: str | None,
    also: tuple[str, ...],
    integer: bool,
    compare: bool,
    large_delta: bool,
    check: Path | None,
    out: Path | None,
    plot: Path | None,
    force: bool,
) -> int:
    """Make the best noise for one answer, with its proof.

    Of all noise on the integers that keeps epsilon and delta, the one whose error costs least on average. Nothing is
    read, drawn or charged. It is made for one answer: see docs/how-to/optimal-noise.md.
    """
    from topdown.commands import noise_integer
    from topdown.commands.noise_integer import Wish

    if check is not None:
        if any((epsilon, delta, sensitivity, loss, also, large_delta, integer)):
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
    wish = Wish(epsilon, delta, 1 if sensitivity is None else sensitivity, loss or "l1", also, large_delta)
    return noise_integer.make(screen, wish, compare=compare, out=out, plot=plot, force=force)
