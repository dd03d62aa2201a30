"""One run of a command line: whatever ends it, its streams included, it ends with an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from topdown.allocator import take_from_system
from topdown.errors import EXIT_OK, EXIT_USER
from topdown.screen.streams import (
    EXIT_NOBODY_READS,
    ReaderLeftError,
    last_flush,
    mute,
    open_standard,
    write_or_drop,
)


def run_program(
    call: Callable[[], object], stopped: Callable[[BaseException], int], failed: Callable[[Exception], int]
) -> int:
    """Run a command and return its exit code; 141 if whoever read the output has left.

    Args:
        call: runs the command; returns its exit code, or anything else if it has none.
        stopped: shows that it was interrupted.
        failed: shows an error.
    """
    open_standard()
    take_from_system()
    try:
        code = _code_of(call, stopped, failed)
    except ReaderLeftError:
        mute(sys.stdout)
        return EXIT_NOBODY_READS
    return last_flush(code)


def _code_of(
    call: Callable[[], object], stopped: Callable[[BaseException], int], failed: Callable[[Exception], int]
) -> int:
    try:
        result = call()
    except ReaderLeftError:
        raise
    except (click.Abort, KeyboardInterrupt) as raised:
        return stopped(raised)
    except click.exceptions.NoArgsIsHelpError as shown:
        write_or_drop(sys.stderr, shown.format_message() + "\n")
        return EXIT_USER
    except Exception as raised:
        return failed(raised)
    return result if isinstance(result, int) else EXIT_OK
