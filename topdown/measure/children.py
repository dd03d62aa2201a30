"""Processes forked from this one that draw noise, each from a key of its own.

True counts are inherited, never sent; what comes back are files with fresh noise. A child that is lost takes with it
what it was asked for: nothing is ever asked twice, because nobody can know who saw the first noise.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol

from topdown.errors import InternalError, TopdownError
from topdown.privacy import BitSource
from topdown.privacy.ledger import MeasuredPart
from topdown.process import die_with_parent, ignore_stops

_MARK_BYTES = 32  # of a child's stream, thrown away once their digest is shown


class Drawing(Protocol):
    """Draws parts from one source of bits."""

    @property
    def bits(self) -> BitSource:
        """Return where all its noise is from."""

    def file_of(self, part: MeasuredPart) -> bytes:
        """Return the file of a part, with fresh noise."""


@dataclass(frozen=True)
class _Child:
    """A child, and this process's end of the pipe to it."""

    process: BaseProcess
    pipe: Connection


def draw_in_children(born: Callable[[], Drawing], parts: Iterable[MeasuredPart], n: int) -> Generator[bytes]:
    """Yield the file of each part, in order; each is drawn in one of some forked children.

    A part is taken when a child is free for it, n + 1 at most before one is yielded. Children ignore the signals that
    stop a run: whoever forked them lets them finish, and closes this generator.

    Args:
        born: called once in each child, after the fork; makes its source of bits.
        parts: taken one by one.
        n: children, 1 or more.

    Raises:
        InternalError: X058 two children show the same bits, before any part is taken; X049 a child was lost; X010
            and X020.

    """
    with _forked_children(born, n) as children:
        _require_own_bits([_receive(child, "its key") for child in children])
        ahead, waiting = iter(parts), deque[tuple[_Child, MeasuredPart]]()
        for child in children:
            waiting.extend(_hand_out(child, ahead))
        while waiting:
            child, part = waiting.popleft()
            data = _receive(child, part.key)
            waiting.extend(_hand_out(child, ahead))
            yield data


@contextmanager
def _forked_children(born: Callable[[], Drawing], n: int) -> Iterator[list[_Child]]:
    """Fork children; they are gone at the end."""
    fork, children = multiprocessing.get_context("fork"), list[_Child]()
    try:
        for _ in range(n):
            ours, theirs = fork.Pipe()
            others = [ours, *(child.pipe for child in children)]
            process = fork.Process(target=_child_main, args=(born, theirs, others), daemon=True)
            process.start()
            theirs.close()  # so that the pipe ends with the child
            children.append(_Child(process, ours))
        yield children
    finally:
        for child in children:
            child.pipe.close()
            child.process.kill()
            child.process.join()


def _hand_out(child: _Child, ahead: Iterator[MeasuredPart]) -> Iterator[tuple[_Child, MeasuredPart]]:
    """Ask a child for the next part, if there is one."""
    for part in islice(ahead, 1):
        with suppress(OSError):  # it is gone: its answer will say so
            child.pipe.send(part)
        yield child, part


def _receive(child: _Child, what: str) -> bytes:
    """Return what a child made, or raise what it ran into."""
    try:
        error = child.pipe.recv()
        if error is None:
            return child.pipe.recv_bytes()
    except (EOFError, OSError):
        error = InternalError(
            "a process that drew noise was killed",
            code="X049",
            details=(("lost with it", what),),
            fix="make room, then go on with --resume and fewer --workers: parts that are whole are kept, the levels "
            "of those that were lost are charged again",
        )
    raise error


def _require_own_bits(marks: list[bytes]) -> None:
    """Refuse children of which two are at the same place of the same stream."""
    if len(set(marks)) < len(marks):
        raise InternalError(
            "two processes would draw the same noise; none was drawn",
            code="X058",
            fix="release nothing from this machine until its random numbers are understood",
        )


def _child_main(born: Callable[[], Drawing], pipe: Connection, others: list[Connection]) -> None:
    """Draw what is asked for until the pipe ends."""
    ignore_stops()
    die_with_parent()
    gc.freeze()  # a collection would copy every page of objects that the parent shares
    for other in others:
        other.close()
    with suppress(EOFError, OSError):  # nobody asks any more
        try:
            drawing = born()
            _send_bytes(pipe, hashlib.sha256(drawing.bits.read(_MARK_BYTES)).digest())
            while True:
                _send_bytes(pipe, drawing.file_of(pipe.recv()))
        except TopdownError as error:
            pipe.send(error)
        except (EOFError, OSError):
            raise
        except Exception as error:  # its words may quote a count, so only its kind is kept
            pipe.send(InternalError(f"noise could not be drawn ({type(error).__name__})", code="X022"))


def _send_bytes(pipe: Connection, data: bytes) -> None:
    pipe.send(None)
    pipe.send_bytes(data)
