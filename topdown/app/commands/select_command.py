"""`topdown select`: a private choice among public candidates or answers, charged to the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from topdown import app
from topdown.app.commands.command import StoppedRun, command, said_when_stopped
from topdown.app.commands.options import ANY_PATH, FILE, FOLDER
from topdown.app.commands.spending import confirm
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import FAIL, OK, Column, bold
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, ConfigError, quoted

if TYPE_CHECKING:
    from topdown.app.private_choice import Asked, QuestionArguments
    from topdown.formats.choice_documents import SelectionResult
    from topdown.measure import ChoiceRequest

LARGE = 2


@command(
    "select",
    examples=(
        (
            "topdown select sites run.toml --candidates c.csv --k 9 --epsilon 1/2 --out o",
            "Choose 9 candidates that cover many residents.",
        ),
        (
            "topdown select frequent run.toml --query sex --epsilon 1/2 --out often/",
            "Name answers that many people share.",
        ),
        ("topdown select --self-check", "Exact ratios of the shipped choices."),
    ),
    exits=(0, 1, 2, 130),
    groups={
        "sites": ("candidates", "k", "per", "most", "radius", "centres"),
        "order": ("candidates", "most_records", "radius", "centres"),
        "frequent": ("query", "level", "cap", "more_than"),
    },
    action="action",
)
@click.argument(
    "action",
    metavar="sites|order|frequent",
    required=False,
    type=click.Choice(["sites", "order", "frequent"]),
)
@click.argument("source", metavar="RUN.toml", required=False, type=FILE)
@click.option("--epsilon", metavar="E", help="Exact, up to 10: 1/2. What one record may cost.")
@click.option("--out", metavar="DIR", type=FOLDER, help="New folder.")
@click.option("--candidates", metavar="FILE", type=ANY_PATH, help="Public table.")
@click.option("--radius", metavar="KM", type=float, help="Candidates cover what lies within.")
@click.option("--centres", metavar="FILE", type=ANY_PATH, help="Centres of the leaves.")
@click.option("--k", type=int, metavar="K", help="How many candidates.")
@click.option("--per", metavar="COLUMN|LEVEL", help="Limit the candidates of each district.")
@click.option("--most", type=int, metavar="N", help="The most of one district; 1 if not given.")
@click.option("--most-records", type=int, metavar="N", help="Order by thresholds below a public bound.")
@click.option("--query", multiple=True, metavar="QUERY", help="Answers to watch; may be repeated.")
@click.option("--level", metavar="LEVEL", help="Of the areas; the root if not given.")
@click.option("--cap", type=int, metavar="N", help="Reports that one record counts in; 1 if not given.")
@click.option("--more-than", type=int, metavar="N", help="Answers of fewer are rarely named; 0 if not given.")
@click.option("--self-check", is_flag=True, help="Compute exact ratios of the shipped choices instead.")
@click.option("--yes", is_flag=True, help="Spend without asking.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted choice.")
@click.option("--again", is_flag=True, help="Choose a second time, and pay again.")
def select_command(
    screen: Screen,
    *,
    action: Asked | None,
    source: Path | None,
    epsilon: str | None,
    out: Path | None,
    self_check: bool,
    yes: bool,
    resume: bool,
    again: bool,
    **options: Unpack[QuestionArguments],
) -> int:
    """Make a private choice from the records and charge it to the ledger.

    Publishes the choice and what it cost, never how many records it covers. See docs/how-to/selection.md.
    """
    given = {name for name, value in options.items() if value not in (None, ())}
    if self_check:
        if action or given or epsilon or out:
            raise ConfigError("--self-check reads and chooses nothing", code="C005", fix="give it alone")
        return _show_selection_check(screen)
    lacking = {"sites, order or frequent": action, "a run file": source, "--epsilon": epsilon, "--out": out}
    if action is None or source is None or epsilon is None or out is None:
        missing = next(name for name, value in lacking.items() if value is None)
        raise ConfigError(f"select needs {missing}", code="C005", fix="see: topdown select --help")
    planned = app.select(source, action, epsilon, **options)
    asked = planned.request
    app.check_folder(asked, out, resume=resume)
    found = []
    if asked.document["question"].get("k") == 1:
        found.append("for one site, an exponential mechanism on all records usually chooses better")
    if asked.epsilon > LARGE:
        found.append(
            f"epsilon is above {LARGE}: little is promised, and splitting it over the choices is as good"
        )
    for advice in found:
        screen.warn(advice)
    full, loss = asked.document["plan_hash"], figures.loss("epsilon", asked.spend.epsilon)
    line = "Choice ", bold(full[:8]), f' spends {loss} of data set "{asked.document["data_set"]}".'
    confirm(screen, full, [line], None, yes=yes, look="topdown plan", what="choice")
    said_when_stopped.set(_words_when_stopped(asked))
    made = planned.choose(out, again=again, resume=resume)
    screen.document(made)
    _show_choice(screen, asked, out, made)
    return EXIT_OK


def _words_when_stopped(asked: ChoiceRequest) -> Callable[[], StoppedRun]:
    """Return what says how much an interrupted choice has spent; a choice that was begun is whole before it stops."""
    path, spend = asked.prepared.ledger_path, asked.spend
    before = app.charged_for(path, spend.plan_hash, here=True)

    def said() -> StoppedRun:
        spent = app.charged_for(path, spend.plan_hash, here=True) - before
        if not spent:
            return StoppedRun("Stopped. This run spent: nothing.", "run the same command again", "nothing")
        words = f"epsilon {spent}; a finished choice is kept, go on with --resume"
        return StoppedRun(
            f"Stopped. This run spent: {words}.", "run the same command again, with --resume", words
        )

    return said


def _show_choice(screen: Screen, asked: ChoiceRequest, out: Path, made: SelectionResult) -> None:
    for number, name in enumerate(made.chosen, 1):
        screen.item(f"{number:>4}", name)
    for answer in made.frequent:
        values = ", ".join(f"{key} {value}" for key, value in answer.values.items()) or "everybody"
        screen.item(answer.area, f"{values} ({answer.query})")
    screen.blank()
    n = len(made.chosen) + len(made.frequent)
    unit, relation = asked.document["unit"], asked.document["neighbours"]
    screen.last(
        f"{n:,} chosen, in {out}{os.sep}, for {figures.loss('epsilon', asked.epsilon)} of one {unit}, {relation}"
    )
    screen.next(
        (f"topdown verify {quoted(out)}{os.sep}", "what an auditor would run"),
        (f"topdown audit --ledger {quoted(asked.prepared.ledger_path)}", "with all that was released"),
    )


def _show_selection_check(screen: Screen) -> int:

    said = app.select_check()
    screen.document(said)
    screen.say("Exact ratios of probabilities of the shipped code over small neighbours, rate 1/2, base 3.")
    screen.blank()
    columns = [Column("choice"), Column("neighbours"), Column("worst", right=True)]
    rows = [
        (r.question, r.neighbours, _decimal_text(r.worst), _decimal_text(r.promised)) for r in said.ratios
    ]
    screen.table([*columns, Column("promised", right=True)], rows)
    screen.blank()
    text = "All ratios are within e^epsilon" if said.holds else "A ratio is above e^epsilon"
    screen.last(
        f"{text}; this proves the promise for these data sets only", symbol=OK if said.holds else FAIL
    )
    return EXIT_OK if said.holds else EXIT_CHECK_FAILED


def _decimal_text(ratio: str | None) -> str:
    return "without bound" if ratio is None else figures.decimal(Fraction(ratio), 6, up=True)
