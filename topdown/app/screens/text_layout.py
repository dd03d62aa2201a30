"""Text for one output stream: its width, colour and character set; lines that wrap at words, tables that fit.

A table that does not fit turns into key/value blocks. Nothing in a text can move the cursor.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TextIO

ColorChoice = Literal["auto", "always", "never"]
_CODES = {
    "bold": "1",
    "dim": "2",
    "ok": "32",
    "fail": "31",
    "error": "1;31",
    "warn": "33",
    "exact": "36",
    "plus": "32",
}


_ASCII = {
    "ρ": "rho", "ε": "epsilon", "δ": "delta", "μ": "mu", "×": "x", "≈": "~", "│": "|", "━": "#", "≤": "<=",
    "≥": ">=", "±": "+/-", "…": "...", "→": "->", "✓": "ok", "✗": "FAIL", "“": '"', "”": '"', "’": "'",
    "–": "-", "—": "-",
}  # fmt: skip


GLUE = "\u00a0"  # a space at which a line is not broken
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Span(NamedTuple):
    """Text with the name of a style; styles never carry meaning that the text does not."""

    text: str
    style: str = ""


Chunk = str | Span
OK, FAIL, WARN, PLUS, EXACT = (
    Span("✓", "ok"),
    Span("✗", "fail"),
    Span("!", "warn"),
    Span("+", "plus"),
    Span("=", "exact"),
)


def bold(text: str) -> Span:
    """Mark a name."""
    return Span(text, "bold")


def dim(text: str) -> Span:
    """Mark a label."""
    return Span(text, "dim")


@dataclass(frozen=True)
class StreamLook:
    """What a stream can show.

    Args:
        width: columns.
        colour: whether escape codes for colour may be written.
        ascii: whether every symbol must become a word.
        live: whether a line may be redrawn (a terminal that moves its cursor).
    """

    width: int = 80
    colour: bool = False
    ascii: bool = False
    live: bool = False

    def plain(self, chunk: Chunk) -> str:
        """Return the text as it will appear: control characters removed, symbols as words where needed."""
        if isinstance(chunk, Span) and chunk == WARN:
            return "warn" if self.ascii else "!"
        text = chunk.text if isinstance(chunk, Span) else chunk
        text = _UNSAFE.sub(lambda found: " " if found.group() in "\n\t\r" else "�", text)
        if not self.ascii or text.isascii():
            return text
        return "".join(_ASCII.get(c) or _nearest_ascii(c) for c in text)

    def paint(self, chunk: Chunk) -> str:
        """Return the text with its colour, if the stream shows colours."""
        text = self.plain(chunk)
        code = _CODES.get(chunk.style) if isinstance(chunk, Span) else None
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text


def _nearest_ascii(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return character if character in (GLUE, *plain) else plain or "?"


def text_width(text: str) -> int:
    """Return the columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(bool(unicodedata.combining(c)) for c in text)


def detect_look(
    stream: TextIO,
    *,
    color: ColorChoice = "auto",
    ascii_only: bool = False,
    env: Mapping[str, str] | None = None,
) -> StreamLook:
    """Find out what a stream can show.

    Args:
        stream: where the text will go.
        color: the user's wish; stronger than NO_COLOR, which is stronger than FORCE_COLOR, then TERM=dumb.
        ascii_only: the user's wish for plain ASCII.
        env: environment, `os.environ` by default.
    """
    env = os.environ if env is None else env
    terminal = stream.isatty()
    dumb = env.get("TERM") == "dumb"
    if color != "auto":
        colour = color == "always"
    elif env.get("NO_COLOR"):
        colour = False
    elif env.get("FORCE_COLOR"):
        colour = True
    else:
        colour = terminal and not dumb
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").replace("_", "")
    return StreamLook(
        _stream_width(stream, terminal, env), colour, ascii_only or encoding != "utf8", terminal and not dumb
    )


def _stream_width(stream: TextIO, terminal: bool, env: Mapping[str, str]) -> int:
    columns = env.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(20, int(columns))
    if terminal:
        try:
            return max(20, os.get_terminal_size(stream.fileno()).columns or 80)
        except (OSError, ValueError):
            return 80
    return 80


def standard_look(argument: TextIO | None, name: Literal["stdout", "stderr"]) -> TextIO:
    """Return a stream, or the process's own."""
    chosen: TextIO = getattr(sys, name) if argument is None else argument
    return chosen


Line = tuple[Chunk, ...]
PROSE = 80  # prose is not wider than this on any screen
WRAPPED = 30  # a first column that wraps is at least this wide


@dataclass(frozen=True)
class Column:
    """One column of a table; numbers are set right, the first may wrap so that the others stay beside it."""

    name: str
    right: bool = False
    wraps: bool = False


def numbers(*names: str) -> list[Column]:
    """Return columns of numbers, set right."""
    return [Column(name, right=True) for name in names]


def line_width(line: Iterable[Chunk], look: StreamLook) -> int:
    """Return the columns a line takes."""
    return sum(text_width(look.plain(chunk)) for chunk in line)


def wrap(
    line: Line, look: StreamLook, *, indent: int = 0, hang: int | None = None, width: int = PROSE
) -> list[Line]:
    """Break a line at spaces.

    Args:
        line: text.
        indent: spaces before the first line.
        hang: spaces before the following lines, `indent` by default.
        width: most columns; the look's width if that is smaller. A word longer than that is kept whole,
            because it is a path or a command that somebody will copy.
    """
    width = min(width, look.width)
    if indent + line_width(line, look) <= width:
        return [(" " * indent, *line)]
    hang = indent if hang is None else min(hang, width // 2)
    lines: list[Line] = []
    current: list[Chunk] = [" " * indent]
    used, gap = indent, ""
    for word, style in _split_words(line, look):
        if word[0] == " ":
            gap += word
            continue
        empty = len(current) == 1
        if not empty and used + len(gap) + text_width(word) > width and used + len(gap) > hang:
            lines.append(tuple(current))
            current, used, gap, empty = [" " * hang], hang, "", True
        if (gap and not empty) or (gap and not lines):
            current.append(gap)
            used += len(gap)
        current.append(Span(word, style))
        used += text_width(word)
        gap = ""
    return [*lines, tuple(current)]


def _split_words(line: Line, look: StreamLook) -> list[tuple[str, str]]:
    words = []
    for chunk in line:
        style = chunk.style if isinstance(chunk, Span) else ""
        words += [(word, style) for word in re.findall(r" +|[^ ]+", look.plain(chunk))]
    # glue pieces without a space between them, so that "(" and a styled word stay together
    glued: list[tuple[str, str]] = []
    for word, style in words:
        if glued and " " not in (word[0], glued[-1][0][0]) and style == glued[-1][1]:
            glued[-1] = (glued[-1][0] + word, style)
        else:
            glued.append((word, style))
    return glued


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[Chunk]], look: StreamLook, indent: int = 2
) -> list[Line]:
    """Lay out a table, or one block a row if it is wider than the screen.

    Args:
        columns: the first one names the row.
        rows: cells, one a column.
        indent: spaces before each line.
    """
    plain = [[look.plain(cell) for cell in row] for row in rows]
    heads = [look.plain(column.name) for column in columns]
    widths = [
        max([text_width(head), *(text_width(row[i]) for row in plain)], default=0)
        for i, head in enumerate(heads)
    ]
    room = min(look.width, PROSE if columns[0].wraps else look.width)
    others = indent + sum(widths[1:]) + 2 * (len(widths) - 1)
    if columns[0].wraps and others + widths[0] > room >= others + WRAPPED:
        return _wrapped_table(columns, rows, look, indent, room - others)
    if others + widths[0] > look.width:
        return _key_value_blocks(heads, rows, look, indent)
    lines = [] if not any(heads) else [_table_row([dim(h) for h in heads], widths, columns, look, indent)]
    return lines + [_table_row(row, widths, columns, look, indent) for row in rows]


def _wrapped_table(
    columns: Sequence[Column], rows: Sequence[Sequence[Chunk]], look: StreamLook, indent: int, width: int
) -> list[Line]:
    first: list[tuple[Chunk, ...]] = []
    for row in rows:
        start, *more = wrap((row[0],), look, hang=2, width=width)
        first.append(("".join(map(_text_of_chunks, start)).rstrip(), *row[1:]))
        first += [("".join(map(_text_of_chunks, line)), *[""] * (len(row) - 1)) for line in more]
    return table_lines([Column(columns[0].name), *columns[1:]], first, look, indent)


def _text_of_chunks(chunk: Chunk) -> str:
    return chunk.text if isinstance(chunk, Span) else chunk


def _table_row(
    cells: Sequence[Chunk], widths: Sequence[int], columns: Sequence[Column], look: StreamLook, indent: int
) -> Line:
    line: list[Chunk] = [" " * indent]
    for i, (cell, width, column) in enumerate(zip(cells, widths, columns, strict=True)):
        space = " " * (width - text_width(look.plain(cell)))
        last = i == len(columns) - 1
        line += [space, cell] if column.right else [cell, "" if last else space]
        line.append("" if last else "  ")
    return tuple(line)


def _key_value_blocks(
    heads: Sequence[str], rows: Sequence[Sequence[Chunk]], look: StreamLook, indent: int
) -> list[Line]:
    key = max((text_width(head) for head in heads[1:]), default=0)
    lines: list[Line] = []
    for row in rows:
        lines += wrap((row[0],), look, indent=indent, width=look.width)
        for head, cell in zip(heads[1:], row[1:], strict=True):
            if look.plain(cell) in ("", "-"):
                continue
            start: Line = (dim(head), " " * (key - text_width(head) + 2), cell)
            lines += wrap(start, look, indent=indent + 2, hang=indent + key + 4, width=look.width)
    return lines
