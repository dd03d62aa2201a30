"""What a measurement writes and what it never shows."""

import json
import pickle
import shutil
import traceback
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.failing import fails_with
from tests.helpers.folders import files
from topdown.errors import CertificateError
from topdown.measure import load_records, measure
from topdown.plan import load_context
from topdown.solve import MeasurementReader

pytestmark = pytest.mark.usefixtures("small_parts")
CANARY = 48_271_093


@pytest.mark.parametrize("n_groups", [8, None])
def test_every_number_stands_where_the_plan_says(toy, n_groups):
    """A shifted query or node would give each area another area's people; a number cut to 16 bits, others."""
    toy.rows[0][4] = str(CANARY)
    toy.write()
    prepared = toy.prepare_almost_without_noise()
    result = measure(prepared, toy.folder / "out")
    context = load_context(toy.folder / "out")
    histogram = load_records(toy.records, context).open_counts().whole()
    reader = MeasurementReader(toy.folder / "out", context, n_groups)
    tree = context.geography.levels
    for depth in (2, 1, 0):
        truth = np.concatenate([histogram.answers(q) for q in context.queries(tree[depth].name)], axis=1)
        nodes, answers = reader.answers(depth, 0, len(tree[depth]))
        assert np.flatnonzero(context.rules.inhabited[depth]).tolist() == nodes.tolist()
        assert truth[nodes].tolist() == answers.tolist()
        histogram = histogram.aggregate(tree[depth].parent, len(tree[depth - 1])) if depth else histogram
    assert result.n_drawn == len(list((toy.folder / "out/measurements").rglob("part-*.parquet"))) > 4
    assert {"population of the land": [[sum(int(r[4]) for r in toy.rows)]]} == {
        k: v.tolist() for k, v in reader.exact().items()
    }


def test_the_noise_has_the_planned_variance(toy):
    """Noise at the wrong scale would break the promise or the statistics."""
    prepared = toy.prepare(limit="100")
    plan = prepared.plan
    histogram = load_records(toy.records, prepared.context).open_counts().whole()
    truth = np.concatenate([histogram.answers(q) for q in prepared.context.queries("block")], axis=1)
    sums = []
    for i in range(15):
        measure(prepared, toy.folder / f"out{i}", again=True)
        nodes, answers = MeasurementReader(toy.folder / f"out{i}", prepared.context).answers(2, 0, 8)
        sums.append((answers - truth[nodes]).astype(np.int64))
    noise = np.stack(sums)
    first = 0
    for m in plan.levels[2].measurements:
        block = noise[:, :, first : first + m.n_answers].reshape(-1).astype(float)
        ratio = (block**2).mean() / float(m.variance)
        assert abs(ratio - 1) < 6 * (2 / len(block)) ** 0.5
        first += m.n_answers


def test_files_are_as_documented(toy):
    """Readers in other languages rely on columns, types, metadata and order."""
    prepared = toy.prepare()
    measure(prepared, toy.folder / "out")
    path = toy.folder / "out/measurements/block/part-000.parquet"
    table, plan = pq.read_table(path), prepared.plan
    assert [(f.name, str(f.type)) for f in table.schema] == [
        ("level", "string"),
        ("node", "string"),
        ("query", "string"),
        ("answers", "list<element: int32 not null>"),
        ("variance_numerator", "int64"),
        ("variance_denominator", "int64"),
    ]
    assert not any(f.nullable for f in table.schema)
    stated = {k.decode(): v.decode() for k, v in pq.read_metadata(path).metadata.items()}
    assert (stated["type"], stated["version"]) == ("topdown.measurements", "2")
    assert stated["plan_hash"] == plan.plan_hash
    assert "stamp" not in stated
    row = table.slice(1, 1).to_pylist()[0]
    m = plan.levels[2].measurements[1]
    assert (row["level"], row["node"]) == ("block", "1101")
    assert (row["query"], len(row["answers"])) == (m.query, m.n_answers)
    assert Fraction(row["variance_numerator"], row["variance_denominator"]) == m.variance
    document = json.loads((toy.folder / "out/plan.json").read_text())
    assert (document["type"], list(document)) == ("topdown.plan", sorted(document))
    assert document["plan_hash"] == plan.plan_hash
    nodes = {n for p in path.parent.iterdir() for n in pq.read_table(p).column("node").to_pylist()}
    assert "1204" not in nodes


def test_neighbours_look_alike(toy):
    """A file name, a shape or an event that depends on one record would tell about that record."""

    def run(name: str):
        events: list[object] = []
        measure(toy.prepare(limit="100"), toy.folder / name, events.append, again=True)
        shapes = {
            str(p.relative_to(toy.folder / name)): (
                pq.read_metadata(p).num_rows,
                pq.read_metadata(p).num_row_groups,
            )
            for p in sorted((toy.folder / name).rglob("*.parquet"))
        }
        return sorted(files(toy.folder / name)), shapes, events, toy.prepare().context.plan.plan_hash

    first = run("a")
    toy.rows[0][2], toy.rows[0][4] = "male", toy.rows[0][4]
    toy.write()
    assert first == run("b")


def test_planted_counts_appear_nowhere_but_in_noisy_answers(toy, capfd, caplog):
    """A count in a log, an error, a ledger or a temporary file would be a disclosure."""
    toy.rows[0][4] = str(CANARY)
    toy.write()
    prepared = toy.prepare(limit="1000")
    shown = []

    def failing(stop: int):
        def report(event: object) -> None:
            shown.append(str(event))
            if len(shown) % 5 == stop:
                raise ValueError("injected")

        return report

    for stop in range(6):
        for _ in range(3):
            try:
                measure(prepared, toy.folder / f"out{stop}", failing(stop), again=True)
            except ValueError as error:
                shown.append("".join(traceback.format_exception(error)))
    captured = capfd.readouterr()
    text = " ".join(shown) + caplog.text + captured.out + captured.err
    needles = [str(CANARY).encode(), CANARY.to_bytes(4, "little"), CANARY.to_bytes(4, "big")]
    needles.append(str(CANARY).encode("utf-16-le"))
    everything = {n: d for n, d in files(toy.folder).items() if not n.startswith("records.csv")}
    everything |= {"text": text.encode()}
    for name, data in everything.items():
        if name.endswith((".parquet", ".drawn")) and "public" not in name:
            table = pq.read_table(toy.folder / name).drop_columns(["answers"])
            data = table.to_pandas().to_csv().encode()
        assert [n for n in needles if n in data] == [], name


@pytest.mark.parametrize("damage", ["flip", "swap", "remove", "other plan", "extra"])
def test_the_reader_notices_damage(toy, damage):
    """The solver must not turn a damaged or mixed-up file into people."""
    prepared = toy.prepare(limit="100")
    measure(prepared, toy.folder / "out")
    block = toy.folder / "out/measurements/block"
    one, two = block / "part-000.parquet", block / "part-001.parquet"
    if damage == "flip":
        data = bytearray(one.read_bytes())
        answers = pq.read_metadata(one).row_group(0).column(3)
        data[answers.data_page_offset + answers.total_compressed_size - 3] ^= 1
        one.write_bytes(data)
    elif damage == "swap":
        first, second = one.read_bytes(), two.read_bytes()
        one.write_bytes(second)
        two.write_bytes(first)
    elif damage == "remove":
        two.unlink()
    elif damage == "extra":
        (block / "part-004.parquet").write_bytes(one.read_bytes())
    else:
        other = toy.prepare_almost_without_noise()
        measure(other, toy.folder / "other", again=True)
        one.write_bytes((toy.folder / "other/measurements/block/part-000.parquet").read_bytes())
    with fails_with("V020", CertificateError):
        MeasurementReader(toy.folder / "out", prepared.context).answers(2, 0, 8)


@pytest.mark.parametrize("n_groups", [1, None])
def test_the_reader_reads_any_run_of_nodes(toy, n_groups):
    """Workers ask for subtrees; cuts across parts and row groups must not matter."""
    prepared = toy.prepare()
    measure(prepared, toy.folder / "out")
    reader = MeasurementReader(toy.folder / "out", prepared.context, n_groups)
    nodes, whole = reader.answers(2, 0, 8)
    for first in range(9):
        for last in range(first, 9):
            some, answers = reader.answers(2, first, last)
            inside = (nodes >= first) & (nodes < last)
            assert nodes[inside].tolist() == some.tolist()
            assert whole[inside].tolist() == answers.tolist()
    other = pickle.loads(pickle.dumps(reader))  # noqa: S301 - made two lines up
    assert whole.tolist() == other.answers(2, 0, 8)[1].tolist()


@pytest.mark.parametrize("what", ["removed", "of another level", "shorter"])
def test_a_part_exchanged_after_it_was_found_is_refused(toy, what):
    """Footers are read anew with the groups: a file put there meanwhile must pass for what it is."""
    prepared = toy.prepare()
    measure(prepared, toy.folder / "out")
    reader = MeasurementReader(toy.folder / "out", prepared.context)
    last = sorted((toy.folder / "out/measurements/block").glob("part-*.parquet"))[-1]
    reader.level(2)
    if what == "removed":
        last.unlink()
    elif what == "of another level":
        shutil.copy(toy.folder / "out/measurements/county/part-000.parquet", last)
    else:
        shutil.copy(last.with_name("part-000.parquet"), last)
    with fails_with("V020", CertificateError):
        reader.answers(2, 0, 8)
