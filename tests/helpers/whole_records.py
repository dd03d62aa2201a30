"""The slow twin of streamed records: the whole table in memory, every column at once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from topdown.measure import LeafCounts, RecordsForm, Refused, check_against_public
from topdown.model import Histogram
from topdown.plan import PublicContext

TEXT = pa_csv.ConvertOptions(
    column_types=dict.fromkeys(("geocode", "dwelling", "sex", "age", "count"), pa.string()),
    strings_can_be_null=False,
)


def whole_histogram(path: Path, context: PublicContext, form: RecordsForm) -> Histogram:
    """Read a table that is a table, row by row in Python; Refused as the streamed reader refuses it."""
    schema, leaves = context.plan.schema, context.geography.leaves
    table = (
        pq.read_table(path) if path.name.endswith(".parquet") else pa_csv.read_csv(path, convert_options=TEXT)
    )
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    if not table.num_rows:
        raise Refused("D022", "", fix="")
    places = [("geocode", "D030", leaves.codes), *((a.name, "D031", a.labels) for a in schema.attributes)]
    found = []
    for name, code, labels in places:
        known = {label: i for i, label in enumerate(labels)}
        wrong = [i for i, value in enumerate(columns[name]) if value not in known]
        _refuse(code, name, wrong, columns[name])
        found.append(np.array([known[value] for value in columns[name]], dtype=np.int64))
    count = np.ones(table.num_rows, dtype=np.int64)
    if form.has_count:
        numbers = [_whole(value) for value in columns["count"]]
        _refuse("D032", "count", [i for i, n in enumerate(numbers) if n is None], columns["count"])
        count = np.array(numbers, dtype=np.int64)
    histogram = Histogram.build(len(leaves), schema.n_cells, found[0], schema.cells(tuple(found[1:])), count)
    check_against_public(LeafCounts.pack(histogram), context)
    return histogram


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and int(text) < 2**31 else None


def _refuse(code: str, column: str, wrong: list[int], values: list[object]) -> None:
    if wrong:
        rows = [(f"row {i + 1}", str(values[i])) for i in wrong]
        raise Refused(code, "", fix="", column=column, rows=lambda: iter(rows))
