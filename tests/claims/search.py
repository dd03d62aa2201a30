"""Search for sequences of moves after which something that SECURITY.md claims is false, shortest first.

`python -m tests.claims --minutes 60` searches for an hour and prints what it found.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tests.claims.moves import COPIED_TOGETHER, MOVES, Move, begin
from tests.claims.world import LIMIT, Seen, World
from tests.helpers.attacked import Said

STARTS = ((), ("generate first",))
QUALIFIED = ("attested", "according to a copy")
"""Words by which a statement says whom or what it relies on, so that it does not claim more than it knows."""


@dataclass(frozen=True)
class Counterexample:
    """A sequence of moves and the claim that is false after it."""

    moves: tuple[str, ...]
    claim: str

    def __str__(self) -> str:
        return f"{' > '.join(self.moves)}: {self.claim}"


def violations(world: World, said: Said | None, drawn_before: Fraction) -> Iterator[str]:
    """Name the claims that the last move made false.

    Three are held against the observer's own count: a statement of everything released states at least what was
    drawn; nothing is drawn beyond the limit; a traceback or an internal error is no answer.
    """
    statements = world.look()
    if said is not None:
        if said.code == 4 or "Traceback" in said.err or "error[X001]" in said.err:
            yield "a command ended in an internal error"
        if said.out.startswith('{"') or said.out.startswith("{\n"):
            document = said.document
            if document.get("type") == "topdown.audit.ledger":
                statements.append(document | {"at": "audit"})
    if COPIED_TOGETHER in world.seen.allowed:
        return
    qualified = [one for one in statements if any(word in str(one) for word in QUALIFIED)]
    for one in statements:
        if one not in qualified and Fraction(one["charged"]) < world.seen.drawn:
            yield f"{one['at']} states {one['charged']} for everything; {world.seen.drawn} was drawn"
    if world.seen.drawn > max(LIMIT, drawn_before) and not qualified:
        yield f"{world.seen.drawn} was drawn under a limit of {LIMIT}"


def tried(world: World, move: Move) -> list[str]:
    """Make a move; return what became false by it."""
    before = world.seen.drawn
    said = move.act(world)
    return list(violations(world, said, before))


def search(folder: Path, *, depth: int, seconds: float, moves: tuple[Move, ...] = MOVES) -> Iterator[Counterexample]:
    """Yield counterexamples of at most `depth` moves, from each start, until the time is over.

    Args:
        folder: scratch space; the world lies at one path in it all the time.
        seconds: at most about this long.
    """
    end = time.monotonic() + seconds
    for number, start in enumerate(STARTS):
        scratch = folder / str(number)
        scratch.mkdir(parents=True)
        world = World(scratch / "world")
        begin(world, *start)
        yield from _breadth_first(world, start, scratch, depth, end, moves)
        shutil.rmtree(scratch)


def _breadth_first(
    world: World, start: tuple[str, ...], scratch: Path, depth: int, end: float, moves: tuple[Move, ...]
) -> Iterator[Counterexample]:
    known = {world.signature()}
    first = scratch / "states" / "0"
    waiting: deque[tuple[tuple[str, ...], Path, Seen]] = deque([(start, first, world.save(first))])
    n_states = 1
    while waiting:
        made, saved, seen = waiting.popleft()
        for move in moves:
            if time.monotonic() > end:
                return
            world.load(saved, seen)
            if not move.can(world):
                continue
            false, after = tried(world, move), (*made, move.name)
            if false:
                yield from (Counterexample(after, claim) for claim in false)
                continue  # what follows a false claim shows nothing more
            if len(after) - len(start) < depth and (state := world.signature()) not in known:
                known.add(state)
                folder = scratch / "states" / str(n_states)
                n_states += 1
                waiting.append((after, folder, world.save(folder)))
        shutil.rmtree(saved)
