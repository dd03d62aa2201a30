"""The ledger of a data set of groups: where it lies, what it is bound to, and how it is made, once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgsr.budget import LOSS_NAMES
from pgsr.steps import default_steps, relation_name, steps_in_order
from pgsr.vectors import Relation
from topdown.errors import BudgetError, ConfigError
from topdown.names import checked_name

if TYPE_CHECKING:
    from topdown.ledger.place import Place
    from topdown.ledger.records import Binding

DATA_SET, UNIT = "groups", "person"
FOLDER = "ledger"  # of the ledger, beside the groups; its witness lies with the groups


@dataclass(frozen=True)
class LedgerFile:
    """Which ledger is charged.

    Args:
        path: its file; by default in a folder `ledger` beside the groups, whatever folder a release is written to.
        id: its random id; empty if it is not known yet.
        witness: folder of its witness; by default that of the groups.

    Raises:
        ConfigError: a path that no file can have (C172).
    """

    path: Path | str | None = None
    id: str = ""
    witness: Path | str | None = None

    def __post_init__(self) -> None:
        _refuse_odd_path("ledger", self.path)
        _refuse_odd_path("witness", self.witness)


def binding_of(
    data_set: str = DATA_SET,
    relations: Sequence[Relation] | None = None,
    smallest: int = 1,
    unit: str = UNIT,
    noise: str = "geometric",
) -> Binding:
    """Return what the ledger of a data set is bound to; see `Plan` for the arguments.

    Raises:
        ConfigError: unknown steps (C168), or a data set or unit whose name is no file's (C130).
    """
    from topdown.ledger.records import Binding

    checked_name(data_set, "data set")
    checked_name(unit, "unit of privacy")
    steps = steps_in_order(default_steps(smallest) if relations is None else relations)
    return Binding(data_set, relation_name(steps, smallest), unit, LOSS_NAMES[noise])


def ledger_place(groups: Path | None, binding: Binding, file: LedgerFile) -> Place:
    """Return where the ledger of a data set lies, which one it must be, and what its losses are about.

    Args:
        groups: file of groups; None if they are in memory.
        binding: what the ledger is bound to.
        file: which ledger it is.

    Raises:
        ConfigError: groups in memory and no ledger (C163).
    """
    from topdown.ledger.place import Place

    if groups is None and file.path is None:
        raise ConfigError(
            "groups in memory have no place for their ledger",
            code="C163",
            fix="name a ledger, give the groups as a file, or simulate",
        )
    home = (Path(str(file.path)) if groups is None else groups).absolute().parent
    path = home / FOLDER / f"{binding.data_set}.ledger.jsonl" if file.path is None else Path(file.path)
    return Place(path, home if file.witness is None else Path(file.witness), file.id, binding)


def new_ledger(place: Place) -> str:
    """Make the ledger of a data set, once, or find the one that is there; return its random id.

    Raises:
        BudgetError: the ledger that is there is another one, bound to something else (B007), damaged (B006), or at
            odds with its witness (B008, B012); the named one is not there (B011); the witness has no folder (B014).
    """
    from topdown.ledger.ledger import check_ledger, create_ledger, read_ledger
    from topdown.ledger.refusals import missing

    there = read_ledger(place.path)
    if there.opened is not None:
        place = replace(place, id=place.id or there.opened.ledger)
        check_ledger(place, there)
        return place.id
    if place.id:
        raise missing(place.path, place.binding.data_set)
    if not place.witness_folder.is_dir():
        raise BudgetError(
            f"there is no folder {place.witness_folder} for the witness of the ledger",
            code="B014",
            file=str(place.witness_folder),
            fix="make it, or mount its disk, and run the same command again",
        )
    return create_ledger(place.path, place.witness_folder, place.binding)


def refuse_unnamed(place: Place) -> None:
    """Refuse to spend on a ledger that nobody has named (ConfigError C170): a lost one must be noticed."""
    if not place.id:
        raise ConfigError(
            f"no ledger is named for the data set {place.binding.data_set!r}",
            code="C170",
            fix="make it once, or find its id: pgsr ledger new RUN.toml, or pgsr ledger new --groups FILE and "
            "--ledger-id ID",
        )


def _refuse_odd_path(what: str, path: Path | str | None) -> None:
    """Refuse a path that no file can have (ConfigError C172)."""
    try:
        odd = path is not None and (not str(path) or b"\0" in os.fsencode(path))
    except UnicodeEncodeError:
        odd = True
    if odd:
        raise ConfigError(
            f"{what} {ascii(str(path))[1:-1]} is no path that can be written",
            code="C172",
            fix="give the path of a file; nothing was spent",
        )
