"""Geography and facts of the leaves as a release holds them, and the hashes that plans name them by."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from topdown.columns import TooLargeError, UnreadableError, header_of
from topdown.errors import DataError
from topdown.model.geography import Geography, from_parents
from topdown.model.public import PublicFacts
from topdown.plan.public_tables import read_table, whole_numbers


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
