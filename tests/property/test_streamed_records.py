"""Records read batch by batch: the same counts, refusals and private lists as the whole table at once."""

import csv
import gzip
import io
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import repeats
from tests.helpers.solved import make_census
from topdown.inputs import LabelIndex, file_formats
from topdown.measure import (
    AggregatedCounts,
    LeafCounts,
    RecordsForm,
    Refused,
    check_against_public,
    confidential,
)
from topdown.measure import record_counts as leaf_counts
from topdown.measure import record_counts as runs
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


NAMES = ("geocode", "dwelling", "sex", "age", "count")
WRONG = ("", "CANARY", "1101", "-1", "2147483648", "é", "\0")


@pytest.fixture(scope="module")
def census(tmp_path_factory):
    """Return a toy land and its records."""
    return make_census(tmp_path_factory.mktemp("land"), seed=5)


def rows_of(census) -> list[list[str]]:
    """Return the records as rows with a count."""
    schema, table = census.context.plan.schema, census.truth[-1]
    codes = census.context.geography.leaves.codes
    values = schema.coordinates(table.cell)
    labels = [[a.labels[int(i)] for i in value] for a, value in zip(schema.attributes, values, strict=True)]
    return [
        [codes[n], *rest, str(c)]
        for n, *rest, c in zip(table.node, *labels, table.count.tolist(), strict=True)
    ]


def written(rows: list[list[str]], form: RecordsForm, kind: str) -> Path:
    """Write rows as a table of some kind, into a folder of its own."""
    names = NAMES if form.has_count else NAMES[:-1]
    path = Path(tempfile.mkdtemp()) / f"records.{kind}"
    if kind == "parquet":
        pq.write_table(
            pa.table({n: pa.array([r[i] for r in rows], pa.string()) for i, n in enumerate(names)}), path
        )
        return path
    out = io.StringIO(newline="")
    csv.writer(out).writerows([names, *(row[: len(names)] for row in rows)])
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if kind == "csv.gz" else data)
    return path


def found_by(read, path: Path, census, form: RecordsForm) -> object:
    """Return what a reader finds: counts, or code, column and private list of its refusal."""
    try:
        table = read(path, census.context, form)
    except Refused as refused:
        return refused.code, refused.column, list(refused.rows() if refused.rows else ())
    packed = table if isinstance(table, LeafCounts) else LeafCounts.pack(table)
    return packed.key.tolist(), packed.count.tolist()


@pytest.mark.deep
@given(st.data())
@settings(max_examples=repeats(25, 120), deadline=None)
def test_streamed_records_are_the_whole_table(census, data):
    """A batch lost, doubled or put at another place is people lost; a refusal must name the same rows."""
    rows = data.draw(st.permutations(rows_of(census)))
    form = RecordsForm(has_count=data.draw(st.booleans()))
    if not form.has_count:
        rows = [row for row in rows for _ in range(int(row[-1]))]
    for _ in range(data.draw(st.sampled_from([0, 0, 1, 3]))):
        i = data.draw(st.integers(0, len(rows) - 1))
        wrong = list(rows[i])
        wrong[data.draw(st.integers(0, len(NAMES) - 1))] = data.draw(st.sampled_from(WRONG))
        rows[i] = wrong
    path = written(rows, form, data.draw(st.sampled_from(["csv", "csv.gz", "parquet"])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_formats, "BATCH_ROWS", data.draw(st.sampled_from([1, 7, 2**17])))
        patch.setattr(runs.SortedRuns.__init__, "__defaults__", (data.draw(st.sampled_from([1, 7, 2**17])),))
        assert found_by(whole_histogram, path, census, form) == found_by(
            confidential._count_records, (path,), census, form
        )


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 40), min_size=1), st.booleans()), max_size=12),
    st.integers(1, 30),
    st.sampled_from([1, 2, 5, 2**20]),
)
def test_runs_add_up_as_a_dictionary_does(batches, rows, at_once):
    """A merge that drops a key, or counts it twice, changes who is counted."""
    held, expected = runs.SortedRuns(rows), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "COUNTS_AT_ONCE", at_once)
        for keys, some in batches:
            counts = [i % 3 if some else 1 for i in range(len(keys))]
            held.add(np.array(keys, dtype=np.int64), np.array(counts, dtype=np.int64))
            for key, count in zip(keys, counts, strict=True):
                expected[key] = expected.get(key, 0) + count
        total = held.total()
    assert sorted((k, c) for k, c in expected.items() if c) == list(
        zip(total.key.tolist(), total.count.tolist(), strict=True)
    )
    assert (np.dtype(np.int64), np.dtype(np.int32)) == (total.key.dtype, total.count.dtype)


def test_the_last_merge_takes_half_as_much_memory_again(monkeypatch):
    """Two copies of a nation's records, and the indices of one, would be the most that a measurement holds."""
    monkeypatch.setattr(runs, "COUNTS_AT_ONCE", 2**14)
    held, n = runs.SortedRuns(2**19), 6 * 2**19
    tracemalloc.start()
    for first in range(0, n, 2**19):
        held.add(np.arange(first, first + 2**19) * 7 % n, np.ones(2**19, dtype=np.int64))
    assert len(held._runs) == 2
    tracemalloc.reset_peak()
    total = held.total()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(total.key) == n
    assert 12 * n <= peak <= 19 * n


@given(
    st.lists(st.text(alphabet="ab\0.é", max_size=4), unique=True, min_size=1),
    st.lists(st.none() | st.text(alphabet="ab\0.é", max_size=5)),
)
def test_names_are_found_as_a_dictionary_finds_them(names, texts):
    """Bytes that a library takes no notice of would count people in places that are not theirs."""
    known = {name: i for i, name in enumerate(names)}
    assert [known.get(text, -1) for text in texts] == LabelIndex(names).find(
        pa.array(texts, pa.string())
    ).tolist()


def test_an_unreadable_end_outdoes_a_wrong_value(census):
    """A row of a file that was cut is no error of the record keepers; the file is."""
    rows = rows_of(census) * 3
    rows[0] = ["CANARY", *rows[0][1:]]
    path = written(rows, RecordsForm(), "csv.gz")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Refused) as caught:
        confidential._count_records((path,), census.context, RecordsForm())
    assert caught.value.code == "D021"


@given(st.integers(0, 50), st.sampled_from([1, 3, 2**20]), st.data())
@settings(max_examples=30, deadline=None)
def test_levels_above_are_the_leaves_added_up(census, seed, entries, data):
    """A node that misses a leaf's people, or has a neighbour's, is measured wrong for ever."""
    tree, rng = census.context.geography, np.random.default_rng(seed)
    leaves = census.truth[-1]
    keep = rng.random(len(leaves.node)) < 0.5
    leaves = Histogram.build(
        leaves.n_nodes, leaves.n_cells, leaves.node[keep], leaves.cell[keep], leaves.count[keep]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_counts, "ENTRIES", entries)
        for depth, expected in enumerate(leaves.at_every_level(tree)):
            first = data.draw(st.integers(0, expected.n_nodes - 1))
            last = data.draw(st.integers(first + 1, expected.n_nodes))
            found = AggregatedCounts(tree, LeafCounts.pack(leaves), depth).between(first, last)
            np.testing.assert_array_equal(expected.dense(first, last), found.dense(first, last))
            assert expected.between(first, last).n_records == found.n_records
