"""Public input tables: leaf facts and, if given, the geography table. Errors name file and row."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
    header_of,
    is_parquet,
    is_text,
    listed,
    read_rows,
    shown,
)
from topdown.columns import whole_numbers as whole
from topdown.errors import DataError
from topdown.model.geography import Geography, from_parents, from_prefixes
from topdown.model.public import PublicFacts
from topdown.plan.runfile import GeographyTable

MAX_COUNT = 2**31 - 1


def read_table(
    path: Path,
    text_columns: tuple[str, ...],
    number_columns: tuple[str, ...] = (),
    *,
    ignored: tuple[str, ...] | None = (),
) -> pa.Table:
    """Read the named columns of a CSV(.gz) or Parquet table as it holds them; CSV as text, with leading zeros.

    Args:
        path: the file.
        text_columns: must be text, without empty values.
        number_columns: see `whole_numbers`.
        ignored: other columns that may be there; None allows any.

    Raises:
        DataError: missing, unreadable or empty file (D001-D003, D042); a column missing, there twice, not asked for
            or no text (D004-D006, D040).
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist", code="D001", fix="check the path in the run file")
    named = (*text_columns, *number_columns)
    try:
        header = header_of(path)
        odd = None if not header else find_odd(header, named, tuple(header) if ignored is None else ignored)
        if odd is not None:
            raise _odd(path, odd, header)
        table = read_rows(path, dict.fromkeys(named, pa.string()))  # refuses an empty file
    except UnreadableError as error:
        raise DataError(
            f"{path} cannot be read: {error}",
            code="D002",
            file=str(path),
            fix="give a whole CSV or Parquet file",
        ) from None
    except TooLargeError:
        raise DataError(f"{path}: {TOO_LARGE}", code="D043", file=str(path), fix=RAISE_TABLE) from None
    except MiscountedError:
        raise DataError(f"{path}: {MISCOUNTED}", code="D042", file=str(path), fix=MISCOUNTED_FIX) from None
    if table.num_rows == 0:
        raise DataError(
            f"{path} has no rows", code="D003", file=str(path), fix="give a table with at least one row"
        )
    for name in text_columns:
        column = table.column(name)
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


def _odd(path: Path, odd: Odd, header: list[str]) -> DataError:
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


def whole_numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.int64]:
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
            line=row + 2 if not is_parquet(path) else None,
            fix="correct the row",
        )
    return numbers


def read_public(
    leaves_path: Path,
    geography: GeographyTable,
    columns: tuple[str, ...],
    beside: Path,
    ignored: tuple[str, ...] | None = (),
) -> tuple[Geography, PublicFacts]:
    """Read leaf facts and build the tree.

    Args:
        leaves_path: table with `geocode` and the named columns; one row a leaf.
        geography: levels, with prefix lengths or the path of a table geocode,parent,level.
        columns: public columns the invariants need.
        beside: folder that paths are relative to.
        ignored: columns of either table that are not read; None allows any.

    Raises:
        DataError: see `read_table`, `whole_numbers`, `from_prefixes`, `from_parents`; also a leaf listed twice, or
            leaves that differ between the two tables (D012, D018).
    """
    table = read_table(leaves_path, ("geocode",), columns, ignored=ignored)
    codes = table.column("geocode").to_pylist()
    first_row: dict[str, int] = {}
    for row, code in enumerate(codes, start=1):
        if code in first_row:
            raise DataError(
                f"{leaves_path}, row {row}: leaf {code!r} was already given in row {first_row[code]}",
                code="D012",
                file=str(leaves_path),
                fix="keep one row a leaf",
                node=code,
            )
        first_row[code] = row
    tree = _tree(geography, tuple(codes), beside, ignored)
    order = np.array([first_row.get(code, 0) - 1 for code in tree.leaves.codes])
    if len(tree.leaves) != len(codes) or (order < 0).any():
        odd = sorted(set(codes) ^ set(tree.leaves.codes))[0]
        raise DataError(
            f"leaf {odd!r} is in only one of the leaf table and the geography table",
            code="D018",
            file=str(leaves_path),
            fix="list the same leaves in both",
            node=odd,
        )
    return tree, PublicFacts({name: whole_numbers(table, name, leaves_path)[order] for name in columns})


def _tree(
    geography: GeographyTable, codes: tuple[str, ...], beside: Path, ignored: tuple[str, ...] | None
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


def geography_sha256(geography: Geography) -> str:
    """Hash the tree alone, names of levels with it: SHA-256 in hex."""
    return _hash_of_tree(geography).hexdigest()


def _hash_of_tree(geography: Geography) -> hashlib._Hash:
    digest = hashlib.sha256()
    for level in geography.levels:
        digest.update(f"level {level.name} {len(level)}\n".encode())
        digest.update("\n".join(level.codes).encode())
        digest.update(level.parent.astype("<i8").tobytes())
    return digest


def public_sha256(geography: Geography, facts: PublicFacts) -> str:
    """Hash the tree and the facts (not the files' bytes): SHA-256 in hex."""
    digest = _hash_of_tree(geography)
    for name in sorted(facts.columns):
        digest.update(f"\ncolumn {name}\n".encode())
        digest.update(facts.columns[name].astype("<i8").tobytes())
    return digest.hexdigest()


def write_public(folder: Path, geography: Geography, facts: PublicFacts) -> None:
    """Write `geography.parquet` (level, geocode, parent) and `leaves.parquet` (geocode, columns) for the release."""
    folder.mkdir(parents=True, exist_ok=True)
    level, code, parent = [], [], []
    for i, here in enumerate(geography.levels):
        level += [here.name] * len(here)
        code += list(here.codes)
        parent += [""] if i == 0 else [geography.levels[i - 1].codes[p] for p in here.parent]
    columns = {
        "level": pa.array(level).dictionary_encode(),
        "geocode": pa.array(code),
        "parent": pa.array(parent),
    }
    _write(folder / "geography.parquet", pa.table(columns), "topdown.geography")
    leaf_columns = {"geocode": pa.array(geography.leaves.codes)}
    leaf_columns |= {name: pa.array(values) for name, values in facts.columns.items()}
    _write(folder / "leaves.parquet", pa.table(leaf_columns), "topdown.leaves")


def read_release_public(folder: Path) -> tuple[Geography, PublicFacts]:
    """Read back what `write_public` wrote."""
    table = read_table(folder / "geography.parquet", ("geocode", "parent", "level"))
    rows = zip(*(table.column(c).to_pylist() for c in ("geocode", "parent", "level")), strict=True)
    tree = from_parents([(code, parent, level) for code, parent, level in rows])
    return tree, read_leaves(folder / "leaves.parquet", tree)


def read_leaves(path: Path, geography: Geography) -> PublicFacts:
    """Read back the facts that `write_public` wrote; DataError D018 if they are of other leaves."""
    names = tuple(name for name in _columns(path) if name != "geocode")
    table = read_table(path, ("geocode",), names)
    if tuple(table.column("geocode").to_pylist()) != geography.leaves.codes:
        raise DataError(
            f"{path} has other leaves than the geography",
            code="D018",
            file=str(path),
            fix="get the release again; do not mix files of two runs",
        )
    return PublicFacts({name: whole_numbers(table, name, path) for name in names})


def _columns(path: Path) -> list[str]:
    try:
        return header_of(path)
    except (UnreadableError, TooLargeError):
        return []


def _write(path: Path, table: pa.Table, document_type: str) -> None:
    part = path.with_suffix(".parquet.tmp")
    with pq.ParquetWriter(part, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        # store_schema=False keeps Arrow's own types out of the file, and with them the table's metadata
        writer.add_key_value_metadata({"type": document_type, "version": "1"})
    part.replace(path)
