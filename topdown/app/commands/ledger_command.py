"""`topdown ledger`: make the ledger of a data set, once; document what happened to it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click
from msgspec import UNSET

from topdown import app
from topdown.app.commands.command import command
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import bold
from topdown.errors import EXIT_OK, ConfigError
from topdown.formats.command_documents import LedgerState
from topdown.privacy.ledger.ledger_file import attest, open_ledger, read_ledger
from topdown.privacy.ledger.ledger_records import exact_text
from topdown.publish.ledger_statement import delta_charged

if TYPE_CHECKING:
    from topdown.formats.common import LossName
    from topdown.privacy.ledger import LedgerLocation

Action = Literal["new", "attest", "refund"]
_LOSS_NAMES = {"rho": "rho", "epsilon": "epsilon", "epsilon_delta": "epsilon and delta"}


@command(
    "ledger",
    examples=(
        (
            "topdown ledger new run.toml",
            "Make the ledger; its id is written into the run file.",
        ),
        (
            'topdown ledger attest run.toml --reason "records moved"',
            "Go on although the ledger's witness is lost.",
        ),
        (
            'topdown ledger refund run.toml --record 3 --reason burnt --witness "A. Person"',
            "Refund a charge whose noise was destroyed unseen.",
        ),
    ),
)
@click.argument("action", metavar="new|attest|refund", type=click.Choice(["new", "attest", "refund"]))
@click.argument("source", metavar="RUN.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--reason", default="", help="With attest and refund: why; it stays in the ledger.")
@click.option("--record", type=click.IntRange(1), help="With refund: number of the intent.")
@click.option("--witness", default="", help="With refund: who saw that the noise was destroyed.")
def ledger(
    screen: Screen, *, action: Action, source: Path, reason: str, record: int | None, witness: str
) -> int:
    """Make the ledger of a data set, or write down what happened to it.

    A data set has one ledger: the book of every privacy loss ever spent on it. Only this command and init make one.
    """
    if (action == "refund") != (record is not None and bool(witness)) or (action == "new") == bool(reason):
        raise ConfigError(
            "new takes no reason; attest takes --reason; refund takes --record, --reason and --witness",
            code="C005",
            fix="see: topdown ledger --help",
        )
    if action == "new":
        place = app.create_run_ledger(source)
    else:
        place = app.ledger_location_of_file(source)
        if action == "attest":
            attest(place, reason)
        else:
            with open_ledger(place) as opened:
                opened.void(record or 0, reason, witness)
    _show_ledger(screen, place, action, source)
    return EXIT_OK


def _show_ledger(screen: Screen, place: LedgerLocation, action: Action, source: Path) -> None:
    book, bound = read_ledger(place.path), place.binding
    beside, limits = delta_charged(book), app.load_run_file(source).ledger
    screen.document(
        LedgerState(
            action=action,
            ledger=place.id,
            path=str(place.path),
            witness=str(place.witness),
            data_set=bound.data_set,
            neighbours=bound.neighbours,
            unit=bound.unit,
            loss_name=cast("LossName", bound.loss_name),
            charged=exact_text(book.charged),
            charged_delta=beside.get("charged_delta", UNSET),
            limit=exact_text(limits.limit) if beside else UNSET,
            delta_limit=exact_text(limits.delta_limit or Fraction(0)) if beside else UNSET,
            n_records=len(book.entries),
        )
    )
    done = {"new": "is the ledger of", "attest": "has a new witness:", "refund": "has one charge less:"}[
        action
    ]
    screen.last("Ledger ", bold(place.id), f' {done} data set "{bound.data_set}"')
    screen.pairs(
        [
            ("file", str(place.path)),
            ("witness", f"{place.witness} (keep both; back them up together with the records)"),
            ("counts", f"{_LOSS_NAMES[bound.loss_name]} of one {bound.unit}, {bound.neighbours}"),
        ]
    )
    if beside:
        screen.pairs(
            [
                ("charged", f"ε {exact_text(book.charged)}, δ {exact_text(book.charged_delta)}"),
                (
                    "limits",
                    f"ε {exact_text(limits.limit)}, δ {exact_text(limits.delta_limit or Fraction(0))}",
                ),
            ]
        )
    if action == "new":
        screen.next((f"topdown plan {source}", "what a release would cost"))
