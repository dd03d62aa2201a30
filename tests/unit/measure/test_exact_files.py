"""exact.json and its tables: bytes, sizes, and what a crash or other records may leave of them."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.crash_model import (
    OUT,
    ModelWork,
    book_of,
    crashes,
    fresh,
    journal_id,
    proposed,
    same_every_time,
    tolerant,
)
from tests.helpers.exact_files import list_few
from tests.helpers.folders import files
from tests.helpers.model_disk import ModelDisk
from topdown.errors import DataError
from topdown.measure import exact_bytes, measure
from topdown.plan import exact_paths, exact_table, read_exact_table
from topdown.plan import exact_statistics as exact_files
from topdown.privacy.ledger import Disk

TABLE = "exact-000.parquet"


def values_of(context, add: int = 0) -> dict[str, np.ndarray]:
    """Return made-up values of the exact statistics of a plan."""
    plan, tree = context.plan, context.geography
    shapes = {
        e.name: (len(tree.levels[tree.index(e.level)]), plan.query(e.query).n_answers)
        for e in plan.invariants.exact
    }
    return {name: add + np.arange(np.prod(shape)).reshape(shape) for name, shape in shapes.items()}


def test_up_to_the_limit_exact_json_lists_the_values(toy, monkeypatch):
    """A release that can be read without Parquet must not change, and the limit means what the format says."""
    context = toy.prepare().context
    values = values_of(context)
    (exact,) = context.plan.invariants.exact
    list_few(monkeypatch, 1)
    row = {"name": exact.name, "level": exact.level, "query": exact.query}
    listed = row | {"nodes": list(context.geography.levels[0].codes), "answers": values[exact.name].tolist()}
    head = {"type": "topdown.exact", "version": 1, "plan_hash": context.plan.plan_hash}
    due = json.dumps(head | {"values": [listed]}, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    disk = ModelDisk()
    assert due.encode() == exact_bytes(context, values, OUT, disk)
    assert disk.names(OUT) == []
    list_few(monkeypatch, 0)
    data = exact_bytes(context, values, OUT, disk)
    sha256 = hashlib.sha256(disk.read(OUT / TABLE)).hexdigest()
    assert json.loads(data) == head | {"values": [row | {"file": TABLE, "sha256": sha256}]}
    assert exact_paths(context.plan) == ["measurements/exact.json", f"measurements/{TABLE}"]


def test_a_table_is_the_same_bytes_and_the_same_numbers(toy, monkeypatch):
    """Row groups must neither lose nor move a row, and two runs must make one hash."""
    context = toy.prepare().context
    exact = context.plan.invariants.exact[0]
    blocks = type(exact)("b", "block", "sex * age")
    answers = values_of(context)[exact.name][0, 0] + np.arange(48).reshape(8, 6) * 2**29
    whole = exact_table(context, blocks, answers)
    assert whole == exact_table(context, blocks, answers)
    for n_answers in (6, 24, 48 * 8):
        monkeypatch.setattr(exact_files, "_ANSWERS_PER_GROUP", n_answers)
        for data in (whole, exact_table(context, blocks, answers)):
            np.testing.assert_array_equal(answers, read_exact_table(data, context, blocks))
    for other in (exact, type(exact)("c", "block", "sex * age")):
        with pytest.raises(ValueError, match="another table"):
            read_exact_table(whole, context, other)


@pytest.fixture
def work(toy, monkeypatch):
    """Let the protocol on the modelled disk write the exact statistics of the toy; return what sets their values."""
    same_every_time(monkeypatch)
    list_few(monkeypatch)
    context = toy.prepare().context

    def use(add: int) -> dict[str, np.ndarray]:
        values = values_of(context, add)
        monkeypatch.setattr(ModelWork, "exact", lambda self: exact_bytes(context, values, OUT, self.disk))
        return values

    use(0)
    return use


def test_no_crash_leaves_exact_json_without_the_table_it_names(work, monkeypatch):
    """Whoever finds exact.json after a power cut must find the numbers, and a second run the same bytes."""
    replace = ModelDisk.replace

    def in_order(disk: ModelDisk, path: Path, data: bytes, *, private: bool = False) -> None:
        if path.name == "exact.json":  # whatever order a disk keeps names in
            assert hashlib.sha256(disk.safe(OUT / TABLE)).hexdigest() in data.decode()
        replace(disk, path, data, private=private)

    monkeypatch.setattr(ModelDisk, "replace", in_order)
    whole = fresh()
    proposed(*whole)
    due, seen = (whole[0].read(OUT / "exact.json"), whole[0].read(OUT / TABLE)), set()
    for disk, world in crashes(proposed, *fresh()):
        stated, table = disk.safe(OUT / "exact.json"), disk.safe(OUT / TABLE)
        seen.add((bool(stated), table == due[1]))
        if stated:
            (value,) = json.loads(stated)["values"]
            assert value["sha256"] == hashlib.sha256(table).hexdigest()
        proposed(disk, world)
        assert due == (disk.read(OUT / "exact.json"), disk.read(OUT / TABLE))
    assert seen == {(False, False), (False, True), (True, True)}


def test_other_values_are_refused_and_change_nothing(work):
    """A table of other records under the noise of the first would be a release of nobody."""
    refused = 0
    for disk, world in crashes(proposed, *fresh()):
        work(5)
        before = disk.read(OUT / "exact.json"), disk.read(OUT / TABLE)
        whole = book_of(disk).commits.get(journal_id(disk)) is not None  # which asks for no records
        tolerant(disk, world)
        assert world.refused == ([] if before[0] is None or whole else ["D037"])
        if before[0] is not None:
            assert before == (disk.read(OUT / "exact.json"), disk.read(OUT / TABLE))
        refused += bool(world.refused)
        work(0)
    assert refused > 5


def test_a_table_of_another_arrow_is_kept_and_a_lost_one_made_again(toy, monkeypatch, tmp_path: Path):
    """An update between two attempts must not look like changed records, which would cost a second charge."""
    list_few(monkeypatch)
    context, disk, folder = toy.prepare().context, Disk(), tmp_path / "measurements"
    folder.mkdir()
    values = values_of(context)
    with monkeypatch.context() as patch:
        patch.setattr(exact_files, "codes_to_arrow", lambda codes: exact_files.pa.array(list(codes)))
        patch.setattr(exact_files.pq, "ParquetWriter", _plain(exact_files.pq.ParquetWriter))
        data = exact_bytes(context, values, folder, disk)
    (folder / "exact.json").write_bytes(data)
    before = files(folder)
    assert exact_bytes(context, values, folder, disk) == data
    assert files(folder) == before
    (folder / TABLE).write_bytes(
        exact_table(context, context.plan.invariants.exact[0], values_of(context)["population of the land"])
    )
    with pytest.raises(DataError, match="were changed"):
        exact_bytes(context, values, folder, disk)
    (folder / "exact.json").unlink()
    data = exact_bytes(context, values, folder, disk)
    (folder / "exact.json").write_bytes(data)
    before = files(folder)
    (folder / TABLE).unlink()
    assert exact_bytes(context, values, folder, disk) == data
    assert files(folder) == before


def _plain(writer):
    """Return a Parquet writer that packs nothing."""

    def make(*arguments, **options):
        return writer(*arguments, **options | {"compression": "none"})

    return make


def test_a_measurement_with_tables_goes_on_and_charges_once(toy, monkeypatch):
    """The second call of a whole measurement changes nothing, tables or not."""
    list_few(monkeypatch)
    prepared = toy.prepare()
    measure(prepared, toy.folder / "out")
    before = files(toy.folder / "out")
    assert f"measurements/{TABLE}" in before
    assert measure(prepared, toy.folder / "out").n_attempts == 1
    assert before == files(toy.folder / "out")
