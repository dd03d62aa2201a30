"""What an operator, or somebody who may write to the disk, can do next; and what SECURITY.md says nobody notices."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.claims.world import COPY, ELSEWHERE, LIMIT, Pair, World
from tests.helpers.commands import Said, pgsr, topdown
from tests.helpers.killed import is_killed
from tests.helpers.small_release import edit_table, reseal

RAISED, RAISED_LIMIT = "# limits were raised\n", 30 * LIMIT
Word = str | Callable[[World], object]


@dataclass(frozen=True)
class Move:
    """One step: its name in a report, when it can be made, what it does.

    Args:
        forges: whether it changes files of a release.
        of_disk: whether it changes ledgers or registries behind the programs' back.
    """

    name: str
    can: Callable[[World], bool]
    act: Callable[[World], Said | None]
    forges: bool = False
    of_disk: bool = False


def _in_office(name: str) -> Callable[[World], Path]:
    return lambda world: world.office / name


def _in_releases(name: str) -> Callable[[World], Path]:
    return lambda world: world.releases / name


def _lacks(release: str) -> Callable[[World], bool]:
    return lambda world: not (world.releases / release).exists()


def _has(*releases: str) -> Callable[[World], bool]:
    return lambda world: all((world.releases / one / "manifest.json").exists() for one in releases)


def _always(world: World) -> bool:
    return world.root.exists()


def _command(
    name: str, can: Callable[[World], bool], *words: Word, program: Callable[..., Said] = topdown
) -> Move:
    return Move(name, can, lambda world: program(*(w if isinstance(w, str) else w(world) for w in words)))


def _generate(run: str, out: str, *more: str) -> Move:
    words: tuple[Word, ...] = ("generate", _in_office(f"{run}.toml"), "--out", _in_releases(out))
    return _command(" ".join(["generate", run, *more]), _lacks(out), *words, "--yes", "--workers", "1", *more)


def _killed(step: int) -> Move:
    def act(world: World) -> None:
        out = ("--out", world.releases / "first", "--yes", "--workers", 1)
        run = ("generate", world.office / "first.toml", *out)
        is_killed(lambda: topdown(*run), step)

    return Move(f"generate first, killed at step {step}", _lacks("first"), act)


def _both_at_once(world: World) -> None:
    """Start two releases in two processes, each of which would be within the limit alone."""
    children = []
    for run in ("first", "second"):
        child = os.fork()
        if child == 0:
            try:
                topdown(
                    *("generate", world.office / f"{run}.toml", "--out", world.releases / run, "--yes"),
                    *("--workers", 1),
                )
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _extend(world: World) -> Said:
    return topdown(
        *("extend", world.office / "more.toml", "--base", world.releases / "first"),
        *("--out", world.releases / "more", "--yes", "--workers", 1),
    )


def _move_records(world: World) -> None:
    """Move the file of records to another disk and say so in the run files; what lies beside it stays."""
    world.other_disk.mkdir()
    (world.office / "data" / "people.csv").rename(world.other_disk / "people.csv")
    _name_other_disk(world)


def _move_folder(world: World) -> None:
    """Move the folder of records, with all that lies in it, to another disk."""
    (world.office / "data").rename(world.other_disk)
    _name_other_disk(world)


def _say_moved(world: World) -> Said:
    """Say in which folder the registry was before the records were moved."""
    return topdown("ledger", "move", world.office / "first.toml", "--from", world.office / "data")


def _name_other_disk(world: World) -> None:
    for run in world.office.glob("*.toml"):
        run.write_text(run.read_text().replace('"data/people.csv"', '"../other-disk/people.csv"'))


def _begin_elsewhere(world: World) -> Said:
    """Write a run file of the same data set in another folder, make a ledger for it, and release from it."""
    _note_removed(world, "people")
    run = world.elsewhere / "third.toml"
    places = [
        os.path.relpath(at, run.parent) for at in (world.records / "people.csv", world.office / "leaves.csv")
    ]
    world.write_run(run, "third", *places)
    made = topdown("ledger", "new", run)
    release = ("generate", run, "--out", world.releases / "third", "--yes", "--workers", 1)
    return made if made.code else topdown(*release)


def _note_removed(world: World, data_set: str) -> None:
    """Note that nothing is left that could say which ledger serves the records."""
    if not world.registries(data_set):
        world.note_unnoticed(ELSEWHERE, [])


def _begin_groups_elsewhere(world: World) -> Said:
    """Do the same with group sizes."""
    _note_removed(world, "groups")
    run = world.elsewhere / "groups.toml"
    places = [os.path.relpath(world.office / at, run.parent) for at in ("data/groups.csv", "regions.csv")]
    world.write_groups(run, *places)
    made = pgsr("ledger", "new", run)
    return (
        made if made.code else pgsr("release", run, "--out", world.releases / "groups-elsewhere", *APPROVED)
    )


def _from_copy(world: World) -> Said:
    """Write a run file for the copied records, make a ledger for them, and release from it."""
    run = world.copy / "copied.toml"
    world.note_unnoticed(COPY, world.registries("people", run.parent / "data"))
    leaves = os.path.relpath(world.office / "leaves.csv", run.parent)
    world.write_run(run, "copied", "data/people.csv", leaves)
    made = topdown("ledger", "new", run)
    release = ("generate", run, "--out", world.releases / "copied", "--yes", "--workers", 1)
    return made if made.code else topdown(*release)


def _by_copied_registry(world: World) -> Said:
    """Release from the copied folder of records, by the ledger of the office and the registry that was copied."""
    run, ids = world.copy / "borrowed.toml", re.compile(r"(?m)^(records|leaves|path) = .*$")
    places = {
        "records": "data/people.csv",
        "leaves": "../office/leaves.csv",
        "path": "../office/book/people.jsonl",
    }
    text = (world.office / "first.toml").read_text()
    text = ids.sub(lambda found: f'{found[1]} = "{places[found[1]]}"', text)
    run.write_text(text.replace('"first"', '"borrowed"'))
    world.note_copied_registry()
    moved = topdown("ledger", "move", run)
    release = ("generate", run, "--out", world.releases / "borrowed", "--yes", "--workers", 1)
    said = moved if moved.code else topdown(*release)
    world.note_copied_registry()
    return said


def _change_limit(world: World) -> Said:
    """Let the limit of the run file be that of the ledger, in the name of a person."""
    said = topdown(
        *("ledger", "limit", world.office / "first.toml", "--by", "A. Person"),
        *("--reason", "more is released"),
    )
    if said.code == 0:
        world.note_limit(RAISED_LIMIT if _is_raised(world) else LIMIT)
    return said


def _take_over(world: World) -> Said:
    """Take the former ledger over into that of the office."""
    had_witness = world.witness.exists()
    said = topdown(
        *("ledger", "take-over", world.office / "first.toml", "--former", world.former),
        *("--by", "A. Person", "--reason", "a new program"),
    )
    if said.code == 0:
        world.note_taken(had_witness=had_witness)
    return said


def _back_up_former(world: World) -> None:
    shutil.copy2(world.former, world.kept / "former.jsonl")


def _restore_former(world: World) -> None:
    shutil.copy2(world.kept / "former.jsonl", world.former)


def _back_up(slot: str) -> Move:
    def act(world: World) -> None:
        for path in (*_books(world), *_beside_records(world)):
            target = world.kept / slot / path.relative_to(world.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)

    return Move(f"back up ({slot})", lambda w: w.ledger.exists() and not (w.kept / slot).exists(), act)


def _restore(slot: str, what: str) -> Move:
    def act(world: World) -> None:
        for path in (world.kept / slot).rglob("*"):
            target = world.root / path.relative_to(world.kept / slot)
            is_book = target.parent.name == "book"
            if path.is_file() and is_book == (what == "ledger"):
                if not is_book:
                    target = world.records / target.name
                shutil.copy2(path, target)

    return Move(f"restore the {what} ({slot})", lambda w: (w.kept / slot).exists(), act, of_disk=True)


def _restore_both(slot: str) -> Move:
    """Put ledger and registry back from one backup, as a restored machine does."""
    apart = [_restore(slot, what) for what in ("ledger", "registry")]

    def act(world: World) -> None:
        for one in apart:
            one.act(world)

    return Move(f"restore ledger and registry ({slot})", apart[0].can, act, of_disk=True)


def _books(world: World) -> list[Path]:
    return sorted((world.office / "book").glob("*.jsonl"))


def _beside_records(world: World) -> list[Path]:
    """Return what programs keep beside the records: registries of data sets."""
    return [path for path in world.records.iterdir() if path.suffix != ".csv" and path.is_file()]


def _remove_books(world: World) -> None:
    for path in _books(world):
        path.unlink()


def _cut_books(world: World) -> None:
    for path in _books(world):
        _cut(path)


def _remove_registries(world: World) -> None:
    for path in _beside_records(world):
        path.unlink()


def _one_more(rows: list[dict[str, Any]]) -> None:
    rows[0]["count"] += 1


def _forge(file: str, change: Callable[[Path], None]) -> Move:
    def act(world: World) -> None:
        change(world.releases / "first" / file)
        reseal(world.releases / "first")

    return Move(f"change {file} of first", _has("first"), act, forges=True)


def _flatter(certificate: Path) -> None:
    """Make a certificate promise less loss than there was."""
    text = certificate.read_text()
    certificate.write_text(text.replace('"rho": "2"', '"rho": "1"').replace("85 times", "75 times"))


def _cut(book: Path) -> None:
    """Leave only the first line of a ledger."""
    book.write_bytes(book.read_bytes().split(b"\n")[0] + b"\n")


APPROVED = ("--yes",)
SITES: tuple[Word, ...] = (
    "--candidates",
    _in_office("candidates.csv"),
    *["--k", "1", "--epsilon", "1", "--yes"],
)


def _is_raised(world: World) -> bool:
    return RAISED in (world.office / "first.toml").read_text()


def _raise_limits(world: World) -> None:
    """Edit what no command keeps: every run file of the office allows thirty times as much."""
    for run in world.office.glob("*.toml"):
        raised = rf'\1 = "{RAISED_LIMIT}"'
        text = re.sub(r'(?m)^(rho_limit|epsilon_limit) = "[^"]*"$', raised, run.read_text())
        run.write_text(RAISED + text)


PEOPLE_MOVES = (
    _generate("first", "first"),
    _generate("second", "second"),
    _generate("first", "first-again", "--again"),
    _command(
        *("resume first", lambda w: not _lacks("first")(w), "generate", _in_office("first.toml"), "--resume"),
        *("--out", _in_releases("first"), "--yes", "--workers", "1"),
    ),
    _command(
        *(
            "resolve first",
            lambda w: _has("first")(w) and _lacks("resolved")(w),
            "resolve",
            _in_releases("first"),
        ),
        *("--out", _in_releases("resolved"), "--targets", "tree"),
    ),
    _command(
        *("choose", _lacks("chosen"), "select", "sites", _in_office("first.toml"), *SITES),
        *("--out", _in_releases("chosen")),
    ),
    _command("audit the ledger", _always, "audit", "--ledger", lambda world: world.ledger, "--json"),
    _command(
        *("audit with the registry", _always, "audit", "--ledger", lambda world: world.ledger),
        *("--registry", lambda world: world.records, "--json"),
    ),
    _command("make the ledger", _always, "ledger", "new", _in_office("first.toml")),
    _command(
        *("attest", _always, "ledger", "attest", _in_office("first.toml"), "--by", "A. Person"),
        *("--reason", "disk replaced"),
    ),
    _command("say that it was moved", _always, "ledger", "move", _in_office("first.toml")),
    Move("say where the registry was", lambda w: w.other_disk.exists(), _say_moved),
    Move("begin elsewhere", lambda w: not w.elsewhere.exists(), _begin_elsewhere),
    Move("move the records", lambda w: not w.other_disk.exists(), _move_records),
    Move("move the folder of records", lambda w: not w.other_disk.exists(), _move_folder),
    Move("raise the limit in every run file", lambda w: not _is_raised(w), _raise_limits),
    Move("change the limit", _always, _change_limit),
    Move("copy the records", lambda w: not w.copy.exists(), lambda w: w.copy_records(whole_folder=False)),
    Move(
        *("copy the folder of records", lambda w: not w.copy.exists()),
        lambda w: w.copy_records(whole_folder=True),
    ),
    Move(*("make a ledger for the copy", lambda w: w.copy.exists() and _lacks("copied")(w)), _from_copy),
    Move(
        *("release by the copied registry", lambda w: (w.copy / "data").exists() and _lacks("borrowed")(w)),
        _by_copied_registry,
    ),
    Move("extend first", lambda w: _has("first")(w) and _lacks("more")(w), _extend),
    Move("release twice at once", lambda w: _lacks("first")(w) and _lacks("second")(w), _both_at_once),
    *(_killed(step) for step in (4, 9, 14, 19, 24)),
)
GROUP_MOVES = (
    Move("raise the limit in every run file", lambda w: not _is_raised(w), _raise_limits),
    _command(
        *("release groups", _lacks("groups"), "release", _in_office("groups.toml")),
        *("--out", _in_releases("groups"), *APPROVED),
        program=pgsr,
    ),
    _command(
        *("release groups again", _lacks("groups-again"), "release", _in_office("groups.toml")),
        *("--out", _in_releases("groups-again"), "--again", *APPROVED),
        program=pgsr,
    ),
    _command("make the ledger of groups", _always, "ledger", "new", _in_office("groups.toml"), program=pgsr),
    Move("begin groups elsewhere", lambda w: not w.elsewhere.exists(), _begin_groups_elsewhere),
)
FORMER_MOVES = (
    Move("take over the former ledger", _always, _take_over),
    # once its witness has another name, the former program refuses to go on
    Move("release by the former program", lambda w: w.witness.exists(), World.charge_former),
    Move("restore the former ledger", lambda w: (w.kept / "former.jsonl").exists(), _restore_former),
)
"""Those of an office that has a ledger of a former format."""
DISK_MOVES = (
    Move("remove the ledger", lambda w: bool(_books(w)), _remove_books, of_disk=True),
    Move("remove the registry", lambda w: bool(_beside_records(w)), _remove_registries, of_disk=True),
    Move("cut the ledger", lambda w: bool(_books(w)), _cut_books, of_disk=True),
    _back_up("late"),
    *(_restore(slot, what) for slot in ("early", "late") for what in ("ledger", "registry")),
    *map(_restore_both, ("early", "late")),
)
FILE_MOVES = (
    _forge("microdata/persons.parquet", lambda path: edit_table(path, _one_more)),
    _forge("certificate.json", _flatter),
    _forge("ledger.jsonl", _cut),
)
GAUSSIAN, GEOMETRIC, OPTIMAL = "discrete_gaussian", "geometric", "optimal"
PLAIN_MOVES = tuple(move for move in PEOPLE_MOVES if move.name not in ("extend first", "choose"))
"""Those of offices whose ledger takes no rho: the extension costs rho, and no choice costs a delta."""
STARTS = {
    "an office": ((), (*PEOPLE_MOVES, *DISK_MOVES), GAUSSIAN),
    "an office with a release": (("generate first",), (*PEOPLE_MOVES, *DISK_MOVES, *FILE_MOVES), GAUSSIAN),
    "an office with an extension": (
        ("generate first", "extend first"),
        (*PEOPLE_MOVES, *DISK_MOVES),
        GAUSSIAN,
    ),
    "an office with a former ledger": (
        ("release by the former program", "back up the former ledger", "release by the former program"),
        (*FORMER_MOVES, *PEOPLE_MOVES, *DISK_MOVES),
        GAUSSIAN,
    ),
    "geometric noise": (("generate first",), (*PLAIN_MOVES, *DISK_MOVES, *FILE_MOVES), GEOMETRIC),
    "optimal noise": (("generate first",), (*PLAIN_MOVES, *DISK_MOVES, *FILE_MOVES), OPTIMAL),
    "groups": ((), (*GROUP_MOVES, *DISK_MOVES), GAUSSIAN),
    "groups with a release": (("release groups",), (*GROUP_MOVES, *DISK_MOVES), GAUSSIAN),
}
"""Where a search begins: moves that are made first, those that are tried after them, and the noise of the office."""
_BACK_UP_FORMER = Move("back up the former ledger", _always, _back_up_former)
BY_NAME = {
    move.name: move
    for move in (*FORMER_MOVES, _BACK_UP_FORMER, *PEOPLE_MOVES, *GROUP_MOVES, *DISK_MOVES, *FILE_MOVES)
}


def begin(world: World, *names: str) -> None:
    """Make the ledgers of the office, keep copies of them, and make some moves that must succeed."""
    for run in sorted(set(world.office.glob("*.toml")) - set(world.office.glob("*.*.toml"))):
        assert (pgsr if run.stem == "groups" else topdown)("ledger", "new", run).code == 0
    _back_up("early").act(world)
    for name in names:
        said = BY_NAME[name].act(world)
        assert said is None or said.code == 0, said.err
    world.look()
    world.note_written({"people": Pair(), "groups": Pair()})
