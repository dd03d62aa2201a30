"""The standard streams of a process: there from the first line on, and no reason to lose a run if they fail."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from topdown.errors import EXIT_INTERNAL, EXIT_OK, InternalError

EXIT_NOBODY_READS = 141  # what a shell says of a process whose reader has left


def open_standard() -> None:
    """Open on the null device what the caller closed (`>&-`): a ledger must never become file number 1 or 2."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def mute(stream: TextIO) -> None:
    """Lead a stream that cannot be written to nowhere, so that what it still holds fails no later step."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)


def write_or_drop(stream: TextIO, text: str) -> bool:
    """Write progress or a warning at once; False if it was dropped because the stream cannot be written."""
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        mute(stream)
        return False
    return True


class ReaderLeftError(Exception):
    """Whoever read the standard output has left; click would end the process itself on a BrokenPipeError."""


def write_result(stream: TextIO, text: str) -> None:
    """Write a part of the result.

    Raises:
        ReaderLeftError: whoever read it has left.
        InternalError: X005 it cannot be written.
    """
    try:
        stream.write(text)
    except BrokenPipeError:
        raise ReaderLeftError from None
    except (OSError, ValueError) as error:
        raise lost(error) from None


def lost(error: Exception) -> InternalError:
    """Return the error of a result that cannot be written."""
    why = error.strerror if isinstance(error, OSError) else "it is closed"
    return InternalError(
        f"the result cannot be written to the standard output: {why}",
        code="X005",
        fix="the files of the command are as it left them; see: topdown audit, topdown verify, the ledger",
    )


def last_flush(code: int) -> int:
    """Write out what the standard output still holds; return the exit code, another one if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        mute(sys.stdout)
        return EXIT_NOBODY_READS
    except (OSError, ValueError) as error:
        mute(sys.stdout)
        write_or_drop(sys.stderr, f"error[X005] {lost(error)}\n")
        return EXIT_INTERNAL if code == EXIT_OK else code
    return code
