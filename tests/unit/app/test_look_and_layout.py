"""Streams, characters, wrapping and tables, at the widths people have."""

import io

import pytest

from topdown.app.screens import (
    OK,
    WARN,
    Column,
    Span,
    StreamLook,
    detect_look,
    line_width,
    table_lines,
    text_width,
    wrap,
)


class _Stream(io.StringIO):
    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self._terminal, self._encoding = terminal, encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("color", "env", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_rules(color, env, terminal, expected):
    """The order is --color, NO_COLOR, FORCE_COLOR, TERM=dumb, terminal."""
    assert detect_look(_Stream(terminal), color=color, env=env).colour is expected


def test_width_and_charset_come_from_the_stream():
    """COLUMNS wins; nonsense in it is ignored; a stream that is not UTF-8 gets ASCII; dumb terminals are not live."""
    assert detect_look(_Stream(False), env={"COLUMNS": "46"}).width == 46
    assert detect_look(_Stream(False), env={"COLUMNS": "wide"}).width == 80
    assert detect_look(_Stream(False), env={"COLUMNS": "1"}).width == 20
    assert detect_look(_Stream(False, "latin-1"), env={}).ascii
    assert not detect_look(_Stream(False, "UTF-8"), env={}).ascii
    assert not detect_look(_Stream(True), env={"TERM": "dumb"}).live
    assert detect_look(_Stream(True), env={"TERM": "xterm"}).live


def test_words_replace_symbols():
    """Every symbol of our own has a word; what has none loses its accents, then becomes a question mark."""
    look = StreamLook(ascii=True)
    plain = {OK: "ok", WARN: "warn", "ρ ≈ 2 × ε": "rho ~ 2 x epsilon", "é": "e", "日": "?"}
    assert {x: look.plain(x) for x in plain} == plain
    assert StreamLook().plain(WARN) == "!"


def test_control_characters_are_taken_out():
    """Text from a file could otherwise move the cursor, or turn the reading direction."""
    assert StreamLook(colour=True).plain("a\x1b[31mb\u202ec\nd") == "a�[31mb�c d"


def test_colour_wraps_only_styled_text():
    """Plain chunks stay plain; an unknown style is no style."""
    look = StreamLook(colour=True)
    assert [look.paint(x) for x in ("x", Span("x", "ok"), Span("x", "nothing"))] == [
        "x",
        "\x1b[32mx\x1b[0m",
        "x",
    ]


def test_wide_and_combining_characters():
    """A name in Chinese takes two columns a character, an accent none."""
    assert (text_width("日本"), text_width("e\u0301")) == (4, 1)


@pytest.mark.parametrize("width", [20, 46, 80])
def test_wrap_keeps_words_and_width(width):
    """No word may be lost or broken, no line be too long that could be shorter."""
    text = "the quick brown fox jumps over the lazy dog " * 5
    look = StreamLook(width=width)
    lines = wrap((text.strip(),), look, indent=2, hang=4)
    plain = ["".join(look.plain(c) for c in line) for line in lines]
    assert max(map(len, plain)) <= width
    assert " ".join(plain).split() == text.split()
    assert all(line.startswith("    ") for line in plain[1:])


def test_wrap_does_not_break_paths():
    """A path is copied by people: it overflows rather than break."""
    path = "/a/very/long/path" * 8
    lines = wrap(("see ", path, " now"), StreamLook(width=40), hang=4)
    assert path in [
        "".join(StreamLook().plain(c) for c in line).strip().removeprefix("see ") for line in lines
    ]


def test_table_or_blocks():
    """A table that does not fit becomes blocks, without columns that say nothing."""
    columns = [Column("name"), Column("number of areas", right=True), Column("share", right=True)]
    rows = [("county", "5", "-"), ("tract", "1,241", "10.0 %")]
    wide = [
        "".join(StreamLook().plain(c) for c in line)
        for line in table_lines(columns, rows, StreamLook(width=80))
    ]
    assert wide == [
        "  name    number of areas   share",
        "  county                5       -",
        "  tract             1,241  10.0 %",
    ]
    narrow = table_lines(columns, rows, StreamLook(width=30))
    assert ["".join(StreamLook().plain(c) for c in line) for line in narrow] == [
        "  county",
        "    number of areas  5",
        "  tract",
        "    number of areas  1,241",
        "    share            10.0 %",
    ]


def test_first_column_may_wrap():
    """Long names wrap beside their numbers instead of turning the whole table into blocks."""
    columns = [Column("", wraps=True), Column("n", right=True)]
    lines = table_lines(columns, [("word " * 20, "7")], StreamLook(width=60))
    assert max(line_width(line, StreamLook()) for line in lines) <= 60
    assert sum("7" in "".join(StreamLook().plain(c) for c in line) for line in lines) == 1
