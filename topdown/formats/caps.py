"""The most that is read of any input; docs/format.md has the table. What is more is refused before it fills the memory.

Files are opened without waiting and must be plain, so that no pipe and no device can hang a run or feed it for ever.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

from topdown.errors import ConfigError

DOCUMENT_BYTES = 16 * 2**20  # of a TOML file, and of a JSON document that is read whole
PLAN_BYTES = 256 * 2**20  # of plan.json
NESTING = 64  # tables, lists and objects in one another
TEXT = 2_000  # characters of one text or key of a TOML file
DIGITS = 60  # of a number in a TOML file
TABLE_BYTES = 2**31  # of a table that is stored smaller than it is, once unpacked
TABLE_VARIABLE = "TOPDOWN_TABLE_BYTES"  # names another number of bytes
TABLE_COLUMNS = 20_000  # of a table, read or not
TABLE_ROWS = 2**31 - 1  # of a table
TABLE_SECONDS = 600  # until a table gives its next rows, for each `TABLE_BYTES` that it may have
CELLS = 2**21  # of a schema
ATTRIBUTES = 64  # of a schema
LEVELS = 64  # of a geography
EXACT_STATISTICS = 100  # of invariants
_BLOCK = 2**20  # bytes that are read at once
RAISE_TABLE = (
    f"if the table is meant to be so large, allow more bytes: {TABLE_VARIABLE}=8000000000 before the command"
)


class TooMuchError(ValueError):
    """Something is larger or deeper than its cap; the text says which."""


def read_plain(path: Path, most: int = DOCUMENT_BYTES) -> bytes:
    """Return the bytes of a plain file.

    Args:
        path: the file; links are followed.
        most: bytes that may be read.

    Raises:
        OSError: none there, no plain file, or not readable.
        TooMuchError: it is larger.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        data, part = bytearray(), b" "
        while part:  # `read` alone would take room for all of them at once
            part = file.read(min(most + 1 - len(data), _BLOCK))
            data += part
    if len(data) > most:
        raise TooMuchError(f"it has more than {most:,} bytes")
    return bytes(data)


def parse_json(data: bytes | str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is none, or nested more than `NESTING` deep (TooMuchError).
    """
    try:
        document = json.loads(data)
    except RecursionError:
        raise TooMuchError(f"it is nested more than {NESTING} deep") from None
    check_nesting(document)
    return document


def read_json(path: Path, most: int = DOCUMENT_BYTES) -> Any:
    """Parse a plain file of JSON; OSError or ValueError as `read_plain` and `parse_json`."""
    return parse_json(read_plain(path, most))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        TOMLDecodeError: it is none.
        TooMuchError: it is nested too deep, or a text or number in it is too long.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise TooMuchError("it is nested too deep") from None
    except ValueError:  # what int() says of thousands of digits
        raise TooMuchError(f"it has a number of more than {DIGITS} digits") from None
    check_nesting(data, TEXT)
    return data


def too_much(path: Path, error: TooMuchError) -> ConfigError:
    """Return the error of a file that is more than its caps allow."""
    return ConfigError(
        f"{path}: {error}", code="C140", file=str(path), fix="make it smaller; docs/format.md lists the caps"
    )


def check_nesting(document: object, text: int | None = None) -> None:
    """Refuse a document that is nested too deep or, if `text` is given, holds a longer text (TooMuchError)."""
    level: list[object] = [document]
    for _ in range(NESTING + 1):
        below: list[object] = []
        for value in level:
            if isinstance(value, str) and text is not None and len(value) > text:
                raise TooMuchError(f"it has a text of more than {text:,} characters ({value[:20]}...)")
            if isinstance(value, dict):
                below += [*value, *value.values()] if text is not None else value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return
        level = below
    raise TooMuchError(f"it is nested more than {NESTING} deep")


def table_bytes() -> int:
    """Return how many bytes of a packed table may be unpacked.

    Raises:
        ConfigError: C143 the environment variable is no positive whole number.
    """
    given = os.environ.get(TABLE_VARIABLE, "")
    if not given:
        return TABLE_BYTES
    if not (given.isascii() and given.isdigit() and 0 < len(given) < 19 and int(given) > 0):
        raise ConfigError(
            f"the environment variable {TABLE_VARIABLE} is no number of bytes",
            code="C143",
            fix=f"write digits only, as in {TABLE_VARIABLE}=8000000000, or unset it",
        )
    return int(given)


_FRACTION = re.compile(r"^[0-9]+(/[0-9]*[1-9][0-9]*)?$")


def exact_text(value: Fraction) -> str:
    """Write an exact number as "a/b", or "a" if it is whole."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def parse_exact(value: object) -> Fraction:
    """Read an exact nonnegative number: an integer, or a string "a/b".

    Raises:
        ValueError: anything else; a float is refused because it is not the number that was typed.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        shown = (
            Fraction(str(value)) if isinstance(value, float) and value == value and abs(value) < 1e9 else None
        )
        hint = f'"{shown.numerator}/{shown.denominator}"' if shown is not None else '"1/2"'
        raise ValueError(  # noqa: TRY004 - msgspec turns a ValueError into a located error
            f"needs an exact number, got the {type(value).__name__} {value}; write {hint}"
        )
    if isinstance(value, str) and not _FRACTION.match(value):
        raise ValueError(f'needs an exact number like "1/2" or 3, got "{value}"')
    if isinstance(value, int) and value < 0:
        raise ValueError(f"needs a nonnegative number, got {value}")
    return Fraction(value)


_TYPED = re.compile(
    r"([0-9]+(?:[ _'\u2019\u00a0\u2009\u202f][0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,4}))?\s?(%)?"
)
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+(?![0-9,])")  # commas that may stand for thousands
_ACCEPTED = 'write "1/2", "0.5", "50 %", "1 000" or "1e-10"'


def typed_number(text: str) -> Fraction:
    """Return the exact number that a person typed: the one rule for run files, options and functions.

    A fraction, a decimal, a percentage, a power of ten; thousands may stand apart by a blank, an apostrophe or "_". A
    comma is refused: it ends the whole part in one country and groups thousands in another.

    >>> [str(typed_number(text)) for text in ("19/20", "0.95", "95 %", "12 034", "1e-10")]
    ['19/20', '19/20', '19/20', '12034', '1/10000000000']

    Raises:
        ValueError: anything else, with the accepted form.
    """
    text = text.strip()
    if _FRACTION.match(text):
        return Fraction(text)
    if "," in text:
        whole, part = text.replace(",", "") if _GROUPED.match(text) else text, text.replace(",", ".")
        meant = [f'"{one}"' for one in (whole, part) if _TYPED.fullmatch(one)]
        if meant:
            twice = "can be read in two ways" if len(meant) > 1 else "has a comma"
            raise ValueError(f'"{text}" {twice}: write {" or ".join(meant)}')
    found = _TYPED.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is no exact number: {_ACCEPTED}')
    digits, exponent, percent = found.groups()
    number = Fraction(re.sub(r"[^0-9.]", "", digits)) * Fraction(10) ** int(exponent or 0)
    return number / 100 if percent else number
