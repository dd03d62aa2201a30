"""The protocol of a measurement on a modelled disk, and an adversary who has seen every draw and every file."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.model_disk import OUTCOMES, Crash, ModelDisk
from topdown.errors import TopdownError
from topdown.privacy.ledger import (
    JOURNAL_FILE,
    Book,
    DrawnLaw,
    Journal,
    LedgerBinding,
    LedgerLocation,
    Limits,
    MeasuredPart,
    NoiseCharge,
    PartSize,
    create_ledger,
    open_journal,
    read_book,
    run_charged,
)

OUT = Path("/out")
LEDGER, RECORDS = Path("/room/ledger.jsonl"), Path("/records")
BINDING = LedgerBinding("d", "bounded", "person")
PARTS = (
    MeasuredPart("land", "part-000"),
    MeasuredPart("block", "part-000"),
    MeasuredPart("block", "part-001"),
)
LAWS = {
    "land": (DrawnLaw("discrete_gaussian", Fraction(3), 1, 2, "land", "total"),),  # rho 1/3
    "block": (DrawnLaw("discrete_gaussian", Fraction(2), 1, 2, "block", "total"),),  # rho 1/2
}
LOSSES = {level: laws[0].loss for level, laws in LAWS.items()}
SPEND = NoiseCharge("r1", "plan", LAWS, (), Limits(Fraction(100)), "bounded")
BINDS = {"plan_hash": "plan", "layout": "l"}
Protocol = Callable[[ModelDisk, "World"], None]


def in_folder(path: Path) -> bool:
    """Tell whether a file is the release folder's."""
    return OUT in path.parents


def is_ledger(path: Path) -> bool:
    """Tell whether a file is the ledger."""
    return path == LEDGER


def is_registry(path: Path) -> bool:
    """Tell whether a file is the registry."""
    return path.parent == RECORDS


class World:
    """What an adversary sees: every draw ever made, and every file that got a reader's name."""

    def __init__(self, ledger: str = "") -> None:
        self.place = LedgerLocation(LEDGER, RECORDS, ledger, BINDING)
        self.under_way = 0  # parts drawn that wait while the next one is drawn
        self.draws: list[tuple[str, int]] = []
        self.n_made: Counter[str] = Counter()
        self.violations: list[str] = []
        self.refused: list[str] = []

    def copy(self) -> World:
        """Return an independent copy."""
        other = World(self.place.id)
        other.under_way = self.under_way
        other.draws, other.n_made = list(self.draws), Counter(self.n_made)
        other.violations, other.refused = list(self.violations), list(self.refused)
        return other

    def draw(self, disk: ModelDisk, part: MeasuredPart) -> bytes:
        """Draw a part, and note whether the disk, at worst, knows about it and the ledger has paid."""
        self.n_made[part.key] += 1
        book = book_in(disk.safe(LEDGER))
        seq = book.begun.get((journal_id(disk), part.key), [-1])[-1]
        paid = book.intents.get(seq)
        if paid is None or part.level not in paid.covers:
            self.violations.append(f"{part.key} drawn unpaid")
        if (part.key, seq) in self.draws:
            self.violations.append(f"{part.key} drawn twice under {seq}")
        self.draws.append((part.key, seq))
        return f"{part.key} {self.n_made[part.key]} ".encode() * 5

    def check(self, disk: ModelDisk, *, n_lost: int | None, ended: bool) -> None:
        """Hold the world against the ledger; `n_lost`: how often a part may have been lost, None for any number."""
        book = book_in(disk.safe(LEDGER))
        for part in PARTS:
            charged = sum(part.level in i.covers for i in book.intents.values())
            if self.n_made[part.key] > charged:
                self.violations.append(f"{part.key}: {self.n_made[part.key]} draws, {charged} charges")
            final = disk.read(OUT / part.level / f"{part.name}.parquet")
            if final is not None and book.commits.get(journal_id(disk)) is None:
                self.violations.append(f"{part.key} visible before the commit")
            if ended and final != f"{part.key} {self.n_made[part.key]} ".encode() * 5:
                self.violations.append(f"{part.key}: another draw than the last is published")
        if ended and any(path.suffix == ".drawn" for path in disk.names_now):
            self.violations.append("noise that was not committed is left in the release")
        torn = sum(LOSSES.values()) if self.under_way else max(LOSSES.values())  # by one crash
        most = sum(LOSSES.values()) + (n_lost or 0) * torn
        if n_lost is not None and sum(book.charged.values(), Fraction(0)) > most:
            self.violations.append("charged for more than what was torn")


@cache
def book_in(data: bytes) -> Book:
    """Return what the bytes of a ledger say; to be read only, since it is kept."""
    return read_book(data, LEDGER)[0]


def journal_id(disk: ModelDisk) -> str:
    """Return the id of the measurement in the folder, empty if there is none."""
    found = open_journal(OUT, {}, disk) if disk.read(OUT / JOURNAL_FILE) else None
    return found.id if found else ""


class TokenWork:
    """Work whose parts are countable tokens; what draws them is added."""

    binds, parts = BINDS, PARTS

    def charge(self, so_far: Fraction) -> NoiseCharge:
        """Return what may be charged."""
        return SPEND

    def open_records(self) -> None:
        """Go on."""

    def preflight(self, journal: object, ledger: object) -> None:
        """Go on."""

    def size(self, part: MeasuredPart) -> PartSize:
        """Return one unit."""
        return PartSize()

    def has_form(self, part: MeasuredPart, data: bytes) -> bool:
        """Accept every token."""
        return True

    def exact(self) -> bytes:
        """Return some bytes."""
        return b"exact"

    def digest(self, key: bytes) -> str:
        """Return what changes with the key."""
        return key.hex()


class ModelWork(TokenWork):
    """Make the tokens on a disk that can be stopped."""

    folder = OUT

    def __init__(self, disk: ModelDisk, world: World) -> None:
        self.disk, self.world, self.location = disk, world, world.place

    def draw(self, parts: Iterator[MeasuredPart], drawn: object) -> Generator[bytes]:
        """Make every part a token, several before the first is handed over if the world says so."""
        waiting: deque[bytes] = deque()
        for part in parts:
            waiting.append(self.world.draw(self.disk, part))
            if len(waiting) > self.world.under_way:
                yield waiting.popleft()
        yield from waiting


def fresh() -> tuple[ModelDisk, World]:
    """Return a disk on which a ledger was made, and a world that has seen nothing."""
    disk = ModelDisk()
    world = World(create_ledger(World().place, disk).id)
    disk.steps = 0
    return disk, world


def measured(disk: ModelDisk, world: World) -> Journal:
    """Run the real protocol once."""
    run_charged(ModelWork(disk, world), disk=disk)
    return Journal(OUT, disk, journal_id(disk))


def proposed(disk: ModelDisk, world: World) -> None:
    """Run the real protocol once."""
    measured(disk, world)


def tolerant(disk: ModelDisk, world: World) -> None:
    """Run the real protocol; note it if it refuses."""
    try:
        measured(disk, world)
    except TopdownError as error:
        world.refused.append(error.code)


def undeterred(disk: ModelDisk, world: World) -> None:
    """Run a mutant of the protocol; it may also be refused by itself."""
    try:
        measured(disk, world)
    except TopdownError as error:
        world.violations.append(error.text)


def crashes(
    protocol: Protocol, start: ModelDisk, world: World, outcomes: tuple[str, ...] = OUTCOMES
) -> Iterator[tuple[ModelDisk, World]]:
    """Yield (disk, world) after every crash of one run that does not come to its end."""
    for step in itertools.count(1):
        for outcome in outcomes:
            disk, seen = start.snapshot(), world.copy()
            disk.crash = (step, outcome)
            try:
                protocol(disk, seen)
            except Crash:
                disk.crash = None
                disk.locked.clear()
                yield disk, seen
            else:
                return


def state_of(disk: ModelDisk, world: World) -> tuple[object, ...]:
    """Return all that decides what happens after a crash; equal states need to be followed once."""
    files = frozenset((path, disk.content[inode]) for path, inode in disk.names_safe.items())
    return files, tuple(world.draws), tuple(world.violations), tuple(world.refused)


def same_every_time(monkeypatch: Any) -> None:
    """Take chance and time out of ids and records, so that equal states are seen to be equal."""

    class Noon(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2026, 1, 1, 12, tzinfo=tz)

    monkeypatch.setattr("topdown.privacy.ledger.book.datetime", Noon)
    monkeypatch.setattr("topdown.privacy.ledger.journal.secrets.token_hex", lambda n: "0" * 2 * n)
    monkeypatch.setattr("topdown.privacy.ledger.journal.secrets.token_bytes", bytes)


def book_of(disk: ModelDisk) -> Book:
    """Return what the ledger says."""
    return book_in(disk.read(LEDGER) or b"")
