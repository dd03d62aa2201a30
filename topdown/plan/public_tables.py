"""Public input tables: leaf facts and, if given, the geography table. Errors name file and row."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.errors import DataError
from topdown.model.geography import Geography, from_parents, from_prefixes
from topdown.model.public import PublicFacts
from topdown.plan.runfile import GeographyTable

MAX_COUNT = 2**31 - 1


def read_table(path: Path, text_columns: tuple[str, ...]) -> pa.Table:
    """Read a CSV(.gz) or Parquet table with every column as written; `text_columns` keep leading zeros.

    Raises:
        DataError: missing, unreadable, truncated or empty file, or a missing column (D001-D004).
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist", code="D001", fix="check the path in the run file")
    try:
        if path.name.endswith(".parquet"):
            table = pq.read_table(path)
        else:
            header = pa_csv.open_csv(path).schema.names
            table = pa_csv.read_csv(
                path,
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
                ),
            )
    except (pa.ArrowInvalid, pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:160]
        raise DataError(
            f"{path} cannot be read: {reason}",
            code="D002",
            file=str(path),
            fix="give a whole CSV or Parquet file",
        ) from None
    missing = [name for name in text_columns if name not in table.column_names]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]!r}",
            code="D004",
            file=str(path),
            fix=f"it has: {', '.join(table.column_names[:12])}",
        )
    if table.num_rows == 0:
        raise DataError(
            f"{path} has no rows", code="D003", file=str(path), fix="give a table with at least one row"
        )
    for name in text_columns:
        column = table.column(name)
        if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
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


def whole_numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.int64]:
    """Return a column as int64; DataError with the row if a value is not a whole number in 0..2^31-1 (D007)."""
    column = table.column(name)
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            strict = pc.match_substring_regex(column, r"^[0-9]{1,18}$")
            values = pc.if_else(strict, column, "-1").cast(pa.int64())
        else:
            values = column.cast(pa.int64())
        numbers = values.to_numpy()
        if values.null_count:
            numbers = pc.fill_null(values, -1).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        as_float = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        numbers = np.where(np.isfinite(as_float) & (as_float == np.floor(as_float)), 0, -1)
    bad = np.flatnonzero((numbers < 0) | (numbers > MAX_COUNT))
    if len(bad):
        row = int(bad[0])
        raise DataError(
            f"{path}, row {row + 1}: {name} is {str(column[row].as_py())!r}, "
            f"not a whole number from 0 to {MAX_COUNT:,}",
            code="D007",
            file=str(path),
            line=row + 2 if not path.name.endswith(".parquet") else None,
            fix="correct the row",
        )
    return np.asarray(numbers, dtype=np.int64)


def read_public(
    leaves_path: Path, geography: GeographyTable, columns: tuple[str, ...], beside: Path
) -> tuple[Geography, PublicFacts]:
    """Read leaf facts and build the tree.

    Args:
        leaves_path: table with `geocode` and the named columns; one row a leaf.
        geography: levels, with prefix lengths or the path of a table geocode,parent,level.
        columns: public columns the invariants need.
        beside: folder that paths are relative to.

    Raises:
        DataError: see `read_table`, `whole_numbers`, `from_prefixes`, `from_parents`; also a leaf listed twice, or
            leaves that differ between the two tables (D012, D018).
    """
    table = read_table(leaves_path, ("geocode",))
    missing = [c for c in columns if c not in table.column_names]
    if missing:
        raise DataError(
            f"{leaves_path} has no column {missing[0]!r}, which the invariants need",
            code="D004",
            file=str(leaves_path),
            fix=f"add it, or choose other invariants; it has: {', '.join(table.column_names[:12])}",
        )
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
    tree = _tree(geography, tuple(codes), beside)
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


def _tree(geography: GeographyTable, codes: tuple[str, ...], beside: Path) -> Geography:
    if geography.prefix_lengths:
        return from_prefixes(geography.levels, geography.prefix_lengths, codes)
    path = beside / geography.table
    table = read_table(path, ("geocode", "parent", "level"))
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
    table = read_table(folder / "geography.parquet", ("geocode", "parent"))
    rows = zip(*(table.column(c).to_pylist() for c in ("geocode", "parent", "level")), strict=True)
    tree = from_parents([(code, parent, level) for code, parent, level in rows])
    leaves = read_table(folder / "leaves.parquet", ("geocode",))
    facts = {c: leaves.column(c).to_numpy().astype(np.int64) for c in leaves.column_names if c != "geocode"}
    return tree, PublicFacts(facts)


def _write(path: Path, table: pa.Table, document_type: str) -> None:
    part = path.with_suffix(".parquet.tmp")
    with pq.ParquetWriter(part, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        # store_schema=False keeps Arrow's own types out of the file, and with them the table's metadata
        writer.add_key_value_metadata({"type": document_type, "version": "1"})
    part.replace(path)
