"""One error: any exception as code, sentence, the line of the file with a caret, details, fix; no value of the data."""

from __future__ import annotations

import re
import resource

import click

from topdown.app.screens.console import Painter
from topdown.app.screens.text_layout import GLUE, Chunk, Span, dim, wrap
from topdown.errors import ConfigError, InternalError, TopdownError, disk_error, in_octal

_FEW_FILES = 64
_COMMAND = re.compile(r"""(?:^|(?<=: ))(topdown|pgsr) ('[^']*'|"[^"]*"|[^;(,'"])*""")  # to be copied
_KEY = re.compile(r'\s*(\[\[?[^\]]*\]?\]?|"[^"]*"|[^\s=]+)')


def show_error(painter: Painter, error: TopdownError) -> None:
    """Write an error the way people read it: what, where, how to fix."""

    def whole(command: re.Match[str]) -> str:
        shown = in_octal(command.group()) if painter.look.ascii else command.group()
        return shown.replace(" ", GLUE)

    head: tuple[Chunk, ...] = (Span(f"error[{error.code}]", "error"), " ", error.text)
    for line in wrap(head, painter.look, hang=len(error.code) + 8):
        painter.raw(line)
    if error.source is not None and error.line is not None:
        _source_with_caret(painter, error, error.source)
    rows = [*_file_and_line(error), *error.details, *([("fix", error.fix)] if error.fix else [])]
    painter.pairs([(dim(key), _COMMAND.sub(whole, value)) for key, value in rows])


def _file_and_line(error: TopdownError) -> list[tuple[str, str]]:
    place = []
    if error.file and error.file not in error.text and ("file", error.file) not in error.details:
        place.append(("file", error.file))
    if error.line is not None and error.source is None and f"line {error.line}" not in error.text:
        place.append(("line", str(error.line)))
    if error.node and error.node not in error.text:
        place.append(("area", error.node))
    return place


def _source_with_caret(painter: Painter, error: TopdownError, source: str) -> None:
    number = str(error.line)
    start, length = caret_span(source, error)
    room = max(16, min(painter.look.width, 80) - len(number) - 6)
    cut = max(0, start + length - room + 4) if len(source) > room else 0
    shown = source.expandtabs(1)[cut : cut + room]
    if cut:
        shown = "…" + shown[1:]
    start = max(0, start - cut)
    length = max(1, min(length, room - start))
    gutter = " " * len(number)
    painter.raw(("  ", dim(number), dim(" │ "), shown.rstrip()))
    marks = Span("^" * length, "fail")
    lead = f"  {gutter} "
    beside = len(lead) + 2 + start + length + 1 + len(error.caret) <= min(painter.look.width, 80)
    if beside or not error.caret:
        painter.raw((lead, dim("│ "), " " * start, marks, f" {error.caret}" if error.caret else ""))
    else:
        painter.raw((lead, dim("│ "), " " * start, marks))
        for line in wrap((error.caret,), painter.look, indent=len(lead) + 2):
            painter.raw(line)


def caret_span(source: str, error: TopdownError) -> tuple[int, int]:
    """Return where the caret starts (0-based) and how long it is.

    The column if the error gives one; else the first quoted name of the message that the line contains; else
    the line's key.
    """
    if error.column is not None:
        return max(0, min(error.column - 1, len(source))), 1
    for name in re.findall(r"""["'`]([^"'`]+)["'`]""", error.text):
        at = source.find(name)
        if at >= 0:
            return at, len(name)
    key = _KEY.match(source)
    return (key.start(1), key.end(1) - key.start(1)) if key else (0, max(1, len(source)))


def as_topdown(error: Exception, program: str) -> TopdownError:
    """Return any exception as an error to show; one that nobody foresaw gives its place in the code, no values."""
    if isinstance(error, TopdownError):
        return error
    if isinstance(error, click.ClickException):
        ctx = getattr(error, "ctx", None)
        path = ctx.command_path if ctx is not None else program
        text = " ".join(error.format_message().split()).rstrip(".")  # it puts choices on lines of their own
        return ConfigError(text[:1].lower() + text[1:], code="C005", fix=f"see: {path} --help")
    if isinstance(error, OSError):
        return disk_error(error)
    if isinstance(error, MemoryError):
        return InternalError(
            "there is not enough memory",
            code="X004",
            details=_limits_set(),
            fix="use fewer --workers, or a larger machine",
        )
    if isinstance(error, ImportError):
        return InternalError(
            "a library that is needed could not be loaded",
            code="X065",
            details=_limits_set(),
            fix="allow more memory (ulimit -v) and open files (ulimit -n), or install the program again",
        )
    frame, place = error.__traceback__, program
    while frame is not None:
        name = frame.tb_frame.f_globals.get("__name__", "")
        if name.startswith(("topdown", "pgsr")):
            place = f"{name}, line {frame.tb_lineno}"
        frame = frame.tb_next
    return InternalError(
        f"the engine failed in {place} ({type(error).__name__})",
        code="X001",
        details=(
            ("values", "never printed; TOPDOWN_DEBUG=1 shows the places in the code, still without values"),
        ),
        fix="report it with this line; a release that was not finished is not valid",
    )


def _limits_set() -> tuple[tuple[str, str], ...]:
    """Return the limits of this process that a person set and can raise."""
    bytes_allowed, files_allowed = (
        resource.getrlimit(of)[0] for of in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE)
    )
    found = [("open files", f"{files_allowed:,} allowed (ulimit -n)")] if files_allowed < _FEW_FILES else []
    if bytes_allowed != resource.RLIM_INFINITY:
        found.append(("memory", f"{bytes_allowed // 2**20:,} MiB of address space allowed (ulimit -v)"))
    return tuple(found)
