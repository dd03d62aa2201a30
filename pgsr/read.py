"""Tables from files: CSV or Parquet, names kept as text; which of them may be simulated on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgsr.groups import IDS, NUMBERS, check_columns, form_of
from pgsr.hierarchy import Hierarchy, hierarchy_of
from topdown.errors import ConfigError, DataError
from topdown.made_up import Origin, check_reason, origin_of


def read_groups(path: Path, ignored: Sequence[str] = ()) -> dict[str, Any]:
    """Read a table of groups in one of the forms of `groups.FORMS`; its own words are never in an error.

    Args:
        path: CSV(.gz) or Parquet.
        ignored: columns that are there and are not read; any other is refused.

    Raises:
        DataError: unreadable file (D130, D042), columns missing (D132) or not asked for (D040), or of a type that
            holds no names or whole numbers (D024).
    """
    return _read(path, lambda header: form_of(header, ignored))


def read_table(path: Path, needed: tuple[str, ...], ignored: Sequence[str] = ()) -> dict[str, Any]:
    """Read the named columns of a public table: numbers as int64, -1 where there is none; else text.

    Raises:
        DataError: as `read_groups`.
    """

    def check(header: list[str]) -> tuple[str, ...]:
        check_columns(header, needed, ignored)
        return needed

    return _read(path, check)


def _read(path: Path, choose: Callable[[list[str]], tuple[str, ...]]) -> dict[str, Any]:
    import pyarrow as pa

    from topdown.caps import RAISE_TABLE
    from topdown.columns import (
        MISCOUNTED,
        MISCOUNTED_FIX,
        TOO_LARGE,
        MiscountedError,
        TooLargeError,
        UnreadableError,
        header_of,
        read_rows,
    )

    if not path.is_file():
        raise DataError(f"there is no file {path}", code="D130", fix="check the path")
    try:
        columns = choose(header_of(path))
        table = read_rows(path, dict.fromkeys(columns, pa.string()))
    except UnreadableError:
        raise DataError(f"{path} cannot be read as a table", code="D130", fix="give CSV or Parquet") from None
    except TooLargeError:
        raise DataError(f"{path}: {TOO_LARGE}", code="D043", file=str(path), fix=RAISE_TABLE) from None
    except MiscountedError:
        raise DataError(f"{path}: {MISCOUNTED}", code="D042", fix=MISCOUNTED_FIX) from None
    return {name: _column(path, name, table.column(name)) for name in columns}


def _column(path: Path, name: str, column: Any) -> Any:
    import pyarrow as pa

    from topdown.columns import is_text, whole_numbers

    if name in NUMBERS:
        numbers = whole_numbers(column)
        if numbers is not None:
            return numbers
    else:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if is_text(kind) or (name in IDS and pa.types.is_integer(kind)):
            return ["" if value is None else str(value) for value in column.to_pylist()]
    raise DataError(
        f"{path}: column {name!r} does not hold {'whole numbers' if name in NUMBERS else 'text'}",
        code="D024",
        fix="write numbers as integers, names as text with their leading zeros",
    )


def read_hierarchy(path: Path, ignored: Sequence[str] = ()) -> Hierarchy:
    """Read a hierarchy table with columns region, parent, level.

    Raises:
        DataError: as `read_groups`, or a malformed tree.
    """
    table = read_table(path, ("region", "parent", "level"), ignored)
    return hierarchy_of(list(zip(table["region"], table["parent"], table["level"], strict=True)))


def public_totals(path: Path, ignored: Sequence[str] = ()) -> dict[str, int]:
    """Return public numbers of groups from a table with columns region, groups.

    Raises:
        DataError: see `read_table`; numbers that are not whole, or a region listed twice (D133).
    """
    table = read_table(path, ("region", "groups"), ignored)
    if (table["groups"] < 0).any():
        raise DataError(f"{path}: column groups is not whole numbers", code="D133", fix="give integers")
    if len(set(table["region"])) != len(table["region"]):
        raise DataError(f"{path}: a region is listed twice", code="D133", fix="keep one row a region")
    return dict(zip(table["region"], table["groups"].tolist(), strict=True))


def origin_of_groups(groups: Path | str | Mapping[str, Sequence[Any]], reason: str) -> Origin:
    """Say why groups may be simulated on; columns in memory carry no mark, so they need a reason.

    Raises:
        ConfigError: C121 the groups are not known to be made up or public.
    """
    if not isinstance(groups, Mapping):
        return origin_of(Path(groups), reason)
    reason = check_reason(reason)
    if not reason:
        raise ConfigError(
            "groups in memory carry no mark of made-up data; noise that is not charged is drawn on made-up or "
            "public groups only",
            code="C121",
            fix="say why they are public or made up (truth_is_public), or give a file written by pgsr synth",
        )
    text = json.dumps([[name, list(map(str, values))] for name, values in groups.items()])
    return Origin("public", "columns in memory", hashlib.sha256(text.encode()).hexdigest(), reason)
