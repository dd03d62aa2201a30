"""Errors with their caret, progress on terminals and in logs, numbers with their units."""

import io
import json
import math
import re
from fractions import Fraction

import pytest

from topdown.app.screens import Painter, Progress, Screen, StreamLook, caret_span, figures, show_error
from topdown.errors import ConfigError
from topdown.privacy.laws import LAWS
from topdown.progress import Event


def _show(error: ConfigError, width: int = 80, *, ascii_only: bool = False) -> list[str]:
    stream = io.StringIO()
    show_error(Painter(stream, StreamLook(width=width, ascii=ascii_only)), error)
    return stream.getvalue().splitlines()


def test_error_shape():
    """Code, sentence, line, caret, details, fix: in this order, as in the documentation."""
    error = ConfigError(
        'unknown key "bugdet" in ri/run.toml, line 14',
        code="C012",
        file="ri/run.toml",
        line=14,
        source='bugdet = "1/2"',
        caret='did you mean "budget"?',
        details=(("column", "votingage"),),
        fix="rename the key; nothing was read or spent",
    )
    assert _show(error) == [
        'error[C012] unknown key "bugdet" in ri/run.toml, line 14',
        '  14 │ bugdet = "1/2"',
        '     │ ^^^^^^ did you mean "budget"?',
        "  column  votingage",
        "  fix     rename the key; nothing was read or spent",
    ]
    assert "".join(_show(error, ascii_only=True)).isascii()
    assert max(map(len, _show(error, width=46))) <= 46


def test_place_is_told_once():
    """A file, line or area that the sentence does not name must be told below it; one that it names must not."""
    told = _show(ConfigError("wrong", file="run.toml", line=3, node="44001", fix="x"))
    assert told[1:4] == ["  file  run.toml", "  line  3", "  area  44001"]
    assert len(_show(ConfigError("wrong in run.toml, line 3", file="run.toml", line=3))) == 1


@pytest.mark.parametrize(
    ("text", "source", "column", "expected"),
    [
        ('unknown key "b" here', "  b = 1", None, (2, 1)),
        ("no name", "  key = 1", None, (2, 3)),
        ("no name", "[[level]]", None, (0, 9)),
        ('unknown key "zz"', "x = { zz = 1 }", None, (6, 2)),
        ("no name", "abc", 3, (2, 1)),
        ("no name", "", None, (0, 1)),
    ],
)
def test_caret_finds_the_name(text, source, column, expected):
    """The caret stands under the column, else the quoted name, else the key."""
    assert caret_span(source, ConfigError(text, column=column)) == expected


def test_long_source_lines_are_cut_around_the_caret():
    """A line of thousands of characters must not flood the screen, and the caret must stay on it."""
    error = ConfigError('unknown key "zz"', line=1, source="x" * 500 + " zz = 1", caret="here")
    lines = _show(error)
    assert max(map(len, lines)) <= 80
    assert lines[1].index("zz") == lines[2].index("^^")


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _progress(
    *, live: bool, width: int = 80, colour: bool = True, patience_seconds: float = 0.0
) -> tuple[Progress, io.StringIO, _Clock]:
    stream, clock = io.StringIO(), _Clock()
    painter = Painter(stream, StreamLook(width, colour, live=live))
    return Progress(painter, clock=clock, patience_seconds=patience_seconds), stream, clock


def test_bars_end_on_their_own_line():
    """A finished stage is one line with its units and seconds; a running one shows what is left."""
    progress, stream, clock = _progress(live=True, colour=False)
    progress(Event("solve", 1, 4, "tract"))
    clock.now = 2.0
    progress(Event("solve", 2, 4, "block"))
    clock.now = 4.0
    progress(Event("solve", 4, 4, "block"))
    progress(Event("solve", 4, 4, "block"))
    parts = stream.getvalue().split("\r\x1b[2K")
    assert "block 2/4  ~2 s" in parts[1]
    assert re.fullmatch(r"  solve      ━{26}  4 areas +4\.0 s\n", parts[2])
    assert progress.where == "after solve"


def test_redraws_are_rare():
    """A stage that reports a thousand times a second must not write as often."""
    progress, stream, _ = _progress(live=True)
    for i in range(1000):
        progress(Event("measure", i, 2000, "block"))
    assert stream.getvalue().count("\r") == 0
    progress.close()
    assert stream.getvalue().endswith("\n")


@pytest.mark.parametrize("width", [46, 80])
def test_bars_fit(width):
    """A bar that wraps cannot be redrawn."""
    progress, stream, clock = _progress(live=True, width=width, colour=False)
    progress(Event("publish", 1, 6, "a very long description of what is being written just now"))
    clock.now = 5.0
    progress(Event("publish", 6, 6, "34 files"))
    progress(Event("ledger", 1, 2, "commit written; the confidential file is closed"))
    assert max(len(line) for line in re.split(r"\r\x1b\[2K|\n", stream.getvalue())) <= width


def test_logs_are_lines_with_time_and_values():
    """Without a terminal: start, end, and a line a second; never a cursor movement."""
    progress, stream, clock = _progress(live=False)
    progress(Event("solve", 0, 100, "tract"))
    for step in range(1, 25):
        clock.now = step / 10
        progress(Event("solve", step, 100, "tract"))
    progress(Event("solve", 100, 100, "block"))
    lines = stream.getvalue().splitlines()
    events = [re.search(r"event=(\w+)", line).group(1) for line in lines]
    assert events == ["start", "progress", "progress", "end"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ stage=solve event=", line) for line in lines)
    assert lines[-1].endswith("seconds=2.4")
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("live", [True, False])
def test_a_quick_command_shows_its_result_alone(live):
    """`verify` of a small release would end in a screen of bars, not of checks."""
    progress, stream, clock = _progress(live=live, patience_seconds=0.5)
    progress(Event("verify", 0, 2, "plan"))
    clock.now = 0.4
    progress(Event("verify", 1, 2, "ledger"))
    assert not stream.getvalue()
    clock.now = 0.6
    progress(Event("verify", 1, 2, "records"))
    progress.close()
    assert "records" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K" if live else "\n")


def test_event_stream_is_json_lines():
    """--log-json gives one object an event, whatever the screen shows."""
    log = io.StringIO()
    progress = Progress(None, log)
    progress(Event("measure", 1, 2, "state"))
    progress(Event("measure", 2, 2))
    records = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(r["stage"], r["done"], r.get("text")) for r in records] == [
        ("measure", 1, "state"),
        ("measure", 2, None),
    ]


def test_quiet_and_json_say_nothing_else():
    """-q leaves the last line, --json leaves the document."""
    out, err = io.StringIO(), io.StringIO()
    for quiet, as_json, expected in ((True, False, "✓ end\n"), (False, True, '{\n  "a": 1\n}\n')):
        out.truncate(0), out.seek(0)
        screen = Screen.open(out=out, err=err, quiet=quiet, json_only=as_json)
        screen.say("talk")
        screen.heading("title")
        screen.next(("command", "note"))
        screen.document({"a": 1})
        screen.last("end")
        assert out.getvalue().replace("ok end", "✓ end") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (3.8e-14, "< 0.001"),
        (0.0123, "0.012"),
        (0.0999, "0.10"),
        (1.06, "1.1"),
        (2.0, "2.0"),
        (9.96, "10"),
        (88.6, "89"),
        (1234, "1,200"),
    ],
)
def test_two_digits(value, expected):
    """A noise level keeps two significant digits at every size."""
    assert figures.two_digits(value) == expected


def test_claims_are_rounded_outward():
    """A privacy loss that is rounded down would be a false claim."""
    loss = Fraction(200001, 100000)
    assert figures.decimal(loss) == "2.0000"
    assert figures.decimal(loss, up=True) == "2.0001"
    assert figures.decimal(loss, 4, down=True) == "2.0000"
    assert figures.decimal(Fraction(-1, 3), 2) == "-0.33"
    assert figures.loss("rho", loss) == "ρ\u00a02.0001"
    assert (figures.both(Fraction(5, 2)), figures.percent(Fraction(1, 3))) == ("5/2", "33.3 %")


def test_units():
    """Sizes and durations carry their unit and few digits."""
    sizes = {10: "10 B", 1_500: "1.5 kB", 36e6: "36 MB", 1.25e9: "1.2 GB", 12e9: "12 GB"}
    assert {x: figures.size(x) for x in sizes} == sizes
    assert [figures.seconds(x) for x in (0.04, 20.26, 700, 7200)] == ["0.0 s", "20.3 s", "12 min", "2.0 h"]


def test_stddev_of_both_laws():
    """Discrete Gaussian: the parameter, from 8 on. Geometric: 1/(sqrt(2) sinh(1/2t)), about sqrt(2) t."""
    gaussian, geometric = (LAWS[name].own_variance for name in ("discrete_gaussian", "two_sided_geometric"))
    assert gaussian(Fraction(9), ()) == 9
    for scale in (Fraction(1, 3), Fraction(10), Fraction(2**24)):
        due = 1 / (2 * math.sinh(1 / float(2 * scale)) ** 2)
        assert float(geometric(scale, ())) == pytest.approx(due, rel=1e-12)
    assert geometric(Fraction(1, 10**6), ()) == 0
