"""One row a group from a release that passes every check: nothing is read but published files, nothing is charged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pgsr.checks import verify
from pgsr.hierarchy import Ints
from pgsr.sizes import Sizes
from pgsr.verify_files import load, read_certificate
from topdown.errors import ConfigError, DataError
from topdown.outputs import refuse_existing, refuse_release

if TYPE_CHECKING:
    import pyarrow as pa

MOST_GROUPS = 2**31
ROWS_A_TIME = 2**20


@dataclass(frozen=True)
class Written:
    """What was written.

    Args:
        n_groups, n_members: rows, and their sizes added up.
        sizes: of the release; where larger groups count as the last size, members are at least as many.
    """

    n_groups: int
    n_members: int
    sizes: Sizes


def write_groups(folder: Path | str, out: Path | str) -> Written:
    """Write one row for every released group of a leaf region: unit, region, size; regions and sizes in order.

    Units are numbers from 1 on that say nothing else. Any table of the rows agrees with the released counts; the
    members of a region are the sum over sizes s from 1 on of its groups of size s or more.

    Args:
        folder: a release.
        out: Parquet file to write; a new one.

    Raises:
        DataError: no release (D137), one that fails its own checks (D140), or a file that cannot be written (D050).
        ConfigError: a simulation (C122), counts that are not whole numbers from 0 on (C186), too many groups (C158), or
            a file that is there (C080) or lies in a release (C132).
    """
    place, target = Path(folder), Path(out)
    refuse_existing(target, force=False)
    refuse_release(target, "--out")
    failed = [check.name for check in verify(place) if not check.ok]
    if failed:
        raise DataError(
            f"{ascii(str(place))[1:-1]} fails its checks: {', '.join(failed)}",
            code="D140",
            fix="see what pgsr verify finds; get the release again from its publisher",
        )
    document = read_certificate(place)
    if not document["mechanism"]["consistent"]:
        raise ConfigError(
            f"{document['mechanism']['name']} promises no counts from 0 on that add up: they are no groups",
            code="C186",
            fix="release with a consistent mechanism, such as tracking+parent",
        )
    files = load(place, document)
    leaf = files.level == files.level.max()
    if int(document["total"]) > MOST_GROUPS:
        raise ConfigError(
            f"{document['total']:,} groups are more rows than are written", code="C158", fix="use the counts"
        )
    sizes = Sizes(**document["sizes"])
    names = [code for (code, _, _), here in zip(document["regions"], leaf, strict=True) if here]
    counts = files.counts[:, leaf]
    _write(target, _tables(counts, names, sizes.smallest))
    labels = np.arange(sizes.n_sizes) + sizes.smallest
    return Written(int(counts.sum()), int(labels @ counts.sum(axis=1)), sizes)


def _tables(counts: Ints, names: list[str], smallest: int) -> Iterator[pa.Table]:
    """Yield rows region by region, some at a time, so that memory holds no more."""
    import pyarrow as pa

    regions, before = pa.array(names, pa.string()), 0
    ends = np.cumsum(counts.T.reshape(-1))
    n_sizes = len(counts)
    while before < int(ends[-1]):
        unit = np.arange(before, min(before + ROWS_A_TIME, int(ends[-1])), dtype=np.int64)
        cell = np.searchsorted(ends, unit, side="right")
        region = pa.DictionaryArray.from_arrays(pa.array(cell // n_sizes, pa.int32()), regions)
        size = pa.array(cell % n_sizes + smallest, pa.int32())
        yield pa.table({"unit": pa.array(unit + 1), "region": region, "size": size})
        before += len(unit)


def _write(target: Path, tables: Iterator[pa.Table]) -> None:
    """Write a new Parquet file; what is not whole is removed."""
    import pyarrow as pa
    from pyarrow import parquet

    region = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("unit", pa.int64()), ("region", region), ("size", pa.int32())])
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        file = os.fdopen(os.open(target, flags, 0o644), "wb")
    except OSError as error:
        raise _unwritten(target, error) from None
    try:
        with file, parquet.ParquetWriter(file, schema, compression="zstd", store_schema=False) as writer:
            for table in tables:
                writer.write_table(table)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritten(target, error) from None
        raise


def _unwritten(target: Path, error: OSError) -> DataError:
    return DataError(
        f"cannot write {target}: {error.strerror or type(error).__name__}",
        code="D050",
        file=str(target),
        fix="make room, and give --out a new file in a folder that is there",
    )
