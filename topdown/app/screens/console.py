"""The two streams of a command, results on one, progress and warnings on the other, and how a program ends.

The streams are there from the first line on, and no reason to lose a run if they fail.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import click

from topdown import process
from topdown.app.screens.text_layout import (
    GLUE,
    OK,
    PROSE,
    WARN,
    Chunk,
    ColorChoice,
    Column,
    Line,
    StreamLook,
    bold,
    detect_look,
    line_width,
    standard_look,
    table_lines,
    wrap,
)
from topdown.errors import EXIT_INTERNAL, EXIT_OK, EXIT_USER, InternalError, TopdownError, in_octal

if TYPE_CHECKING:
    from msgspec import Struct


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


def mute_stream(stream: TextIO) -> None:
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
        mute_stream(stream)
        return False
    return True


class ReaderLeftError(Exception):
    """Whoever read the standard output has left; click would end the process itself on a BrokenPipeError."""


def lost_output(error: Exception) -> InternalError:
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
        mute_stream(sys.stdout)
        return EXIT_NOBODY_READS
    except (OSError, ValueError) as error:
        mute_stream(sys.stdout)
        write_or_drop(sys.stderr, f"error[X005] {lost_output(error)}\n")
        return EXIT_INTERNAL if code == EXIT_OK else code
    return code


@dataclass(frozen=True, eq=False)
class Painter:
    """One stream and what it can show; text of an optional one is dropped where it cannot be written."""

    stream: TextIO
    look: StreamLook
    optional: bool = False

    def put(self, text: str) -> None:
        """Write text as it is."""
        if self.optional:
            write_or_drop(self.stream, text)
        else:
            try:
                self.stream.write(text)
            except BrokenPipeError:
                raise ReaderLeftError from None
            except (OSError, ValueError) as error:
                raise lost_output(error) from None

    def raw(self, line: Line) -> None:
        """Write one line as it is."""
        text = "".join(self.look.paint(chunk) for chunk in line).replace(GLUE, " ").rstrip(" ")
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.put(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def line(self, *chunks: Chunk, indent: int = 0, hang: int | None = None) -> None:
        """Write text, wrapped at words."""
        for line in wrap(chunks, self.look, indent=indent, hang=hang):
            self.raw(line)

    def item(self, symbol: Chunk, *chunks: Chunk, indent: int = 2) -> None:
        """Write a symbol and a text that hangs from it."""
        hang = indent + line_width((symbol,), self.look) + 1
        self.line(symbol, " ", *chunks, indent=indent, hang=hang)

    def pairs(self, rows: Iterable[tuple[Chunk, Chunk]], indent: int = 2) -> None:
        """Write keys with the values hanging beside them, or below where the keys are half a screen wide."""
        rows = list(rows)
        key = max((line_width((k,), self.look) for k, _ in rows), default=0)
        beside = indent + key + 2 <= min(PROSE, self.look.width) // 2
        for k, value in rows:
            space = " " * (key - line_width((k,), self.look) + 2)
            if beside:
                self.line(k, space, value, indent=indent, hang=indent + key + 2)
            else:
                self.line(k, indent=indent)
                self.line(value, indent=indent + 2)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Chunk]], indent: int = 2) -> None:
        """Write a table, or blocks on a narrow screen."""
        for line in table_lines(columns, rows, self.look, indent):
            self.raw(line)

    def commands(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write commands to copy, each whole, with what they do beside or below."""
        rows = [(in_octal(command) if self.look.ascii else command, note) for command, note in rows]
        key = max((len(command) for command, _ in rows), default=0)
        beside = all(2 + key + 3 + len(note) <= min(80, self.look.width) for _, note in rows)
        for command, note in rows:
            if beside:
                self.raw(("  ", command.ljust(key), "   ", note))
            else:
                self.raw(("  ", command))
                if note:
                    self.line(note, indent=6)


@dataclass(frozen=True, eq=False)
class Screen:
    """Everything a command says.

    Args:
        out, err: results; progress and warnings.
        quiet: only the last line of the result.
        verbose: more detail.
        json: nothing but one JSON document on `out`.
    """

    out: Painter
    err: Painter
    quiet: bool = False
    verbose: bool = False
    json: bool = False

    @classmethod
    def open(
        cls,
        *,
        color: ColorChoice = "auto",
        ascii_only: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        json_only: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> Screen:
        """Look at both streams of the process and make a screen of them."""
        painters = [
            Painter(stream, detect_look(stream, color=color, ascii_only=ascii_only), optional)
            for stream, optional in (
                (standard_look(out, "stdout"), False),
                (standard_look(err, "stderr"), True),
            )
        ]
        return cls(painters[0], painters[1], quiet, verbose, json_only)

    @property
    def talks(self) -> bool:
        """Whether more than the last line is wanted."""
        return not (self.quiet or self.json)

    def say(self, *chunks: Chunk, indent: int = 0, hang: int | None = None) -> None:
        """Write a line of the result."""
        if self.talks:
            self.out.line(*chunks, indent=indent, hang=hang)

    def blank(self) -> None:
        """Write an empty line."""
        if self.talks:
            self.out.raw(())

    def heading(self, title: str, *more: Chunk) -> None:
        """Write a section's title after an empty line."""
        self.blank()
        self.say(bold(title), *more)

    def item(self, symbol: Chunk, *chunks: Chunk, indent: int = 2) -> None:
        """Write a symbol and its text."""
        if self.talks:
            self.out.item(symbol, *chunks, indent=indent)

    def pairs(self, rows: Iterable[tuple[Chunk, Chunk]], indent: int = 2) -> None:
        """Write keys and values."""
        if self.talks:
            self.out.pairs(rows, indent)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Chunk]], indent: int = 2) -> None:
        """Write a table."""
        if self.talks:
            self.out.table(columns, rows, indent)

    def last(self, *chunks: Chunk, symbol: Chunk = OK) -> None:
        """Write the line that is shown even with -q."""
        if not self.json and symbol:
            self.out.item(symbol, *chunks, indent=0)
        elif not self.json:
            self.out.line(*chunks)

    def next(self, *rows: tuple[str, str]) -> None:
        """Write what to do next: commands to copy and what each does."""
        if self.talks:
            self.out.raw(())
            self.out.raw(("Next",))
            self.out.commands(rows)

    def warn(self, *chunks: Chunk) -> None:
        """Write a warning to the other stream."""
        if not self.quiet:
            self.err.item(WARN, *chunks, indent=0)

    def document(self, document: Struct | dict[str, Any]) -> None:
        """Write the one JSON document of the command; a stop that comes from here on adds no second one."""
        if self.json:
            import msgspec

            plain = document if isinstance(document, dict) else msgspec.to_builtins(document)
            process.let_command_end()
            self.out.put(json.dumps(plain, ensure_ascii=self.out.look.ascii, indent=2) + "\n")


def run_program(
    call: Callable[[], object], stopped: Callable[[BaseException], int], failed: Callable[[Exception], int]
) -> int:
    """Run a command and return its exit code; 141 if whoever read the output has left.

    Ctrl-C, SIGTERM and SIGHUP interrupt the command, and nothing that is said of how it ended.

    Args:
        call: runs the command; returns its exit code, or anything else if it has none.
        stopped: shows that it was interrupted: also if a library made another error of the interrupt.
        failed: shows an error.
    """
    open_standard()
    process.use_system_allocator()
    before, sys.unraisablehook = sys.unraisablehook, _say_no_interrupt
    try:
        with process.hold_stops(), process.signals_as_interrupt():
            return last_flush(_code_of(call, stopped, failed))
    except ReaderLeftError:
        mute_stream(sys.stdout)
        return EXIT_NOBODY_READS
    finally:
        sys.unraisablehook = before


def _say_no_interrupt(lost: sys.UnraisableHookArgs) -> None:
    """Say nothing of an interrupt that came while an object was deleted: `check_stopped` raises it again."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)


def _code_of(
    call: Callable[[], object], stopped: Callable[[BaseException], int], failed: Callable[[Exception], int]
) -> int:
    try:
        with process.allow_stops():
            result = call()
    except ReaderLeftError:
        raise
    except (click.Abort, KeyboardInterrupt) as raised:
        return stopped(raised)
    except click.exceptions.NoArgsIsHelpError as shown:
        write_or_drop(sys.stderr, shown.format_message() + "\n")
        return EXIT_USER
    except Exception as raised:
        as_stop = process.was_stopped() and not isinstance(raised, TopdownError)
        return stopped(raised) if as_stop else failed(raised)
    return result if isinstance(result, int) else EXIT_OK
