"""`pgsr ledger`: make the ledger of a data set, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pgsr.documents import head
from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen


@command(
    "ledger",
    examples=(
        ("pgsr ledger run.toml", "Make the ledger, and write its id into the run file."),
        ("pgsr ledger --groups groups.csv", "Make it, and print the id for --ledger-id."),
    ),
    exits=(0, 2),
)
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--groups", type=click.Path(path_type=Path), help="The file of groups.")
@click.option("--smallest", type=int, help="Smallest size, 0 or 1 (default).")
@click.option(
    "--relations", multiple=True, type=click.Choice(["move", "new", "dropped"]), help="As for pgsr release."
)
@click.option("--unit", help="Who adds one to the size of a group: person (default), job, taxi.")
@click.option("--rho", is_flag=True, help="Count rho (Gaussian noise), not epsilon; a run file says which.")
@click.option("--data-set", help="Name of the confidential data set.")
@click.option("--ledger", type=click.Path(path_type=Path), help="Its file (default: beside the groups).")
@click.option(
    "--witness", type=click.Path(path_type=Path), help="Folder of its witness (default: that of the groups)."
)
def ledger(screen: Screen, run: Path | None, *, rho: bool, **options: Any) -> int:
    """Make the ledger of a data set, bound to its unit of privacy and its neighbour steps.

    Nothing is released or spent. A ledger that is there already is checked and named.
    """
    from pgsr.ledger import ledger_place, new_ledger
    from pgsr.runfile import settings_of, write_ledger_id

    settings = settings_of(run, {key: value for key, value in options.items() if value not in (None, ())})
    if "groups" not in settings:
        raise ConfigError("groups is missing", code="C165", fix="add --groups, or give it in the run file")
    noise = "gaussian" if rho or "rho" in settings else "geometric"
    named = ("data_set", "relations", "smallest", "unit", "ledger", "ledger_id", "witness")
    place = ledger_place(
        settings["groups"], noise=noise, **{key: settings[key] for key in named if key in settings}
    )
    made = not place.path.exists()
    found = new_ledger(place)
    if run is not None and settings.get("ledger_id") != found:
        write_ledger_id(run, found)
    bound = place.binding
    screen.document(
        {
            **head("ledger"),
            "id": found,
            "made": made,
            "path": str(place.path),
            "witness": str(place.witness_folder),
            "data_set": bound.data_set,
            "neighbours": bound.neighbours,
            "unit": bound.unit,
            "loss_name": bound.loss_name,
        }
    )
    screen.pairs(
        [
            ("ledger", f"{found} at {place.path}"),
            ("witness", f"in {place.witness_folder}"),
            (
                "bound to",
                f"{bound.data_set}; steps {bound.neighbours} of one {bound.unit}; counts {bound.loss_name}",
            ),
        ]
    )
    where = f"named in {run}" if run is not None else f"for release: --ledger-id {found}"
    screen.last(f"{'New ledger' if made else 'The ledger was there'}, {where}; nothing is spent")
    return EXIT_OK
