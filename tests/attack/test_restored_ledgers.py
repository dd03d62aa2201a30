"""Whoever restores, removes, copies and remakes ledgers gets statements of all that was drawn, or a person is named."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.model_disk import ModelDisk
from topdown.errors import BudgetError
from topdown.privacy.ledger import (
    DrawnLaw,
    Intent,
    LedgerBinding,
    LedgerLocation,
    Limits,
    attest,
    create_ledger,
    is_newest,
    move_ledger,
    open_ledger,
    read_book,
)

RECORDS = Path("/records")
PATHS = (Path("/first/ledger.jsonl"), Path("/second/ledger.jsonl"))
BINDING = LedgerBinding("people", "bounded", "person")
LAW = DrawnLaw("discrete_gaussian", Fraction(1), 1, 2, "land", "total")
Copy = dict[Path, bytes]


@dataclass
class World:
    """A disk, the id that run files name, how much was drawn, and copies of files from before every charge."""

    disk: ModelDisk = field(default_factory=ModelDisk)
    place: LedgerLocation = field(default_factory=lambda: LedgerLocation(PATHS[0], RECORDS, "", BINDING))
    drawn: Fraction = Fraction(0)
    n_charges: int = 0
    old: list[Copy] = field(default_factory=list)

    def at(self, i: int) -> LedgerLocation:
        """Return the ledger that the run file in one of two folders names."""
        return replace(self.place, path=PATHS[i])

    def charge(self, i: int) -> None:
        """Release something: noise is drawn once the intent is durable."""
        self.old.append(self.disk.saved(lambda _: True))
        self.n_charges += 1
        journal = f"{self.n_charges:032x}"
        intent = Intent(f"r{journal}", journal, (LAW,), (), 1, ("land",), journal, "bounded")
        with open_ledger(self.at(i), self.disk) as ledger:
            ledger.intent(intent, Limits(Fraction(100)))
        self.drawn += intent.loss

    def put_back(self, keep: Callable[[Path], bool]) -> None:
        """Restore some files from the copy that was made before the first charge."""
        self.disk.restore(keep, {path: data for path, data in self.old[0].items() if keep(path)})

    def copy_ledger(self) -> None:
        """Copy the ledger of the first folder to the second."""
        self.disk.restore(lambda path: path == PATHS[1], {PATHS[1]: self.disk.read(PATHS[0]) or b""})

    def make_second(self) -> None:
        """Make a ledger in the second folder for the same data set; its run file then names that."""
        self.place = create_ledger(replace(self.at(1), id=""), self.disk)


def remove(world: World, keep: Callable[[Path], bool]) -> None:
    """Remove files."""
    world.disk.restore(keep, {})


MOVES: dict[str, Callable[[World], object]] = {
    "charge": lambda w: w.charge(0),
    "charge in the second folder": lambda w: w.charge(1),
    "put the ledger back": lambda w: w.put_back(lambda path: path == PATHS[0]),
    "remove the ledger": lambda w: remove(w, lambda path: path == PATHS[0]),
    "copy the ledger": World.copy_ledger,
    "make a second": World.make_second,
    "move": lambda w: move_ledger(w.at(1), disk=w.disk),
    "move back": lambda w: move_ledger(w.at(0), disk=w.disk),
    "attest": lambda w: attest(w.at(0), "A. Person", "x", w.disk),
    "attest the second": lambda w: attest(w.at(1), "A. Person", "x", w.disk),
}
REGISTRY = {
    "put the registry back": lambda w: w.put_back(lambda path: path.parent == RECORDS),
    "remove the registry": lambda w: remove(w, lambda path: path.parent == RECORDS),
}
LEDGER_LOST = {"put the ledger back", "remove the ledger", "copy the ledger"}


def outcome(moves: tuple[str, ...]) -> list[str]:
    """Carry moves out after one charge; return every statement that leaves out what was drawn and names nobody."""
    world = World()
    world.place = create_ledger(world.place, world.disk)
    world.charge(0)
    for name in moves:
        try:
            (MOVES | REGISTRY)[name](world)
        except BudgetError:
            continue
    wrong = []
    for path in PATHS:
        data = world.disk.read(path)
        if not data:
            continue
        book = read_book(data, path)[0]
        try:
            confirmed = is_newest(path, book, RECORDS, world.disk)
        except BudgetError:
            continue
        if confirmed and sum(book.charged.values(), Fraction(0)) < world.drawn and not book.attestations:
            wrong.append(
                f"{path} states {sum(book.charged.values(), Fraction(0))} of {world.drawn} after {', '.join(moves)}"
            )
    return wrong


@pytest.mark.parametrize("n_moves", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_losses_are_stated_in_full_or_a_person_is_named(n_moves: int) -> None:
    """Every order of restoring, removing, copying, moving and making ledgers: no statement may leave out a release."""
    found = [wrong for moves in itertools.product(MOVES, repeat=n_moves) for wrong in outcome(moves)]
    assert found == []


@pytest.mark.parametrize("lost", REGISTRY)
def test_a_registry_that_is_lost_or_put_back_alone_hides_nothing(lost: str) -> None:
    """Without its ledger put back too, or another ledger made, a registry may come and go."""
    others = [name for name in MOVES if name not in LEDGER_LOST | {"make a second"}]
    for before, after in itertools.product((None, *others), repeat=2):
        moves = tuple(name for name in (before, lost, after, "charge") if name is not None)
        assert outcome(moves) == []


def test_the_search_finds_what_the_security_page_does_not_claim() -> None:
    """Ledger and registry put back together, and a ledger made after the registry was removed, are not noticed."""
    assert outcome(("put the ledger back", "put the registry back", "charge"))
    assert outcome(("remove the registry", "make a second", "charge in the second folder"))
