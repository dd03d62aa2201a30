"""How one output stream may be written to: width, colour, character set."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Mapping
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
class Look:
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
        text = _UNSAFE.sub(_visible, chunk.text if isinstance(chunk, Span) else chunk)
        if not self.ascii or text.isascii():
            return text
        return "".join(_ASCII.get(c) or _nearest(c) for c in text)

    def paint(self, chunk: Chunk) -> str:
        """Return the text with its colour, if the stream shows colours."""
        text = self.plain(chunk)
        code = _CODES.get(chunk.style) if isinstance(chunk, Span) else None
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text


def _visible(match: re.Match[str]) -> str:
    return " " if match.group() in "\n\t\r" else "�"


def _nearest(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return character if character in (GLUE, *plain) else plain or "?"


def text_width(text: str) -> int:
    """Return the columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(bool(unicodedata.combining(c)) for c in text)


def detect(
    stream: TextIO,
    *,
    color: ColorChoice = "auto",
    ascii_only: bool = False,
    env: Mapping[str, str] | None = None,
) -> Look:
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
    return Look(
        _width(stream, terminal, env), colour, ascii_only or encoding != "utf8", terminal and not dumb
    )


def _width(stream: TextIO, terminal: bool, env: Mapping[str, str]) -> int:
    columns = env.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(20, int(columns))
    if terminal:
        try:
            return max(20, os.get_terminal_size(stream.fileno()).columns or 80)
        except (OSError, ValueError):
            return 80
    return 80


def standard(argument: TextIO | None, name: Literal["stdout", "stderr"]) -> TextIO:
    """Return a stream, or the process's own."""
    chosen: TextIO = getattr(sys, name) if argument is None else argument
    return chosen
