"""Strict TOML: every key is known, every exact number exact, every error names file, line and fix.

What `toml_text` writes, `read_toml` reads back as the same.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from topdown.errors import ConfigError, TopdownError
from topdown.formats.caps import (
    DIGITS,
    TooMuchError,
    parse_exact,
    parse_toml,
    read_plain,
    too_much,
    typed_number,
)
from topdown.formats.caps import exact_text as exact_text
from topdown.formats.common import ONE_LINE

T = TypeVar("T")
_ELSEWHERE = {  # keys that people look for in a file, and where the thing is
    "simulate": "remove the key; to simulate on made-up or public records: "
    "topdown simulate RUN.toml --truth FILE --out DIR"
}


class Chance(Fraction):
    """A probability that sets no noise: it may be typed without quotes, and is the decimal that was typed."""


def dec_hook(kind: type, value: object) -> object:
    """Let msgspec read Fractions."""
    if kind in (Fraction, Chance):
        return kind(parse_exact(value))
    raise NotImplementedError(f"no way to read {kind!r}")


def _decode_short(kind: type, value: object) -> object:
    """Let msgspec read Fractions as people type them; those of a plan are computed and may be longer."""
    parts = value.split("/") if isinstance(value, str) else [f"{value:d}" if type(value) is int else ""]
    if max(map(len, parts)) > DIGITS:
        raise ValueError(f"needs an exact number with parts of at most {DIGITS} digits")
    if kind is Chance and isinstance(value, float):
        value = repr(value)
    if kind not in (Fraction, Chance) or not isinstance(value, str):
        return dec_hook(kind, value)
    try:
        number = typed_number(value)
    except ValueError as error:
        raise ValueError(f"needs an exact number: {error}") from None
    if max(number.numerator, number.denominator) >= 10**DIGITS:
        raise ValueError(f"needs an exact number with parts of at most {DIGITS} digits")
    return kind(number)


def enc_hook(value: object) -> object:
    """Let msgspec write Fractions."""
    if isinstance(value, Fraction):
        return exact_text(value)
    raise NotImplementedError(f"no way to write {type(value)!r}")


def read_toml(path: Path, kind: type[T], document_type: str | None) -> T:
    """Read one TOML document into a frozen struct.

    Args:
        path: file to read.
        kind: msgspec struct with `forbid_unknown_fields`.
        document_type: required value of the key `type`; None for a form without the keys `type` and `version`.

    Raises:
        ConfigError: not TOML, another type or version, unknown key, wrong type, inexact number (C010-C015).
    """
    try:
        text = read_plain(path).decode("utf-8-sig")  # editors on Windows begin a file with a mark
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist", code="C001", fix="check the path") from None
    except TooMuchError as error:
        raise too_much(path, error) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read as text ({error})", code="C002", fix="give a UTF-8 TOML file"
        ) from None
    try:
        data = parse_toml(text)
    except TooMuchError as error:
        raise too_much(path, error) from None
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        line = int(where.group(1)) if where else None
        raise ConfigError(
            f"{path} is not valid TOML: {error}",
            code="C010",
            file=str(path),
            line=line,
            source=text.splitlines()[line - 1] if line and line <= len(text.splitlines()) else None,
            fix="correct the syntax; see https://toml.io for the format",
        ) from None
    if document_type is not None and (data.get("type") != document_type or data.get("version") != 1):
        raise ConfigError(
            f'{path} is not a "{document_type}" document of version 1',
            code="C011",
            file=str(path),
            fix=f'start the file with type = "{document_type}" and version = 1',
        )
    try:
        return msgspec.convert(data, kind, dec_hook=_decode_short)
    except msgspec.ValidationError as error:
        raise _located_error(error, path, text, data, kind) from None


@contextmanager
def locating_errors(*trail: str) -> Iterator[None]:
    """Say which key of the run file an error raised inside is about; the innermost place wins."""
    try:
        yield
    except TopdownError as error:
        error.key = error.key or trail
        raise


def add_location(error: TopdownError, path: Path) -> None:
    """Add file, line and text of the line to an error that knows its key."""
    if error.key and error.file is None:
        error.file = str(path)
        error.line, error.source = find_key(path.read_text(encoding="utf-8-sig"), list(error.key))
        error.details = (("key", ".".join(error.key)), *error.details)


def _located_error(
    error: msgspec.ValidationError, path: Path, text: str, data: dict[str, Any], kind: type
) -> ConfigError:
    message, _, where = str(error).partition(" - at `")
    keys = re.findall(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]", where.rstrip("`"))
    trail = _named_keys([name or index for name, index in keys], data, message)
    unknown = re.search(r"unknown field `(.*)`", message)
    if unknown:
        name = unknown.group(1)
        line, source = find_key(text, [*trail, name])
        known = _known_keys(kind, trail)
        close = difflib.get_close_matches(name, known, n=1)
        return ConfigError(
            f'unknown key "{name}" in {path}' + (f", line {line}" if line else ""),
            code="C012",
            file=str(path),
            line=line,
            source=source,
            caret=f'did you mean "{close[0]}"?' if close else f"known here: {', '.join(known)}",
            fix=_ELSEWHERE.get(name, "rename the key" if close else "remove the key")
            + "; nothing was read or spent",
        )
    missing = re.search(r"missing required field `(.*)`", message)
    if missing:
        line, source = find_key(text, trail)
        place = ".".join(trail) or "the file"
        return ConfigError(
            f'key "{missing.group(1)}" is missing in {place} of {path}',
            code="C013",
            file=str(path),
            line=line,
            source=source,
            fix=f"add {missing.group(1)} = ... under {place}; nothing was read or spent",
        )
    line, source = find_key(text, trail)
    place = ".".join(_toml_key(step) for step in trail if not (line and step.isdigit()))
    inexact = "exact number" in message
    if ONE_LINE.replace("\\", "") in message.replace("\\", ""):  # msgspec doubles backslashes
        message = "is published: write it in one line, not blank and without control characters"
    return ConfigError(
        f"{place} in {path}{f', line {line}' if line else ''}: {message[:1].lower()}{message[1:]}",
        code="C014" if inexact else "C015",
        file=str(path),
        line=line,
        source=source,
        fix="write exact numbers as whole numbers or fractions in quotes" if inexact else "correct the value",
    )


def _named_keys(trail: list[str], data: Any, message: str) -> list[str]:
    """Return a trail with the names of keys that msgspec calls "...": the only one, or whose value the message quotes.

    Such a key is left out where neither tells it.
    """
    quoted, found = message.partition("; write ")[0], list[str]()
    for step in trail:
        if step == "...":
            of = data if isinstance(data, dict) else {}
            held = [key for key, value in of.items() if len(of) == 1 or str(value) in quoted]
            step = max(held, key=lambda key: len(str(of[key])), default="")
        found.append(step)
        data = data[int(step)] if isinstance(data, list) else dict(data or {}).get(step)
    return [step for step in found if step]


def _known_keys(kind: type, trail: list[str]) -> list[str]:
    current: Any = kind
    for step in trail:
        inner = get_args(current)
        if isinstance(current, type) and issubclass(current, Struct):
            current = {f.encode_name: f.type for f in msgspec.structs.fields(current)}.get(step)
        else:
            current = inner[-1] if get_origin(current) is dict else inner[0]
        if isinstance(current, UnionType):
            current = next(one for one in get_args(current) if one is not type(None))
    return sorted(f.encode_name for f in msgspec.structs.fields(current))


def find_key(text: str, trail: list[str]) -> tuple[int | None, str | None]:
    """Find the line of a key, following table headers; (None, None) if it cannot be told.

    Args:
        text: the TOML file.
        trail: key names and list positions from the root, as in ["level", "2", "share"].
    """
    want = [step for step in trail if not step.isdigit() and step != "..."]
    index = [int(step) for step in trail if step.isdigit()]
    if not want:
        return None, None
    counts: dict[str, int] = {}
    header: list[str] = []
    position = 0
    best: tuple[int | None, str | None] = (None, None)
    for number, line in enumerate(text.splitlines(), start=1):
        table = re.match(r"^\s*\[(\[)?\s*([^\]]+?)\s*\]", line)
        if table:
            header = [part.strip().strip('"') for part in table.group(2).split(".")]
            if table.group(1):
                counts[table.group(2)] = counts.get(table.group(2), -1) + 1
                position = counts[table.group(2)]
            if header == want and (not index or position == index[0]):
                return number, line
            continue
        key = re.match(r'^\s*("?)([^"=]+?)\1\s*=', line)
        inside = header == want[: len(header)] and (not index or not header or position == index[0])
        if key and inside:
            here = [*header, *(p.strip() for p in key.group(2).split("."))]
            if here == want:
                return number, line
            if here == want[: len(here)]:
                best = (number, line)
        elif inside and best[0] is not None and re.search(rf"\b{re.escape(want[-1])}\s*=", line):
            return number, line
    return best


WIDTH = 110
_EMPTY: tuple[Any, ...] = (None, "", (), {})
_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


def toml_text(document: Struct) -> str:
    """Return a struct as TOML; keys that are empty are left out.

    Args:
        document: tables, lists of tables, lists, text, whole and exact numbers, in the order of the struct.
    """
    return "\n".join(_table_lines(_without_defaults(document), ())) + "\n"


def _without_defaults(value: Any) -> Any:
    """Return plain values without keys that are empty and may be missing."""
    if isinstance(value, Struct):
        found = {}
        for at in msgspec.structs.fields(value):
            inner = getattr(value, at.name)
            usual = at.default if at.default_factory is msgspec.NODEFAULT else at.default_factory()
            if inner not in _EMPTY or inner != usual:
                found[at.encode_name] = _without_defaults(inner)
        return found
    if isinstance(value, dict):
        return {key: _without_defaults(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_without_defaults(inner) for inner in value]
    return msgspec.to_builtins(value, enc_hook=enc_hook)


def _table_lines(table: dict[str, Any], place: tuple[str, ...]) -> list[str]:
    """Return lines: what is plain first, then tables, then at the top lists of tables."""
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    lists = {key: value for key, value in table.items() if not place and _is_tables(value)}
    lines = [
        f"{_toml_key(key)} = {_toml_inline(value)}"
        for key, value in table.items()
        if key not in inner and key not in lists
    ]
    for key, value in inner.items():
        lines += ["", f"[{'.'.join(map(_toml_key, (*place, key)))}]", *_table_lines(value, (*place, key))]
    for key, value in lists.items():
        for one in value:
            lines += ["", f"[[{_toml_key(key)}]]", *_table_lines(one, (key,))]
    return lines


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _toml_inline(value: Any, depth: int = 1) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, list):
        return _toml_array([_toml_inline(one, depth + 1) for one in value], depth, alone=_is_tables(value))
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{_toml_key(key)} = {_toml_inline(one, depth)}" for key, one in value.items())
            + " }"
        )
    return str(int(value))


def _toml_array(parts: list[str], depth: int, *, alone: bool) -> str:
    """Return an array in one line if it is short, else as many parts a line as fit, or one."""
    line = f"[{', '.join(parts)}]"
    if len(line) <= WIDTH - 20 and not alone:
        return line
    lines = [""]
    for part in parts:
        if lines[-1] and (alone or len(lines[-1]) + len(part) > WIDTH - 4 * depth):
            lines.append("")
        lines[-1] += f" {part}," if lines[-1] else f"{part},"
    return "[\n" + "".join(f"{'  ' * depth}{at}\n" for at in lines) + "  " * (depth - 1) + "]"


def _toml_key(key: str) -> str:
    return key if _BARE.match(key) else _toml_string(key)


def _toml_string(text: str) -> str:
    """Return a basic string; JSON writes the same escapes, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
