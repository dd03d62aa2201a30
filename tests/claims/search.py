"""Search for sequences of moves after which something that SECURITY.md claims is false, shortest first."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.claims.moves import BY_NAME, STARTS, Move, begin, pgsr
from tests.claims.world import COST, DELTA, LIMIT, OFFICE, Seen, World
from tests.helpers.commands import Said, topdown

STATED_IN_FULL, WITHIN_LIMIT = "stated in full", "within the limit"
VERIFIED, ANSWERED = "verified as finished", "answered"
PROPERTIES = {
    STATED_IN_FULL: "whoever states what everything released costs states at least what was drawn",
    WITHIN_LIMIT: "nothing is drawn beyond the limit, but under one that a person set and every later statement names",
    VERIFIED: "verify passes a release as it was finished, and no other folder",
    ANSWERED: "a command ends with an answer or an error of its own, not with an internal error",
}
"""What must hold after every sequence of moves."""
_ALL = re.compile(r"\beverything (?:released|charged|spent|that was)|reads everything|ever released")
_BLOCK, _TAG = re.compile(r"</?(?:h\d|p|li|t[rdh]|div|figure|section)\b[^>]*>"), re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class Counterexample:
    """A sequence of moves from a start, and the claim that is false after it."""

    start: str
    moves: tuple[str, ...]
    claim: str

    def __str__(self) -> str:
        return f"{self.start}: {' > '.join(self.moves)}: {self.claim}"


def false_claims(world: World, move: Move) -> Iterator[str]:
    """Make a move; name the properties that it broke, by the observer's own count and by digests of whole folders."""
    drawn_before, pairs = world.seen.drawn, world.pairs()
    digests = {name: world.digest(name) for name in world.seen.finished}
    said = move.act(world)
    statements, new = world.look(None if move.forges else digests)
    if move.of_disk:
        world.note_put_back()
    else:
        world.note_written(pairs)
    yield from _of_answers(said, statements)
    yield from _of_verify(world, new)
    for one in statements:
        if not _relies_on_others(one):
            yield from _of_statement(world, one)
    if world.seen.drawn > drawn_before:
        for whose in (OFFICE, *sorted(world.seen.unnoticed)):
            owed, limit = world.seen.owed(whose), world.seen.limit if whose == OFFICE else LIMIT
            if owed > limit and not _is_attested(world):
                yield f"{WITHIN_LIMIT}: {owed} was drawn by {whose} under a limit of {limit}"


def _of_statement(world: World, one: dict[str, Any]) -> Iterator[str]:
    owed, stated = world.seen.owed(one["whose"]), sum(map(Fraction, one["charged"].values()))
    if stated < owed:
        yield f"{STATED_IN_FULL}: {one['at']} states {one['charged']} for everything; {owed} was drawn"
    if stated < world.seen.drawn:
        for text in _unqualified(world, one):
            yield f"{STATED_IN_FULL}: {one['at']} says {text!r}; {world.seen.drawn} was drawn"
    if world.seen.owed() - world.seen.taken > LIMIT and one["whose"] == OFFICE and not _names_a_change(one):
        yield f"{WITHIN_LIMIT}: {one['at']} does not name who let more than {LIMIT} be drawn"
    delta = Fraction(one.get("charged_delta", 0))  # absent of a ledger that was put back to hold nothing
    if world.mechanism == "optimal" and delta < DELTA * owed / COST:
        yield f"{STATED_IN_FULL}: {one['at']} states delta {delta}; {owed} was drawn"


def _is_attested(world: World) -> bool:
    """Tell whether a person stands for the ledger: from then on everything that is stated says so."""
    return any(b'"kind":"vouch"' in (pair.ledger or b"") for pair in world.pairs().values())


def _relies_on_others(statement: dict[str, Any]) -> bool:
    """Tell whether a statement says that it relies on a person or a copy, and so claims no more than these.

    Whoever attests that a former ledger is complete takes nothing back of what was found in it.
    """
    relied_on = [one for one in statement["attestations"] if "taken_over" not in one]
    said = str(statement["secrets"]).lower()
    is_copy = statement.get("newest") is False or "according to a copy" in said
    return is_copy or (bool(relied_on) and "attested" in said)


def _unqualified(world: World, statement: dict[str, Any]) -> Iterator[str]:
    """Yield sentences by which a release speaks of everything and names no ledger that holds it."""
    folder = world.releases / statement["at"]
    pages = [path.read_text() for path in (folder / "README.txt", folder / "report.html") if path.exists()]
    for text in (*(row["sentence"] for row in statement["secrets"]), *pages):
        for said in re.split(r"\.\s", _TAG.sub("", _BLOCK.sub("\n. ", text)).replace("ledger.jsonl", "")):
            if _ALL.search(said.lower()) and "ledger" not in said.lower():
                yield " ".join(said.split())


def _names_a_change(statement: dict[str, Any]) -> bool:
    """Tell whether a statement says which person changed a limit."""
    return any(limit.get("by") for limit in statement["limits"])


def _of_answers(said: Said | None, statements: list[dict[str, Any]]) -> Iterator[str]:
    """Look at what a command answered; add what it states of everything released."""
    if said is None:
        return
    if said.code == 4 or "Traceback" in said.err or "error[X001]" in said.err:
        yield f"{ANSWERED}: a command ended in an internal error: {said.err[:300]}"
    if said.code == 0 and '"topdown.audit.ledger"' in said.out:
        statements.append(said.document | {"at": "the audit of the ledger", "whose": OFFICE})


def _of_verify(world: World, new: Iterable[str]) -> Iterator[str]:
    for name, digest in world.seen.finished.items():
        folder = world.releases / name
        is_whole = folder.exists() and world.digest(name) == digest
        if is_whole and name not in new:
            continue  # it was verified as it is
        passes = folder.exists() and _verify(name, folder).code == 0
        if passes != is_whole:
            verdict, state = "passes" if passes else "refuses", "is whole" if is_whole else "was changed"
            yield f"{VERIFIED}: verify {verdict} {name}, which {state}"


def _verify(name: str, folder: Path) -> Said:
    return (pgsr if name.startswith("groups") else topdown)("verify", folder)


@dataclass
class Begun:
    """Worlds at their starts: each is made once in a folder, and put back there whenever it is asked for."""

    folder: Path
    made: dict[str, tuple[World, Seen]] = field(default_factory=dict)

    def at(self, start: str) -> World:
        """Return the world of a start as it begins; the one returned before is no more."""
        kept = self.folder / start / "begun"
        if start not in self.made:
            world = World(self.folder / start / "world", STARTS[start][2])
            begin(world, *STARTS[start][0])
            self.made[start] = world, world.save(kept)
        world, seen = self.made[start]
        world.load(kept, seen)
        return world


def replay(world: World, *moves: str) -> list[str]:
    """Make moves one after the other; return the claims that are false after any of them."""
    return [claim for name in moves for claim in false_claims(world, BY_NAME[name])]


@dataclass
class Tally:
    """How far a search has come from each start: moves made, different states, moves of the longest sequence."""

    moves: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    longest: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = (
            f"{start}: {n} moves, {self.states[start]} states, sequences of up to {self.longest[start]}\n"
            for start, n in self.moves.items()
        )
        return f"{''.join(rows)}{self.moves.total()} moves in all"


def search(
    folder: Path,
    *,
    depth: int,
    seconds: float,
    starts: Iterable[str] = tuple(STARTS),
    tally: Tally | None = None,
) -> Iterator[Counterexample]:
    """Yield counterexamples of at most `depth` moves, shortest first from each start.

    Args:
        folder: scratch space; the world lies at one path in it all the time.
        seconds: at most about this long, divided equally among the starts.
        tally: where to count.
    """
    starts, tally = tuple(starts), tally or Tally()
    for number, start in enumerate(starts):
        end = time.monotonic() + seconds / len(starts)
        scratch = folder / str(number)
        world = World(scratch / "world", STARTS[start][2])
        begin(world, *STARTS[start][0])
        yield from _breadth_first(world, start, scratch / "states", depth, end, tally)
        shutil.rmtree(scratch)


def _breadth_first(
    world: World, start: str, states: Path, depth: int, end: float, tally: Tally
) -> Iterator[Counterexample]:
    known = {world.signature()}
    waiting: deque[tuple[tuple[str, ...], Path, Seen]] = deque([((), states / "0", world.save(states / "0"))])
    while waiting:
        made, saved, seen = waiting.popleft()
        for move in STARTS[start][1]:
            if time.monotonic() > end:
                return
            world.load(saved, seen)
            if not move.can(world):
                continue
            after = (*made, move.name)
            false = list(false_claims(world, move))
            tally.moves[start] += 1
            tally.longest[start] = len(after)
            yield from (Counterexample(start, after, claim) for claim in false)
            state = world.signature()
            tally.states[start] = len(known | {state})
            if not false and len(after) < depth and state not in known:
                folder = states / str(len(known))
                known.add(state)
                waiting.append((after, folder, world.save(folder)))
        shutil.rmtree(saved)
