"""The microdata and tables of a release, for comparison with the truth and with a second solve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from topdown.arrays import Ints
from topdown.errors import CertificateError
from topdown.file_names import table_name
from topdown.inputs import codes_to_arrow, label_positions
from topdown.inputs.file_formats import parquet_batches
from topdown.measure.record_counts import LeafCounts, SortedRuns
from topdown.model import Histogram, Query, sections_of
from topdown.plan import PublicContext


def read_microdata(path: Path, context: PublicContext) -> Histogram:
    """Read microdata/persons.parquet, or its parts, at the leaves; see `released_counts`."""
    return released_counts(path, context).whole()


def released_counts(path: Path, context: PublicContext) -> LeafCounts:
    """Read microdata/persons.parquet, or its parts, row group by row group.

    Args:
        path: of the file in a release of one section. context: plan and public facts of the release.

    Raises:
        CertificateError: damaged, another table, an unknown geocode or label, a count below 1, or more than 2^31 - 1
            records (V090).
    """
    schema, leaves = context.plan.schema, context.geography.leaves
    names = ["geocode", *(a.name for a in schema.attributes), "count"]
    known = [codes_to_arrow(labels) for labels in (leaves.codes, *(a.labels for a in schema.attributes))]
    runs, total = SortedRuns(), 0
    for file in sections_of(context.geography).files_at(path, len(context.geography.levels) - 1):
        try:
            for batch in parquet_batches(file, dict.fromkeys(names)):
                places = [label_positions(batch.column(n), own) for n, own in zip(names, known, strict=False)]
                count = batch.column("count").cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64)
                if any((index < 0).any() for index in places):
                    raise damaged_file_error(file, "a geocode or label that the plan does not know")
                if (count <= 0).any():
                    raise damaged_file_error(file, "a count that is not positive")
                total += int(count.sum(dtype=np.float64))
                if total >= 2**31:
                    raise damaged_file_error(file, "more records than a release can have")
                runs.add(places[0] * schema.n_cells + schema.cells(tuple(places[1:])), count)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise damaged_file_error(file, type(error).__name__) from None
    found = runs.total()
    return LeafCounts(len(leaves), schema.n_cells, found.key, found.count)


def read_open_microdata(path: Path, context: PublicContext) -> Histogram:
    """Read the microdata as `read_microdata`; CertificateError V090 also for records that public facts exclude."""
    leaves, rules = read_microdata(path, context), context.rules
    if not rules.open[-1][leaves.node, rules.class_of_cell[leaves.cell]].all():
        raise damaged_file_error(path, "records where public facts allow none")
    return leaves


def read_table_rows(
    release: Path, context: PublicContext, query: Query, level: str, names: Sequence[str]
) -> tuple[Ints, Ints, pa.Table]:
    """Return nodes, answers and some columns of the rows of a published table.

    Raises:
        CertificateError: V090 the table is missing or damaged.
    """
    path = release / "tables" / table_name(query.name) / f"{level}.parquet"
    depth = context.geography.index(level)
    codes, files = context.geography.levels[depth].codes, sections_of(context.geography).files_at(path, depth)
    try:
        columns = ["geocode", *(f.name for f in query.factors), *names]
        parts = (parquet_batches(file, dict.fromkeys(columns)) for file in files)
        table = pa.Table.from_batches(chain.from_iterable(parts))
        node = label_positions(table.column("geocode"), codes)
        values = [label_positions(table.column(f.name), f.group_labels) for f in query.factors]
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise damaged_file_error(path, type(error).__name__, "a table") from None
    if any((index < 0).any() for index in (node, *values)):
        raise damaged_file_error(path, "a geocode or label that the plan does not know", "a table")
    shape = tuple(len(f.group_labels) for f in query.factors)
    answer = np.ravel_multi_index(tuple(values), shape) if shape else np.zeros_like(node)
    return node, np.asarray(answer, dtype=np.int64), table


def damaged_file_error(path: Path, why: str, what: str = "the microdata") -> CertificateError:
    """Return the error of a file that cannot be read as what it is (V090)."""
    return CertificateError(
        f"{path} is not {what} of this release ({why})",
        code="V090",
        file=str(path),
        fix="run topdown verify on the release; get it again if a check fails",
    )
