"""The microdata of a release as a histogram, for comparison with the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.errors import CertificateError
from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context


def read_microdata(path: Path, context: Context) -> Histogram:
    """Read microdata/persons.parquet at the leaves.

    Raises:
        CertificateError: damaged, another table, an unknown geocode or label, or a count below 1 (V090).
    """
    schema, leaves = context.plan.schema, context.geography.leaves
    names = ["geocode", *(a.name for a in schema.attributes), "count"]
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=names)
        leaf = _positions(table.column("geocode"), leaves.codes)
        values = [_positions(table.column(a.name), a.labels) for a in schema.attributes]
        count = table.column("count").cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _damaged(path, type(error).__name__) from None
    if any((index < 0).any() for index in (leaf, *values)):
        raise _damaged(path, "a geocode or label that the plan does not know")
    if (count <= 0).any():
        raise _damaged(path, "a count that is not positive")
    return Histogram.build(len(leaves), schema.n_cells, leaf, schema.cells(tuple(values)), count)


def _positions(column: pa.ChunkedArray, labels: tuple[str, ...]) -> NDArray[np.int64]:
    found = pc.index_in(column.cast(pa.string()), value_set=pa.array(labels, pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _damaged(path: Path, why: str) -> CertificateError:
    return CertificateError(
        f"{path} is not the microdata of this release ({why})",
        code="V090",
        file=str(path),
        fix="run topdown verify on the release; get it again if a check fails",
    )
