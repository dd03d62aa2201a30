"""The two streams of a command: results on one, progress and warnings on the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from topdown.screen.layout import PROSE, Column, Line, line_width, table_lines, wrap
from topdown.screen.look import GLUE, OK, WARN, Chunk, ColorChoice, Look, bold, detect, standard
from topdown.screen.streams import write_or_drop, write_result

if TYPE_CHECKING:
    from msgspec import Struct


@dataclass(frozen=True, eq=False)
class Painter:
    """One stream and what it can show; text of an optional one is dropped where it cannot be written."""

    stream: TextIO
    look: Look
    optional: bool = False

    def put(self, text: str) -> None:
        """Write text as it is."""
        if self.optional:
            write_or_drop(self.stream, text)
        else:
            write_result(self.stream, text)

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
            Painter(stream, detect(stream, color=color, ascii_only=ascii_only), optional)
            for stream, optional in ((standard(out, "stdout"), False), (standard(err, "stderr"), True))
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
        """Write the one JSON document of the command."""
        if self.json:
            import msgspec

            plain = document if isinstance(document, dict) else msgspec.to_builtins(document)
            self.out.put(json.dumps(plain, ensure_ascii=self.out.look.ascii, indent=2) + "\n")
