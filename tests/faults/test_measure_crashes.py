"""Every crash of a modelled disk, twice: the protocol never draws twice under one charge, nor shows what is unpaid."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from topdown.errors import TopdownError
from topdown.ledger import durable, lines
from topdown.ledger.book import Intent, read_book
from topdown.ledger.journal import Journal, Part, open_journal, start_journal
from topdown.ledger.ledger import Ledger, open_ledger
from topdown.ledger.protocol import Job, Spend, carry_out

LEDGER, OUT = Path("/room/ledger.jsonl"), Path("/out")
PARTS = [Part("land", "part-000"), Part("block", "part-000"), Part("block", "part-001")]
LOSSES = {"land": Fraction(1, 3), "block": Fraction(1, 2)}
SPEND = Spend("r1", "plan", LOSSES, "rho", Fraction(100))
BINDS = {"plan_hash": "plan", "layout": "l"}
OUTCOMES = ("none", "torn", "named", "all")  # named: every name is kept, the content half


class Crash(BaseException):
    """The power is cut."""


class ModelDisk(durable.Disk):
    """A disk in memory that crashes in a chosen step; what was not made durable is lost, kept or half kept."""

    def __init__(self) -> None:
        self.content: dict[int, bytes] = {}
        self.names_now: dict[Path, int] = {}
        self.names_safe: dict[Path, int] = {}
        self.folders = {Path("/")}
        self.pending: list[tuple[Path, int | None]] = []
        self.steps = 0
        self.crash: tuple[int, str] | None = None
        self.fresh = itertools.count()

    def snapshot(self) -> ModelDisk:
        """Return an independent copy."""
        other = ModelDisk()
        other.content, other.names_now = dict(self.content), dict(self.names_now)
        other.names_safe, other.folders = dict(self.names_safe), set(self.folders)
        other.pending = list(self.pending)
        other.fresh = itertools.count(10_000 + next(self.fresh))
        return other

    def _step(self) -> str:
        """Count a step; return how far it gets if the power is cut in it."""
        self.steps += 1
        return self.crash[1] if self.crash and self.crash[0] == self.steps else ""

    def _cut(self, outcome: str) -> None:
        kept = {"none": 0, "torn": len(self.pending) // 2}.get(outcome, len(self.pending))
        for path, inode in self.pending[:kept]:
            self._set(self.names_safe, path, inode)
        self.names_now, self.pending = dict(self.names_safe), []
        raise Crash

    @staticmethod
    def _set(names: dict[Path, int], path: Path, inode: int | None) -> None:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode

    def _name(self, path: Path, inode: int | None) -> None:
        self._set(self.names_now, path, inode)
        self.pending.append((path, inode))

    def _extend(self, inode: int, data: bytes) -> None:
        outcome = self._step()
        kept = {"none": 0, "torn": len(data) // 2, "named": len(data) // 2}.get(outcome, len(data))
        self.content[inode] += data[:kept]
        if outcome:
            self._cut(outcome)

    def lock(self, path: Path) -> ModelFile:  # type: ignore[override]
        """Open, creating the file if need be."""
        if path not in self.names_now:
            inode = next(self.fresh)
            self.content[inode] = b""
            self._name(path, inode)
        return ModelFile(self, self.names_now[path])

    def read(self, path: Path) -> bytes | None:
        """Return the content."""
        return self.content[self.names_now[path]] if path in self.names_now else None

    def names(self, folder: Path) -> list[str]:
        """List a folder."""
        return sorted(p.name for p in self.names_now if p.parent == folder)

    def make_folder(self, path: Path) -> None:
        """Remember a folder."""
        self.folders.add(path)  # a folder lost in a crash is like one whose names were lost

    def write_new(self, path: Path, data: bytes) -> None:
        """Write a file from its first byte."""
        inode = self.names_now.get(path)
        if inode is None:
            inode = next(self.fresh)
            self._name(path, inode)
        self.content[inode] = b""
        self._extend(inode, data)

    def append(self, path: Path, data: bytes) -> None:
        """Add at the end."""
        self._extend(self.names_now[path], data)

    def truncate(self, path: Path, size: int) -> None:
        """Cut."""
        outcome = self._step()
        if outcome != "none":
            self.content[self.names_now[path]] = self.content[self.names_now[path]][:size]
        if outcome:
            self._cut(outcome)

    def rename(self, source: Path, target: Path) -> None:
        """Give another name."""
        outcome = self._step()
        if outcome != "none":
            inode = self.names_now[source]
            del self.names_now[source]
            self.names_now[target] = inode
            self.pending += [(target, inode), (source, None)]
        if outcome:
            self._cut(outcome)

    def remove(self, path: Path) -> None:
        """Take a name away."""
        outcome = self._step()
        if outcome != "none":
            self._name(path, None)
        if outcome:
            self._cut(outcome)

    def sync_folder(self, folder: Path) -> None:
        """Make names safe."""
        outcome = self._step()
        if outcome:
            self._cut(outcome)
        for path, inode in self.pending:
            if path.parent == folder:
                self._set(self.names_safe, path, inode)
        self.pending = [(p, i) for p, i in self.pending if p.parent != folder]

    def safe(self, path: Path) -> bytes:
        """Return what would be left of a file if the power were cut now, at worst."""
        return self.content[self.names_safe[path]] if path in self.names_safe else b""


class ModelFile(durable.LockedFile):
    """A locked file of the modelled disk."""

    def __init__(self, disk: ModelDisk, inode: int) -> None:
        self.disk, self.inode = disk, inode

    def read(self) -> bytes:
        """Return the content."""
        return self.disk.content[self.inode]

    def append(self, data: bytes) -> None:
        """Add at the end."""
        self.disk._extend(self.inode, data)

    def truncate(self, size: int) -> None:
        """Cut."""
        self.disk.content[self.inode] = self.disk.content[self.inode][:size]

    def close(self) -> None:
        """Do nothing."""


class World:
    """What an adversary sees: every draw ever made, and every file that got a reader's name."""

    def __init__(self) -> None:
        self.draws: list[tuple[str, int]] = []
        self.n_made: Counter[str] = Counter()
        self.violations: list[str] = []

    def copy(self) -> World:
        """Return an independent copy."""
        other = World()
        other.draws, other.n_made = list(self.draws), Counter(self.n_made)
        other.violations = list(self.violations)
        return other

    def draw(self, disk: ModelDisk, part: Part) -> bytes:
        """Draw a part, and note whether the disk, at worst, knows about it and the ledger has paid."""
        self.n_made[part.key] += 1
        marks = read_marks(disk.safe(OUT / "journal.jsonl"))
        seq = marks.get(part.key, [-1])[-1]
        paid = read_book(disk.safe(LEDGER), LEDGER)[0].intents.get(seq)
        if paid is None or part.level not in paid.covers:
            self.violations.append(f"{part.key} drawn unpaid")
        if (part.key, seq) in self.draws:
            self.violations.append(f"{part.key} drawn twice under {seq}")
        self.draws.append((part.key, seq))
        return f"{part.key} {self.n_made[part.key]} ".encode() * 5

    def check(self, disk: ModelDisk, n_crashes: int, *, ended: bool) -> None:
        """Hold the world against the ledger."""
        book = read_book(disk.safe(LEDGER), LEDGER)[0]
        for part in PARTS:
            charged = sum(part.level in i.covers for i in book.intents.values())
            if self.n_made[part.key] > charged:
                self.violations.append(f"{part.key}: {self.n_made[part.key]} draws, {charged} charges")
            final = disk.read(OUT / part.level / f"{part.name}.parquet")
            if final is not None and book.commit_of(journal_id(disk)) is None:
                self.violations.append(f"{part.key} visible before the commit")
            if ended and final != f"{part.key} {self.n_made[part.key]} ".encode() * 5:
                self.violations.append(f"{part.key}: another draw than the last is published")
        if ended and any(path.suffix == ".drawn" for path in disk.names_now):
            self.violations.append("noise that was not committed is left in the release")
        if book.charged > sum(LOSSES.values()) + n_crashes * max(LOSSES.values()):
            self.violations.append("charged for more than what was torn")


def read_marks(data: bytes) -> dict[str, list[int]]:
    """Return the intents each part was begun under."""
    marks: dict[str, list[int]] = {}
    for line in lines.read_lines(data)[0]:
        if "begin" in line.fields:
            marks.setdefault(str(line.fields["begin"]), []).append(int(str(line.fields["intent"])))
    return marks


def journal_id(disk: ModelDisk) -> str:
    """Return the id of the journal, empty if there is none."""
    found = lines.read_lines(disk.read(OUT / "journal.jsonl") or b"")[0]
    return str(found[0].fields["journal"]) if found else ""


class ModelWork:
    """Make parts that are countable tokens."""

    def __init__(self, disk: ModelDisk, world: World) -> None:
        self.disk, self.world = disk, world

    def charged(self, entry: object) -> None:
        """Hear of a charge."""

    def exact(self) -> bytes:
        """Return some bytes."""
        return b"exact"

    def jobs(self) -> list[Job]:
        """Make every part a token."""
        return [Job(part, lambda part=part: self.world.draw(self.disk, part)) for part in PARTS]

    def done(self, part: Part, drawn: bool) -> None:
        """Hear of a part."""


def proposed(disk: ModelDisk, world: World) -> None:
    """Run the real protocol once, as `measure` does."""
    with open_ledger(LEDGER, "d", disk) as ledger:
        journal = open_journal(OUT, BINDS, disk) or start_journal(OUT, BINDS, disk)
        carry_out(journal, ledger, PARTS, SPEND, ModelWork(disk, world), disk)


def undeterred(disk: ModelDisk, world: World) -> None:
    """Run the real protocol; a mutant of it may also be refused by itself."""
    try:
        proposed(disk, world)
    except TopdownError as error:
        world.violations.append(error.text)


def naive(disk: ModelDisk, world: World) -> None:
    """Draw, save, publish, then log the spend: what a script without a journal does."""
    for part in PARTS:
        path = OUT / part.level / f"{part.name}.parquet"
        if disk.read(path) is None:
            disk.write_new(path, world.draw(disk, part))
            disk.sync_folder(path.parent)
    with open_ledger(LEDGER, "d", disk) as ledger:
        if not ledger.book.intents:
            losses = sum(LOSSES.values(), Fraction(0))
            ledger.intent(Intent("r1", "plan", losses, "rho", 1, tuple(LOSSES), "j"), Fraction(100))


def crashes(protocol, start: ModelDisk, world: World):
    """Yield (disk, world) after every crash of one run, and None when the run came to its end."""
    for step in itertools.count(1):
        for outcome in OUTCOMES:
            disk, seen = start.snapshot(), world.copy()
            disk.crash = (step, outcome)
            try:
                protocol(disk, seen)
            except Crash:
                disk.crash = None
                yield disk, seen
            else:
                return


def violations(protocol, depth: int) -> tuple[int, list[str]]:
    """Run every scenario of `depth` crashes; return how many there were and what went wrong."""
    found: list[str] = []
    n_scenarios = 0

    def follow(disk: ModelDisk, world: World, n_crashes: int) -> None:
        nonlocal n_scenarios
        world.check(disk, n_crashes, ended=False)
        if n_crashes < depth:
            for after, seen in crashes(protocol, disk, world):
                follow(after, seen, n_crashes + 1)
        else:
            n_scenarios += 1
            protocol(disk, world)
            world.check(disk, n_crashes, ended=True)
            found.extend(world.violations)

    follow(ModelDisk(), World(), 0)
    return n_scenarios, found


def test_two_crashes_anywhere_never_spend_twice():
    """A step out of order, or one that is not durable in time, would show as a draw nobody paid for."""
    n_scenarios, found = violations(proposed, 2)
    assert n_scenarios > 4500
    assert found == []


def test_the_checker_rejects_the_naive_protocol():
    """A checker that cannot fail would prove nothing."""
    _, found = violations(naive, 1)
    assert any("unpaid" in v for v in found)
    assert any("draws" in v for v in found)


def test_the_checker_rejects_a_redraw_under_the_same_intent(monkeypatch):
    """If `usable` forgot what was begun, torn parts would be drawn again for nothing."""

    def forgetful(self: Journal, part: Part, book) -> int | None:
        return next((s for s, i in book.of_journal(self.id).items() if part.level in i.covers), None)

    monkeypatch.setattr(Journal, "usable", forgetful)
    _, found = violations(proposed, 1)
    assert any("twice" in v for v in found)


def test_the_checker_rejects_a_ledger_that_is_not_synced(monkeypatch):
    """If the ledger's name were not made durable before the draw, a crash would lose the charge."""
    monkeypatch.setattr(ModelDisk, "sync_folder", lambda self, folder: None)
    _, found = violations(undeterred, 1)
    assert any("unpaid" in v for v in found)


def test_the_checker_rejects_publishing_before_the_commit(monkeypatch):
    """If parts got their readers' names early, uncommitted noise could be used."""
    original = Ledger.commit

    def late(self: Ledger, commit):
        work = late.disk
        for part in PARTS:
            name = next(n for n in work.names(OUT / part.level) if n.startswith(part.name))
            work.rename(OUT / part.level / name, OUT / part.level / f"{part.name}.parquet")
        return original(self, commit)

    def protocol(disk: ModelDisk, world: World) -> None:
        late.disk = disk
        undeterred(disk, world)

    monkeypatch.setattr(Ledger, "commit", late)
    _, found = violations(protocol, 1)
    assert any("before the commit" in v for v in found)


def test_a_void_makes_parts_be_drawn_again_under_a_new_charge():
    """Noise declared destroyed must not be adopted after all."""
    disk, world = ModelDisk(), World()
    for after, seen in crashes(proposed, disk, world):
        if seen.n_made["block/part-001"] and not after.names(OUT / "block")[0].endswith("parquet"):
            disk, world = after, seen
            break
    with open_ledger(LEDGER, "d", disk) as ledger:
        ledger.void(next(iter(ledger.book.intents)), "power cut in the room", "A. Witness")
        assert ledger.book.charged == 0
    proposed(disk, world)
    book = read_book(disk.safe(LEDGER), LEDGER)[0]
    assert book.charged == sum(LOSSES.values())
    assert len(book.intents) == 2
    assert all(world.n_made[part.key] == 2 for part in PARTS)


@pytest.mark.parametrize("keep", ["torn", "all"])
def test_a_ledger_rolled_back_is_refused(keep):
    """An older copy of the ledger put back would forget an intent that parts were drawn under."""
    disk, world = ModelDisk(), World()
    with open_ledger(LEDGER, "d", disk):
        pass
    old = disk.safe(LEDGER)
    for after, seen in crashes(proposed, disk, world):
        if seen.n_made["land/part-000"] and (keep == "torn" or seen.n_made["block/part-001"]):
            disk, world = after, seen
            break
    disk.content[disk.names_now[LEDGER]] = old
    with pytest.raises(Exception, match="lacks") as error:
        proposed(disk, world)
    assert error.value.code == "B008"


def test_a_ledger_rolled_back_behind_the_commit_is_refused():
    """After publication, a ledger without the commit would let the whole release be drawn again."""
    disk, world = ModelDisk(), World()
    proposed(disk, world)
    data = disk.safe(LEDGER)
    disk.content[disk.names_now[LEDGER]] = data[: data[:-1].rindex(b"\n") + 1]
    with pytest.raises(Exception, match="commit") as error:
        proposed(disk, world)
    assert error.value.code == "B008"


def test_a_commit_without_its_files_is_fatal():
    """Files lost or swapped after the commit must never be drawn again."""
    disk, world = ModelDisk(), World()
    proposed(disk, world)
    path = OUT / "block" / "part-001.parquet"
    disk.content[disk.names_now[path]] += b"x"
    with pytest.raises(Exception, match="not the ones") as error:
        proposed(disk, world)
    assert error.value.code == "V020"
    assert world.n_made["block/part-001"] == 1
