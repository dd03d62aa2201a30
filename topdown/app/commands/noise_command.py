"""`topdown noise`: the best noise for one answer, before anything is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import ANY_PATH, Picture
from topdown.app.screens.console import Screen
from topdown.app.screens.noise_screen import counts_of
from topdown.app.screens.text_layout import Column, bold, numbers
from topdown.errors import EXIT_OK, ConfigError
from topdown.optimal_noise import CountQuestion, parse_loss
from topdown.optimal_noise.law_picture import law_svg
from topdown.output_paths import write_new
from topdown.privacy.exact_values import rational, significant

if TYPE_CHECKING:
    from topdown.formats.noise_documents import Noise, SharedNoise
    from topdown.optimal_noise import OptimalLaw


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
    groups={
        "What the noise keeps": ("epsilon", "delta", "also", "sensitivity", "loss", "large_delta"),
        "For which answer": ("integer", "continuous", "cells", "dependent", "worst_case"),
        "What is shown and saved": ("compare", "check", "out", "plot", "force"),
    },
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
@click.option("--check", metavar="FILE", type=ANY_PATH, help="Check a saved law instead of making one.")
@click.option("--out", metavar="FILE", type=ANY_PATH, help="Save the law, with its proof.")
@click.option(
    "--plot",
    metavar="FILE.svg",
    type=Picture(),
    help="Draw the law, or with --dependent those of five counts.",
)
@click.option("--force", is_flag=True, help="Let --out and --plot replace files.")
def noise_command(
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
    if check is not None:
        if any((epsilon, delta, sensitivity, loss, also, large_delta, integer, continuous, dependent)):
            raise ConfigError(
                "a saved law says itself what it keeps", code="C005", fix="give --check without what to make"
            )
        law = app.read_law(check)  # which checks it
        return _show_law(screen, law, compare=compare, out=None, plot=plot, force=force)
    if epsilon is None or delta is None:
        raise ConfigError(
            "noise needs an epsilon and a delta",
            code="C005",
            fix="e.g.: topdown noise --epsilon 1 --delta 1/1000000",
        )
    app.refuse_mixed(
        {"--integer": integer, "--continuous": continuous, "--dependent": dependent is not None},
        {"--also": bool(also), "--out": out is not None},
        {"--cells": cells is not None, "--worst-case": worst_case},
    )
    if continuous:
        real = app.real_noise(
            epsilon, delta, sensitivity or "1", loss or "l1", cells, large_delta=large_delta
        )
        return app.show_continuous(screen, real, plot=plot, force=force)
    moved = app.whole_number(sensitivity or "1")
    if dependent is not None:
        bounds = rational(epsilon, "epsilon"), rational(delta, "delta")
        app.refuse_large(bounds[1], large_delta=large_delta)
        counts, kind = counts_of(dependent), parse_loss(loss or "l1")
        question = CountQuestion(*bounds, counts, kind, moved, worst_case=worst_case)
        return app.make_dependent(screen, question, plot=plot, force=force)
    pairs = [(epsilon, delta), *map(_epsilon_and_delta, also)]
    law = app.integer_noise(pairs, moved, loss or "l1", large_delta=large_delta)
    return _show_law(screen, law, compare=compare, out=out, plot=plot, force=force)


_SHOWN = 8  # values beside 0 whose probabilities are shown


def _show_law(
    screen: Screen, law: OptimalLaw, *, compare: bool, out: Path | None, plot: Path | None, force: bool
) -> int:
    document = app.noise_document(law, compare=compare)
    if out is not None:
        write_new(out, (json.dumps(to_builtins(document.law), indent=1) + "\n").encode(), force=force)
    if plot is not None:
        picture = law_svg(law, f"Noise for one answer: {_promise_words(law)}")
        write_new(plot, picture.encode(), force=force)
    screen.document(document)
    _show_numbers(screen, law, document)
    return EXIT_OK


def _epsilon_and_delta(text: str) -> tuple[str, str]:
    epsilon, colon, delta = text.partition(":")
    if not colon:
        raise ConfigError(f"{text!r} is no epsilon:delta", code="C005", fix="write e.g. --also 2:1/10000000")
    return epsilon, delta


def _promise_words(law: OptimalLaw) -> str:
    return ", ".join(f"ε {p.epsilon} at δ {p.delta}" for p in law.ask.promises)


def _show_numbers(screen: Screen, law: OptimalLaw, document: Noise) -> None:
    moved = law.ask.sensitivity
    screen.say(
        bold("Noise for one whole-number answer"),
        f", {_promise_words(law)}, where one record moves it by at most {moved}",
    )
    screen.say(f"expected loss {law.ask.loss.name[:60]}, not above {document.expected_loss}", indent=2)
    screen.say(
        f"no noise on the integers that keeps the same is below {document.least_possible_loss}: "
        f"a gap of at most {document.gap} of it",
        indent=2,
        hang=4,
    )
    screen.say(f"variance not above {document.variance}", indent=2)
    screen.say(f"values {law.first} to {law.last}, {law.bits} random bits a draw", indent=2)
    screen.blank()
    near = range(max(law.first, -_SHOWN), min(law.last, _SHOWN) + 1)
    screen.table(
        numbers("value", "probability"), [(str(v), significant(law.mass(v), 6, up=False)) for v in near]
    )
    screen.blank()
    screen.table(
        numbers("at ε", "it needs δ, not above"),
        [(epsilon, delta) for epsilon, delta in document.delta_at.items()],
    )
    if document.others:
        screen.blank()
        columns = [Column("other noise", wraps=True), *numbers("expected loss", "saved")]
        rows = [
            (", ".join(filter(None, (o.name, o.parameter))), o.expected_loss, f"{o.saved_percent} %")
            for o in document.others
        ]
        screen.table(columns, rows)
    _show_shared_budget(screen, document.several)
    screen.blank()
    screen.last(
        "For one answer only: n answers with this noise keep n times ε at n times δ; a ledger of rho never books it.",
        symbol="",
    )


def _show_shared_budget(screen: Screen, rows: list[SharedNoise]) -> None:
    if not rows:
        return
    screen.blank()
    names = ("answers that share the promise", "variance, this kind", "Gaussian", "ratio")
    keys = ("n_answers", "variance", "gaussian_variance", "ratio")
    screen.table(numbers(*names), [tuple(str(getattr(row, key)) for key in keys) for row in rows])
    lost = [row.n_answers for row in rows if float(row.ratio) > 1]
    if lost:
        screen.say(
            f"of these, Gaussian noise has less variance for {', '.join(map(str, lost))} answers", indent=2
        )
