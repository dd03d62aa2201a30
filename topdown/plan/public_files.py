"""Geography and facts of the leaves as a release holds them, and the hashes that plans name them by."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topdown.columns import TooLargeError, UnreadableError, header_of
from topdown.errors import DataError
from topdown.model.codes import Codes
from topdown.model.geography import Geography, from_parents
from topdown.model.listed_tree import from_listing
from topdown.model.narrow import NarrowColumns, narrow
from topdown.model.public import PublicFacts
from topdown.plan.code_columns import code_column, read_codes
from topdown.plan.public_tables import read_table, whole_numbers

_AT_ONCE = 65_536  # geocodes hashed


def geography_sha256(geography: Geography) -> str:
    """Hash the tree alone, names of levels with it: SHA-256 in hex."""
    return _hash_of_tree(geography).hexdigest()


def _hash_of_tree(geography: Geography) -> hashlib._Hash:
    digest = hashlib.sha256()
    for level in geography.levels:
        digest.update(f"level {level.name} {len(level)}\n".encode())
        for at in range(0, len(level), _AT_ONCE):
            digest.update(("\n" * (at > 0) + "\n".join(level.codes[at : at + _AT_ONCE])).encode())
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
    code = [code_column(level.codes) for level in geography.levels]
    parent = [pa.array([""])]
    parent += [up.take(pa.array(at.parent)) for up, at in zip(code, geography.levels[1:], strict=False)]
    of = np.repeat(np.arange(len(code), dtype=np.int32), [len(level) for level in geography.levels])
    columns = {
        "level": pa.DictionaryArray.from_arrays(of, pa.array(geography.level_names)),
        "geocode": pa.concat_arrays(code),
        "parent": pa.concat_arrays(parent),
    }
    _write(folder / "geography.parquet", pa.table(columns), "topdown.geography")
    leaf_columns = {"geocode": code[-1]}
    leaf_columns |= {name: pa.array(values) for name, values in facts.columns.items()}
    _write(folder / "leaves.parquet", pa.table(leaf_columns), "topdown.leaves")


def read_release_public(folder: Path) -> tuple[Geography, PublicFacts]:
    """Read back what `write_public` wrote."""
    path = folder / "geography.parquet"
    tree = _listed(path)
    if tree is None:
        table = read_table(path, ("geocode", "parent", "level"))
        rows = zip(*(table.column(c).to_pylist() for c in ("geocode", "parent", "level")), strict=True)
        tree = from_parents([(code, parent, level) for code, parent, level in rows])
    leaves = read_leaves(folder / "leaves.parquet", tree)
    pa.default_memory_pool().release_unused()  # as much as tree and facts, and kept by Arrow otherwise
    return tree, leaves


def _listed(path: Path) -> Geography | None:
    """Return the tree of a table that is ordered as `write_public` orders it; None for any other.

    Columns are read one at a time: as texts, all of them at once are more than the tree.
    """
    codes, parent = read_codes(_column(path, "geocode")), _column(path, "parent")
    is_root = not parent[0].as_py()
    parents = read_codes(parent.slice(1))
    del parent
    if not (is_root and isinstance(codes, Codes) and isinstance(parents, Codes)):
        return None
    level = _column(path, "level").combine_chunks().dictionary_encode()
    level = level.combine_chunks() if isinstance(level, pa.ChunkedArray) else level
    return from_listing(tuple(level.dictionary.to_pylist()), level.indices.to_numpy(), codes, parents)


def _column(path: Path, name: str) -> pa.ChunkedArray:
    return read_table(path, (name,), ignored=None).column(name)


def read_leaves(path: Path, geography: Geography) -> PublicFacts:
    """Read back the facts that `write_public` wrote; DataError D018 if they are of other leaves."""
    names = tuple(name for name in _columns(path) if name != "geocode")
    if read_codes(_column(path, "geocode")) != geography.leaves.codes:
        raise DataError(
            f"{path} has other leaves than the geography",
            code="D018",
            file=str(path),
            fix="get the release again; do not mix files of two runs",
        )
    return PublicFacts(
        NarrowColumns(  # one at a time: all of them at once are as much as everything else of a nation
            {
                name: narrow(whole_numbers(read_table(path, (), (name,), ignored=None), name, path))
                for name in names
            }
        )
    )


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
