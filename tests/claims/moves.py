"""What an operator or somebody with access to the disk may do next, and the exceptions that SECURITY.md names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.claims.world import World
from tests.helpers.attacked import Said, topdown
from tests.helpers.killed import is_killed

COPIED_TOGETHER = "ledger and registry restored together"
Act = Callable[[World], Said | None]


@dataclass(frozen=True)
class Move:
    """One step: its name in a report, when it can be made, and what it does."""

    name: str
    can: Callable[[World], bool]
    act: Act


def _release(run: str, out: str, *more: object) -> Move:
    def act(world: World) -> Said:
        return topdown(
            "generate", world.office / f"{run}.toml", "--out", world.releases / out, "--yes", "--workers", 1, *more
        )

    words = " ".join(["generate", run, *map(str, more)])
    return Move(words, lambda world: not (world.releases / out).exists(), act)


def _command(name: str, out: str, *words: Callable[[World], object] | str) -> Move:
    def act(world: World) -> Said:
        return topdown(*(word if isinstance(word, str) else word(world) for word in words))

    return Move(name, lambda world: not out or not (world.releases / out).exists(), act)


def _killed(step: int) -> Move:
    def act(world: World) -> None:
        out = world.releases / "first"
        run = ("generate", world.office / "first.toml", "--out", out, "--yes", "--workers", 1)
        is_killed(lambda: topdown(*run), step)

    return Move(f"generate first, killed at step {step}", lambda w: not (w.releases / "first").exists(), act)


def _move_records(world: World) -> None:
    """Move the file of records to another disk and say so in the run files; what lies beside it stays."""
    other = world.root / "other-disk"
    other.mkdir()
    (world.office / "data" / "people.csv").rename(other / "people.csv")
    for run in world.office.glob("*.toml"):
        run.write_text(run.read_text().replace("data/people.csv", "../other-disk/people.csv"))


def _move_folder(world: World) -> None:
    """Move the folder of records, with all that lies in it, to another disk."""
    (world.office / "data").rename(world.root / "other-disk")
    for run in world.office.glob("*.toml"):
        run.write_text(run.read_text().replace("data/people.csv", "../other-disk/people.csv"))


def _begin_elsewhere(world: World) -> Said:
    """Write a run file of the same data set in another folder, make a ledger for it, and release from it."""
    records, leaves = world.records / "people.csv", world.office / "leaves.csv"
    run = world.elsewhere / "third.toml"
    world.write_run(run, "third", os.path.relpath(records, run.parent), os.path.relpath(leaves, run.parent))
    made = topdown("ledger", "new", run)
    if made.code:
        return made
    return topdown("generate", run, "--out", world.releases / "third", "--yes", "--workers", 1)


def _keep(slot: str) -> Move:
    def act(world: World) -> None:
        shutil.copy2(world.ledger, world.kept / f"{slot}.jsonl")
        for path in _beside_records(world):
            shutil.copy2(path, world.kept / f"{slot} {path.name}")

    return Move(f"back up ({slot})", lambda w: w.ledger.exists() and not (w.kept / f"{slot}.jsonl").exists(), act)


def _restore(slot: str) -> Move:
    def act(world: World) -> None:
        shutil.copy2(world.kept / f"{slot}.jsonl", world.ledger)
        _note_restored(world, "ledger")

    return Move(f"restore the ledger ({slot})", lambda w: (w.kept / f"{slot}.jsonl").exists(), act)


def _restore_registry(slot: str) -> Move:
    def act(world: World) -> None:
        for path in world.kept.glob(f"{slot} *"):
            shutil.copy2(path, world.records / path.name.removeprefix(f"{slot} "))
        _note_restored(world, "registry")

    return Move(f"restore what lies beside the records ({slot})", lambda w: any(w.kept.glob(f"{slot} *")), act)


def _note_restored(world: World, which: str) -> None:
    """Both put back are as if nothing had happened since: SECURITY.md says that no program can notice it."""
    other = {"ledger": "registry", "registry": "ledger"}[which]
    world.seen.allowed.add(f"{which} restored")
    if f"{other} restored" in world.seen.allowed:
        world.seen.allowed.add(COPIED_TOGETHER)


def _remove_beside_records(world: World) -> None:
    for path in _beside_records(world):
        path.unlink()


def _beside_records(world: World) -> list[Path]:
    """Return what programs keep beside the records: the registry of the data set."""
    return [path for path in world.records.iterdir() if path.name != "people.csv" and path.is_file()]


def _office(name: str) -> Callable[[World], object]:
    return lambda world: world.office / name


def _out(name: str) -> Callable[[World], object]:
    return lambda world: world.releases / name


MOVES = (
    _release("first", "first"),
    _release("second", "second"),
    _release("first", "first-again", "--again"),
    _command("resume first", "", "generate", _office("first.toml"), "--out", _out("first"), "--resume", "--yes"),
    _command("resolve first", "resolved", "resolve", _out("first"), "--out", _out("resolved"), "--targets", "tree"),
    _command(
        *("choose", "chosen", "select", "sites", _office("first.toml"), "--candidates"),
        *(_office("candidates.csv"), "--k", "1", "--epsilon", "1", "--yes", "--out", _out("chosen")),
    ),
    _command("audit the ledger", "", "audit", "--ledger", lambda world: world.ledger, "--json"),
    _command("make the ledger", "", "ledger", "new", _office("first.toml")),
    _command("attest", "", "ledger", "attest", _office("first.toml"), "--reason", "disk replaced"),
    Move("begin elsewhere", lambda w: not w.elsewhere.exists(), _begin_elsewhere),
    Move("move the records", lambda w: not (w.root / "other-disk").exists(), _move_records),
    Move("move the folder of records", lambda w: not (w.root / "other-disk").exists(), _move_folder),
    Move("remove the ledger", lambda w: w.ledger.exists(), lambda w: w.ledger.unlink()),
    Move("remove what lies beside the records", lambda w: bool(_beside_records(w)), _remove_beside_records),
    _keep("late"),
    _restore("early"),
    _restore("late"),
    _restore_registry("early"),
    _restore_registry("late"),
    *(_killed(step) for step in (4, 9, 14, 19, 24)),
)
BY_NAME = {move.name: move for move in MOVES}


def begin(world: World, *names: str) -> None:
    """Make the ledger of the office, keep a copy of it, and make some moves that must succeed."""
    for run in ("first", "second"):
        assert topdown("ledger", "new", world.office / f"{run}.toml").code == 0
    _keep("early").act(world)
    for name in names:
        said = BY_NAME[name].act(world)
        assert said is None or said.code == 0, said.err
    world.look()
