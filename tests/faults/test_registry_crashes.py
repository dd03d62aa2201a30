"""The power is cut while a ledger and its registry are made, attested or moved: no dead end, and nothing unsaid."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.crash_model import BINDING, LEDGER, RECORDS, World, is_registry, proposed
from tests.helpers.model_disk import OUTCOMES, Crash, ModelDisk
from topdown.errors import BudgetError
from topdown.privacy.ledger import (
    LedgerLocation,
    attest,
    create_ledger,
    move_ledger,
    open_ledger,
    read_book,
    read_registry,
)

PLACE = LedgerLocation(LEDGER, RECORDS, "", BINDING)
MOVED = Path("/moved/ledger.jsonl")


def cut(start: ModelDisk, work: Callable[[ModelDisk], object]) -> Iterator[ModelDisk]:
    """Yield the disk after every cut of a work that did not come to its end."""
    for step in itertools.count(1):
        for outcome in OUTCOMES:
            disk = start.snapshot()
            disk.crash = (step, outcome)
            try:
                work(disk)
            except Crash:
                disk.crash = None
                disk.locked.clear()
                yield disk
            else:
                return


def released() -> tuple[ModelDisk, LedgerLocation]:
    """Return a disk with a release, and where its ledger is."""
    disk = ModelDisk()
    place = create_ledger(PLACE, disk)
    proposed(disk, World(place.id))
    disk.steps = 0
    return disk, place


def test_a_ledger_is_made_once_whatever_the_power_does():
    """A registry without its ledger would stop the data set before anything was spent; two would be two accounts."""
    n_cut = 0
    for disk in cut(ModelDisk(), lambda disk: create_ledger(PLACE, disk)):
        n_cut += 1
        opened = read_book(disk.read(LEDGER) or b"", LEDGER)[0].opened
        place = create_ledger(PLACE, disk) if opened is None else replace(PLACE, id=opened.ledger)
        with open_ledger(place, disk) as ledger:
            assert len(ledger.book.entries) == 1
        assert len([path for path in disk.names_now if is_registry(path) and path.suffix == ".registry"]) == 1
        with pytest.raises(BudgetError, match="already"):
            create_ledger(replace(PLACE, path=Path("/other.jsonl")), disk)
    assert n_cut > 20


def test_no_cut_leaves_a_registry_beside_a_ledger_that_nobody_attested():
    """The registry is made after the attestation is in the ledger, or an old ledger would be taken without a word."""
    start, place = released()
    start.restore(lambda path: path == place.registry, {})
    n_cut = 0
    for disk in cut(start, lambda disk: attest(place, "A. Person", "disk lost", disk)):
        n_cut += 1
        attested = bool(read_book(disk.read(LEDGER) or b"", LEDGER)[0].attestations)
        assert attested or read_registry(place.registry, disk) is None
        with suppress(BudgetError), open_ledger(place, disk) as ledger:
            assert ledger.book.attestations
        attest(place, "A. Person", "again", disk)
        with open_ledger(place, disk) as ledger:
            assert ledger.registry.mark.records == len(ledger.book.entries)
    assert n_cut > 20


@pytest.mark.parametrize("to", [RECORDS, Path("/elsewhere")])
def test_a_move_that_is_cut_can_be_made_again(to):
    """A ledger between two places that neither registry accepts would be lost."""
    start, place = released()
    start.restore(lambda path: path in (LEDGER, MOVED), {MOVED: start.read(LEDGER) or b""})
    there = replace(place, path=MOVED, registry_folder=to)
    n_cut = 0
    for disk in cut(start, lambda disk: move_ledger(there, RECORDS, disk)):
        n_cut += 1
        move_ledger(there, RECORDS, disk)
        with open_ledger(there, disk) as ledger:
            assert ledger.registry.names(MOVED)
            assert ledger.registry.mark.records == len(ledger.book.entries)
    assert n_cut > 5
