"""Lines that wrap at words, and tables that turn into key/value blocks where they do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from topdown.screen.look import Chunk, Look, Span, dim, text_width

Line = tuple[Chunk, ...]
PROSE = 80  # prose is not wider than this on any screen
WRAPPED = 30  # a first column that wraps is at least this wide


@dataclass(frozen=True)
class Column:
    """One column of a table; numbers are set right, the first may wrap so that the others stay beside it."""

    name: str
    right: bool = False
    wraps: bool = False


def line_width(line: Iterable[Chunk], look: Look) -> int:
    """Return the columns a line takes."""
    return sum(text_width(look.plain(chunk)) for chunk in line)


def wrap(
    line: Line, look: Look, *, indent: int = 0, hang: int | None = None, width: int = PROSE
) -> list[Line]:
    """Break a line at spaces.

    Args:
        line: text.
        look: what the stream shows.
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
    for word, style in _words(line, look):
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


def _words(line: Line, look: Look) -> list[tuple[str, str]]:
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
    columns: Sequence[Column], rows: Sequence[Sequence[Chunk]], look: Look, indent: int = 2
) -> list[Line]:
    """Lay out a table, or one block a row if it is wider than the screen.

    Args:
        columns: the first one names the row.
        rows: cells, one a column.
        look: what the stream shows.
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
        return _wrapped(columns, rows, look, indent, room - others)
    if others + widths[0] > look.width:
        return _blocks(heads, rows, look, indent)
    lines = [] if not any(heads) else [_row([dim(h) for h in heads], widths, columns, look, indent)]
    return lines + [_row(row, widths, columns, look, indent) for row in rows]


def _wrapped(
    columns: Sequence[Column], rows: Sequence[Sequence[Chunk]], look: Look, indent: int, width: int
) -> list[Line]:
    first: list[tuple[Chunk, ...]] = []
    for row in rows:
        start, *more = wrap((row[0],), look, hang=2, width=width)
        first.append(("".join(map(_text, start)).rstrip(), *row[1:]))
        first += [("".join(map(_text, line)), *[""] * (len(row) - 1)) for line in more]
    return table_lines([Column(columns[0].name), *columns[1:]], first, look, indent)


def _text(chunk: Chunk) -> str:
    return chunk.text if isinstance(chunk, Span) else chunk


def _row(
    cells: Sequence[Chunk], widths: Sequence[int], columns: Sequence[Column], look: Look, indent: int
) -> Line:
    line: list[Chunk] = [" " * indent]
    for i, (cell, width, column) in enumerate(zip(cells, widths, columns, strict=True)):
        space = " " * (width - text_width(look.plain(cell)))
        last = i == len(columns) - 1
        line += [space, cell] if column.right else [cell, "" if last else space]
        line.append("" if last else "  ")
    return tuple(line)


def _blocks(heads: Sequence[str], rows: Sequence[Sequence[Chunk]], look: Look, indent: int) -> list[Line]:
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
