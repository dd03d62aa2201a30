"""`pgsr ledger`: make the ledger of a data set, once; document what happened to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.ledger.place import Place

Action = Literal["new", "found", "vouch", "void"]
BOUND = ("data_set", "relations", "smallest", "unit")


@command(
    "ledger",
    examples=(
        (
            "pgsr ledger new run.toml --witness /other/disk",
            "Make the ledger, and write its id into the run file.",
        ),
        ("pgsr ledger new --groups groups.csv", "Make it, and print the id for --ledger-id."),
        (
            'pgsr ledger vouch run.toml --reason "groups moved"',
            "Go on although the ledger's witness is lost.",
        ),
        (
            'pgsr ledger void run.toml --record 3 --reason burnt --seen-by "A. Person"',
            "Take back a charge whose noise nobody saw.",
        ),
    ),
    exits=(0, 2),
)
@click.argument("action", metavar="new|vouch|void", type=click.Choice(["new", "vouch", "void"]))
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--groups", type=click.Path(path_type=Path), help="The file of groups.")
@click.option("--smallest", type=int, help="Smallest size, 0 or 1 (default).")
@click.option(
    "--relations",
    multiple=True,
    type=click.Choice(["move", "new", "dropped", "household", "appears"]),
    help="As for pgsr release.",
)
@click.option("--unit", help="Who adds one to the size of a group: person (default), job, taxi.")
@click.option("--rho", is_flag=True, help="Count rho (Gaussian noise), not epsilon; a run file says which.")
@click.option("--data-set", help="Name of the confidential data set.")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="Its file (default: in a folder ledger beside the groups).",
)
@click.option("--ledger-id", help="With vouch and void: its id, unless the run file names it.")
@click.option(
    "--witness",
    type=click.Path(path_type=Path),
    help="Folder of its witness (default: that of the groups); best on another disk than the ledger.",
)
@click.option("--reason", default="", help="With vouch and void: why; it stays in the ledger.")
@click.option("--record", type=click.IntRange(1), help="With void: number of the intent.")
@click.option("--seen-by", default="", help="With void: who saw that the noise was destroyed.")
def ledger(
    screen: Screen,
    run: Path | None,
    *,
    action: Action,
    rho: bool,
    reason: str,
    record: int | None,
    seen_by: str,
    **options: Any,
) -> int:
    """Make the ledger of a data set, or write down what happened to it. Nothing is released or spent.

    It is bound to its unit of privacy and its neighbour steps. One that is there already is checked and named.
    """
    from pgsr.ledger import binding_of, ledger_place, refuse_unnamed
    from pgsr.runfile import ledger_of, settings_of
    from topdown.ledger.ledger import open_ledger, vouch

    if (action == "void") != (record is not None and bool(seen_by)) or (action == "new") == bool(reason):
        raise ConfigError(
            "new takes no reason; vouch takes --reason; void takes --record, --reason and --seen-by",
            code="C005",
            fix="see: pgsr ledger --help",
        )
    settings = settings_of(run, {key: value for key, value in options.items() if value not in (None, ())})
    if "groups" not in settings:
        raise ConfigError("groups is missing", code="C165", fix="add --groups, or give it in the run file")
    noise = "gaussian" if rho or "rho" in settings else "geometric"
    binding = binding_of(noise=noise, **{key: settings[key] for key in BOUND if key in settings})
    place = ledger_place(settings["groups"], binding, ledger_of(settings))
    if action == "new":
        return _new(screen, place, run, settings, "witness" in options and options["witness"] is not None)
    refuse_unnamed(place)
    if action == "vouch":
        vouch(place, reason)
    else:
        with open_ledger(place) as opened:
            opened.void(record or 0, reason, seen_by)
    done = {"vouch": "has a new witness", "void": "has one charge less"}[action]
    _show(screen, place, action, f"The ledger {done}; nothing is spent")
    return EXIT_OK


def _new(screen: Screen, place: Place, run: Path | None, settings: dict[str, Any], moved: bool) -> int:
    from dataclasses import replace

    from pgsr.ledger import new_ledger
    from pgsr.runfile import write_settings

    made = not place.path.exists()
    place = replace(place, id=new_ledger(place))
    if run is not None:
        found = {"ledger_id": place.id} if settings.get("ledger_id") != place.id else {}
        found |= {"witness": str(place.witness_folder.absolute())} if moved else {}
        write_settings(run, found)
    where = f"named in {run}" if run is not None else f"for release: --ledger-id {place.id}"
    _show(screen, place, "new" if made else "found", f"{'New ledger' if made else 'The ledger was there'}, {where}; "
          "nothing is spent")  # fmt: skip
    return EXIT_OK


def _show(screen: Screen, place: Place, action: Action, last: str) -> None:
    from pgsr.documents.ledger import LedgerState
    from topdown import __version__
    from topdown.ledger.ledger import read_ledger
    from topdown.ledger.records import exact_text

    book, bound = read_ledger(place.path), place.binding
    screen.document(
        LedgerState(
            engine=__version__,
            id=place.id,
            action=action,
            path=str(place.path),
            witness=str(place.witness_folder),
            data_set=bound.data_set,
            neighbours=bound.neighbours,
            unit=bound.unit,
            loss_name="rho" if bound.loss_name == "rho" else "epsilon",
            charged=exact_text(book.charged),
            n_records=len(book.entries),
        )
    )
    near = "beside it: a copy put back brings both; name another --witness"
    apart = place.witness_folder.resolve() != place.path.parent.resolve()
    screen.pairs(
        [
            ("ledger", f"{place.id} at {place.path}"),
            ("witness", f"in {place.witness_folder}" + ("" if apart else f", {near}")),
            (
                "bound to",
                f"{bound.data_set}; steps {bound.neighbours} of one {bound.unit}; counts {bound.loss_name}",
            ),
        ]
    )
    screen.last(last)
