"""Public input tables: leaf facts and, if given, the geography table. Errors name file and row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from topdown.caps import RAISE_TABLE
from topdown.columns import (
    MISCOUNTED,
    MISCOUNTED_FIX,
    TOO_LARGE,
    MiscountedError,
    Odd,
    TooLargeError,
    UnreadableError,
    find_odd,
    has_lines,
    is_text,
    listed,
    names_in,
    shown,
)
from topdown.columns import whole_numbers as whole
from topdown.errors import DataError
from topdown.frames import HeldTable, Source, is_there, names_of, rows_in
from topdown.model.codes import Codes
from topdown.model.geography import Geography, from_parents, from_prefixes
from topdown.model.narrow import NarrowColumns, narrow
from topdown.model.parent_columns import from_columns, joined_codes
from topdown.model.public import PublicFacts
from topdown.plan.code_columns import read_codes
from topdown.plan.runfile import GeographyTable
from topdown.stores.place import StoreError

MAX_COUNT = 2**31 - 1


def read_table(
    path: Source,
    text_columns: tuple[str, ...],
    number_columns: tuple[str, ...] = (),
    *,
    ignored: tuple[str, ...] | None = (),
    called: Mapping[str, str] | None = None,
    integers: bool = False,
) -> pa.Table:
    """Read the named columns of a table as it holds them; CSV as text, with leading zeros.

    Args:
        path: the file, or a table in memory.
        text_columns: must be text, without empty values.
        number_columns: see `whole_numbers`.
        ignored: other columns that may be there; None allows any.
        called: what columns are called in the file, where that is another name (`names_in`).
        integers: whether text columns may hold integers; they are written in digits.

    Raises:
        DataError: missing, unreadable or empty file (D001-D003, D042); a column missing, there twice, not asked for
            or no text (D004-D006, D040); a database that cannot give it (D070-D073).
    """
    if not is_there(path):
        raise DataError(f"{path} does not exist", code="D001", fix="check the path in the run file")
    named = (*text_columns, *number_columns)
    try:
        header = names_of(path)
        theirs = names_in(header, named, called or {})
        odd = None if not header else find_odd(header, theirs, tuple(header) if ignored is None else ignored)
        if odd is not None:
            raise _odd(path, odd, header)
        table = rows_in(path, dict.fromkeys(theirs, pa.string()))  # refuses an empty file
    except UnreadableError as error:
        raise DataError(
            f"{path} cannot be read: {error}",
            code="D002",
            file=str(path),
            fix="give a whole table",
        ) from None
    except TooLargeError:
        raise DataError(f"{path}: {TOO_LARGE}", code="D043", file=str(path), fix=RAISE_TABLE) from None
    except MiscountedError:
        raise DataError(f"{path}: {MISCOUNTED}", code="D042", file=str(path), fix=MISCOUNTED_FIX) from None
    except StoreError as error:
        raise DataError(f"{path}: {error.text}", code=error.code, file=str(path), fix=error.fix) from None
    if table.num_rows == 0:
        raise DataError(
            f"{path} has no rows", code="D003", file=str(path), fix="give a table with at least one row"
        )
    table = pa.table({name: table.column(of) for name, of in zip(named, theirs, strict=True)})
    for name in text_columns:
        column = table.column(name)
        if integers and pa.types.is_integer(column.type):
            column = column.cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, column)
        if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
            column = column.cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, column)
        if not is_text(column.type):
            raise DataError(
                f"{path}: column {name!r} holds {column.type}, not text; leading zeros may be lost",
                code="D005",
                file=str(path),
                fix="write the column as text",
            )
        if column.null_count:
            raise DataError(
                f"{path}: column {name!r} has an empty value", code="D006", file=str(path), fix="fill it in"
            )
    return table


def _odd(path: Source, odd: Odd, header: list[str]) -> DataError:
    name = shown(odd.name)
    if odd.kind == "missing":
        near = f"; it has {shown(odd.near)!r}" if odd.near else ""
        text, code = f"{path} has no column {name!r}{near}", "D004"
        fix = f"add it, or choose other invariants; it has: {', '.join(map(shown, header[:12]))}"
    elif odd.kind == "twice":
        text, code, fix = f"{path} has two columns called {name!r}", "D004", "keep one of them"
    else:
        text, code = f"{path} has a column {name!r} that is not read", "D040"
        fix = f"rename it to {odd.near!r} if it is that; " if odd.near else ""
        fix += f"if it is not needed, say so in the run file: [input] ignore = {listed(odd.unasked)}"
    return DataError(text, code=code, file=str(path), fix=fix)


def whole_numbers(table: pa.Table, name: str, path: Source) -> NDArray[np.int64]:
    """Return a column as int64.

    Raises:
        DataError: it is no text and no integers (D005), or a value is not a whole number in 0..2^31-1 (D007).
    """
    column = table.column(name)
    numbers = whole(column)
    if numbers is None:
        raise DataError(
            f"{path}: column {name!r} holds {column.type}, not whole numbers",
            code="D005",
            file=str(path),
            fix="write the column as integers, or as text of digits",
        )
    bad = np.flatnonzero((numbers < 0) | (numbers > MAX_COUNT))
    if len(bad):
        row = int(bad[0])
        raise DataError(
            f"{path}, row {row + 1}: {name} is {shown(str(column[row].as_py()))!r}, "
            f"not a whole number from 0 to {MAX_COUNT:,}",
            code="D007",
            file=str(path),
            line=row + 2 if not isinstance(path, HeldTable) and has_lines(path) else None,
            fix="correct the row",
        )
    return numbers


def read_public(
    leaves_path: Source,
    geography: GeographyTable,
    columns: tuple[str, ...],
    beside: Path,
    ignored: tuple[str, ...] | None = (),
    called: Mapping[str, str] | None = None,
) -> tuple[Geography, PublicFacts]:
    """Read leaf facts and build the tree.

    Args:
        leaves_path: table with `geocode` and the named columns; one row a leaf.
        geography: levels, with prefix lengths or the path of a table geocode,parent,level.
        columns: public columns the invariants need.
        beside: folder that paths are relative to.
        ignored: columns of either table that are not read; None allows any.
        called: what columns are called in the table of leaves, where that is another name.

    Raises:
        DataError: see `read_table`, `whole_numbers`, `from_prefixes`, `from_parents`; also a leaf listed twice, or
            leaves that differ between the two tables (D012, D018).
    """
    parts = [[part.strip() for part in name.split("+")] for name in geography.columns]
    above = tuple(dict.fromkeys(part for names in parts for part in names))
    table = read_table(
        leaves_path, ("geocode", *above), columns, ignored=ignored, called=called, integers=bool(parts)
    )
    codes = read_codes(table.column("geocode"))
    _check_once(leaves_path, codes)
    if parts:
        held = {name: table.column(name).to_pylist() for name in above}
        tree = from_columns(
            geography.levels, [joined_codes([held[part] for part in names]) for names in parts], codes
        )
    else:
        tree = _tree(geography, codes, beside, ignored)
    order = rows_of(codes, tree.leaves.codes)
    if len(tree.leaves) != len(codes) or (order < 0).any():
        odd = sorted(set(codes) ^ set(tree.leaves.codes))[0]
        raise DataError(
            f"leaf {odd!r} is in only one of the leaf table and the geography table",
            code="D018",
            file=str(leaves_path),
            fix="list the same leaves in both",
            node=odd,
        )
    facts = {name: narrow(whole_numbers(table, name, leaves_path)[order]) for name in columns}
    del table
    pa.default_memory_pool().release_unused()
    return tree, PublicFacts(NarrowColumns(facts))


def rows_of(codes: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Return the row of each code that is wanted, -1 where there is none.

    Args:
        codes: of the rows, each once.
    """
    if not (isinstance(codes, Codes) and isinstance(wanted, Codes)):
        row = {code: i for i, code in enumerate(codes)}
        return np.array([row.get(code, -1) for code in wanted], dtype=np.int64)
    by_code = np.argsort(codes.coded, kind="stable")
    held = codes.coded[by_code]
    at = np.minimum(np.searchsorted(held, wanted.coded), len(held) - 1)
    return np.where(held[at] == wanted.coded, by_code[at], -1)


def _check_once(path: Source, codes: Sequence[str]) -> None:
    """Refuse a table that gives a leaf twice (DataError D012)."""
    if isinstance(codes, Codes):
        held = np.sort(codes.coded)
        if not (held[1:] == held[:-1]).any():
            return
    first_row: dict[str, int] = {}
    for row, code in enumerate(codes, start=1):
        if code in first_row:
            raise DataError(
                f"{path}, row {row}: leaf {code!r} was already given in row {first_row[code]}",
                code="D012",
                file=str(path),
                fix="keep one row a leaf",
                node=code,
            )
        first_row[code] = row


def _tree(
    geography: GeographyTable, codes: Sequence[str], beside: Path, ignored: tuple[str, ...] | None
) -> Geography:
    if geography.prefix_lengths:
        return from_prefixes(geography.levels, geography.prefix_lengths, codes)
    path = beside / geography.table
    table = read_table(path, ("geocode", "parent", "level"), ignored=ignored)
    tree = from_parents(
        list(zip(*(table.column(c).to_pylist() for c in ("geocode", "parent", "level")), strict=True))
    )
    if tree.level_names != geography.levels:
        raise DataError(
            f"{path} has the levels {', '.join(tree.level_names)}; the run file names {', '.join(geography.levels)}",
            code="D015",
            file=str(path),
            fix="make geography.levels and the table agree",
        )
    return tree
