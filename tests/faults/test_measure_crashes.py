"""Every crash of a modelled disk, twice: the protocol never draws twice under one charge, nor shows what is unpaid."""

from fractions import Fraction

import pytest

from tests.helpers import crash_model
from tests.helpers.crash_model import (
    LAWS,
    LEDGER,
    LOSSES,
    OUT,
    PARTS,
    SPEND,
    World,
    book_of,
    crashes,
    fresh,
    is_ledger,
    measured,
    proposed,
    same_every_time,
    state_of,
    tolerant,
    undeterred,
)
from tests.helpers.depth import repeats
from tests.helpers.model_disk import ModelDisk, ModelFile
from topdown.privacy.ledger import DrawnLaw, Journal, Ledger, Limits, MeasuredPart, NoiseCharge, open_ledger


def weights_at(delta: Fraction) -> tuple[str, ...]:
    """Return the weights of a law whose last value has a probability of delta."""
    last = int(2**128 * delta)
    return str(2**128 - 2 * last), str(last)


def naive(disk: ModelDisk, world: World) -> None:
    """Draw, save, publish, then log the spend: what a script without a journal does."""
    for part in PARTS:
        path = OUT / part.level / f"{part.name}.parquet"
        if disk.read(path) is None:
            disk.write_new(path, world.draw(disk, part))
            disk.sync_folder(path.parent)
    with open_ledger(world.place, disk) as ledger:
        if not ledger.book.intents:
            ledger.intent(SPEND.intent(tuple(LAWS), 1, "j"), SPEND.limits)


def violations(protocol, depth: int, under_way: int = 0, step: int = 1) -> tuple[int, list[str]]:
    """Run every scenario of `depth` crashes, equal states once; return how many there were and what went wrong.

    `under_way`: parts that are drawn and wait while the next one is drawn. `step`: 1 for every crash, n for each n-th.
    """
    found: list[str] = []
    followed = set()
    n_scenarios = 0

    def follow(disk: ModelDisk, world: World, n_crashes: int) -> None:
        nonlocal n_scenarios
        n_scenarios += 1
        state = n_crashes, state_of(disk, world)
        if state in followed:
            return
        followed.add(state)
        world.check(disk, n_lost=n_crashes, ended=False)
        if n_crashes < depth:
            for after, seen in list(crashes(protocol, disk, world))[::step]:
                follow(after, seen, n_crashes + 1)
        protocol(disk, world)
        world.check(disk, n_lost=n_crashes, ended=True)
        found.extend(world.violations)

    disk, world = fresh()
    world.under_way = under_way
    follow(disk, world, 0)
    return n_scenarios, found


@pytest.fixture(autouse=True)
def _same(monkeypatch):
    same_every_time(monkeypatch)


@pytest.mark.slow
def test_two_crashes_anywhere_never_spend_twice():
    """A step out of order, or one that is not durable in time, would show as a draw nobody paid for."""
    n_scenarios, found = violations(proposed, 2)
    assert n_scenarios > 8_000
    assert found == []


@pytest.mark.parametrize(("under_way", "depth"), [(2, 1), pytest.param(1, 2, marks=pytest.mark.slow)])
def test_parts_drawn_side_by_side_are_never_paid_for_once_and_drawn_twice(under_way, depth):
    """A crash loses all parts under way; none may be adopted from another draw, or drawn again for nothing."""
    n_scenarios, found = violations(proposed, depth, under_way)
    assert n_scenarios > 50
    assert found == []


@pytest.mark.slow
def test_pairs_are_charged_like_any_loss(monkeypatch):
    """A crash must not leave a draw whose epsilon is charged and whose delta is not."""
    deltas = {"land": Fraction(1, 6_000), "block": Fraction(1, 4_000)}
    laws = {
        level: (
            DrawnLaw(
                "optimal_integer", LOSSES[level] / 2, 1, 2, level, "total", (), delta, weights_at(delta)
            ),
        )
        for level, delta in deltas.items()
    }
    limits = Limits(epsilon=Fraction(100), delta=Fraction(1, 100))
    spend = NoiseCharge("r1", "plan", laws, (), limits, "bounded")
    monkeypatch.setattr(crash_model, "SPEND", spend)
    seen = set()

    def watched(disk: ModelDisk, world: World) -> None:
        proposed(disk, world)
        book = book_of(disk)
        seen.add((sum(book.charged.values(), Fraction(0)), book.charged_delta))
        due = [2 * deltas[level] for i in book.intents.values() for level in i.covers]
        assert sum(due) == book.charged_delta

    n_scenarios, found = violations(watched, 1, step=repeats(5, 1))
    assert n_scenarios > repeats(10, 50)
    assert found == []
    assert len(seen) > 1


def test_the_checker_rejects_the_naive_protocol():
    """A checker that cannot fail would prove nothing."""
    _, found = violations(naive, 1)
    assert any("unpaid" in v for v in found)
    assert any("draws" in v for v in found)


def test_the_checker_rejects_a_redraw_under_the_same_intent(monkeypatch):
    """If what was begun were not asked for, torn parts would be drawn again for nothing."""

    def forgetful(self: Journal, part: MeasuredPart, book) -> int | None:
        return next((s for s, i in book.of_journal(self.id).items() if part.level in i.covers), None)

    monkeypatch.setattr(Journal, "usable", forgetful)
    monkeypatch.setattr(Ledger, "begin", lambda self, seq, part: None)
    monkeypatch.setattr(Ledger, "drawn", lambda self, seq, part, sha256: None)
    _, found = violations(undeterred, 1)
    assert any("draws" in v for v in found)


def test_the_checker_rejects_a_ledger_that_is_not_durable(monkeypatch):
    """If a record were not on the disk before the draw, a crash would lose the charge."""
    monkeypatch.setattr(ModelFile, "append", lambda self, data: None)
    _, found = violations(undeterred, 0)
    assert any("unpaid" in v for v in found)


def test_the_checker_rejects_publishing_before_the_commit(monkeypatch):
    """If parts got their readers' names early, uncommitted noise could be used."""
    original = Ledger.commit

    def late(self: Ledger, *commit: object):
        work = late.disk
        for part in PARTS:
            name = next(n for n in work.names(OUT / part.level) if n.startswith(part.name))
            work.rename(OUT / part.level / name, OUT / part.level / f"{part.name}.parquet")
        return original(self, *commit)

    def protocol(disk: ModelDisk, world: World) -> None:
        late.disk = disk
        undeterred(disk, world)

    monkeypatch.setattr(Ledger, "commit", late)
    _, found = violations(protocol, 1)
    assert any("before the commit" in v for v in found)


def test_the_checker_rejects_a_part_begun_after_it_is_drawn(monkeypatch):
    """If the ledger heard of a part only once it is drawn, a crash between the two would give a free draw."""

    def late(self: Journal, part: MeasuredPart, seq: int, ledger: Ledger, data: bytes) -> None:
        ledger.begin(seq, part.key)
        self._disk.write_new(self.folder / part.level / "x", data)

    monkeypatch.setattr(Journal, "begin", lambda self, part, seq, ledger: None)
    monkeypatch.setattr(Journal, "write", late)
    _, found = violations(undeterred, 1)
    assert any("draws" in v or "unpaid" in v for v in found)


def test_a_void_makes_parts_be_drawn_again_under_a_new_charge():
    """Noise declared destroyed must not be adopted after all."""
    disk, world = fresh()
    for after, seen in crashes(proposed, disk, world):
        if seen.n_made["block/part-001"] and not after.names(OUT / "block")[0].endswith("parquet"):
            disk, world = after, seen
            break
    with open_ledger(world.place, disk) as ledger:
        ledger.void(next(iter(ledger.book.intents)), "power cut in the room", "A. Witness")
        assert sum(ledger.book.charged.values(), Fraction(0)) == 0
    proposed(disk, world)
    book = book_of(disk)
    assert sum(book.charged.values(), Fraction(0)) == sum(LOSSES.values())
    assert len(book.intents) == 2
    assert all(world.n_made[part.key] == 2 for part in PARTS)


def test_a_commit_without_its_files_is_fatal():
    """Files lost or swapped after the commit must never be drawn again."""
    disk, world = fresh()
    proposed(disk, world)
    path = OUT / "block" / "part-001.parquet"
    disk.content[disk.names_now[path]] += b"x"
    with pytest.raises(Exception, match="not the ones") as error:
        proposed(disk, world)
    assert error.value.code == "V020"
    assert world.n_made["block/part-001"] == 1


def test_a_part_whose_file_is_not_the_recorded_one_is_charged_again():
    """The ledger's hash, not the folder, says which draw counts: a file put in its place must not be adopted."""
    disk, world = fresh()
    for after, seen in crashes(proposed, disk, world, outcomes=("all",)):
        drawn = [path for path in after.names_now if path.suffix == ".drawn"]
        if drawn and book_of(after).drawn:
            del after.names_now[drawn[0]]
            n_before = len(book_of(after).intents)
            journal = measured(after, seen)
            assert n_before + 1 == len(book_of(after).of_journal(journal.id))
            assert sum(seen.n_made.values()) == len(PARTS) + 1
            return
    raise AssertionError("no crash left a drawn part")


def test_a_ledger_put_in_place_of_the_locked_one_stops_the_run():
    """If the name meant another file, charges would go where nobody looks for them."""
    n_stopped = 0
    for step in range(1, 80):
        disk, world = fresh()
        data = disk.read(LEDGER)
        disk.meanwhile = (step, lambda d=disk, b=data: d.restore(is_ledger, {LEDGER: b}))
        tolerant(disk, world)
        disk.meanwhile = None
        n_refused, n_drawn = len(world.refused), sum(world.n_made.values())
        assert n_refused <= 1
        assert set(world.refused) <= {"B005", "B008"}
        assert len(world.violations) <= n_refused  # a draw that the ledger put aside has paid for
        tolerant(disk, world)
        if len(world.refused) > n_refused:
            n_stopped += 1
            assert world.refused[-1] == "B008"
            assert n_drawn == sum(world.n_made.values())
        else:
            world.check(disk, n_lost=0, ended=True)
            assert world.violations == []
    assert n_stopped > 20
