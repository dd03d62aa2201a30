"""Any exception as an error people can read, without a value of the data."""

from __future__ import annotations

import click

from topdown.errors import ConfigError, InternalError, TopdownError, disk_error


def as_topdown(error: Exception, program: str) -> TopdownError:
    """Return any exception as an error to show; one that nobody foresaw gives its place in the code, no values."""
    if isinstance(error, TopdownError):
        return error
    if isinstance(error, click.ClickException):
        ctx = getattr(error, "ctx", None)
        path = ctx.command_path if ctx is not None else program
        text = error.format_message().rstrip(".")
        return ConfigError(text[:1].lower() + text[1:], code="C005", fix=f"see: {path} --help")
    if isinstance(error, OSError):
        return disk_error(error)
    if isinstance(error, MemoryError):
        return InternalError(
            "there is not enough memory", code="X004", fix="use fewer --workers, or a larger machine"
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
