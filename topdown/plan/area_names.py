"""Names of areas: a public table of geocodes and names, as the table of leaves often is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from topdown.columns import TooLargeError, UnreadableError, header_of, shown
from topdown.errors import DataError
from topdown.model.geography import Geography
from topdown.plan.public_tables import read_table


def read_names(path: Path, geography: Geography) -> dict[str, str]:
    """Return the name of every geocode of a table with columns geocode and name; other columns are not read.

    A table without a column geocode may have one of the leaves' level instead, as the table of leaves often has.

    Args:
        path: CSV(.gz) or Parquet; it may name areas of any level, and areas that the release lacks. A geocode of two
            levels gets no name.
        geography: of the release.

    Raises:
        DataError: as `read_table`; D064 a geocode has two names, or none is an area of the release.
    """
    leaf = {"geocode": geography.leaves.name}
    called = {} if path.is_file() and "geocode" in _header(path) else leaf
    table = read_table(path, ("geocode", "name"), ignored=None, called=called)
    found: dict[str, str] = {}
    for code, name in zip(table.column("geocode").to_pylist(), table.column("name").to_pylist(), strict=True):
        if found.setdefault(code, name) != name:
            raise _wrong(path, f"geocode {shown(code)!r} has two names")
    known = Counter(code for level in geography.levels for code in level.codes)
    named = {code: name for code, name in found.items() if known[code] == 1}
    if not named:
        raise _wrong(path, "it names no area of the release")
    return named


def _header(path: Path) -> list[str]:
    try:
        return header_of(path)
    except (UnreadableError, TooLargeError):
        return []  # read_table says what is wrong


def _wrong(path: Path, text: str) -> DataError:
    return DataError(
        f"{path}: {text}",
        code="D064",
        file=str(path),
        fix="give one row an area, with the geocodes of the release (text, leading zeros)",
    )
