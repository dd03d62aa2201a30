"""Releases in sections: writer and verifier cut alike, all readers say the same, slices cost little."""

import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import topdown
from tests.helpers.extension import make_land
from tests.helpers.folders import files
from tests.helpers.interval_census import release
from tests.helpers.ledgers import with_ledger
from tests.helpers.sections import cut_small
from tests.helpers.small_release import edit_table, reseal
from topdown.app import RunOptions, generate_release, interval, tables, verify_and_solve
from topdown.app.pipeline import measure_release
from topdown.formats import InvariantRules
from topdown.measure import read_microdata
from topdown.model import Geography, Level, sections_of
from topdown.plan import load_context, prepare
from topdown.practice import open_truth
from topdown.practice.synth import synth
from topdown.solve import (
    MeasurementParts,
    Tally,
    checkpoint_spans,
    make_partitioner,
    node_runs,
    open_release,
    unpack_nodes,
)
from topdown.solve import solve_stage as solve
from topdown.verify import Facts, Rules, Tree, bounds_by_level, file_sections, verify
from topdown.workers import LocalWorker


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a release with intervals whole, and publish the same measurements in sections."""
    folder = tmp_path_factory.mktemp("both")
    release(folder)
    shutil.copytree(folder / "release", folder / "whole")
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        generate_release(prepare(folder / "run.toml"), folder / "release", RunOptions(csv=True, workers=2))
    return folder / "whole", folder / "release"


@pytest.mark.slow
def test_all_readers_say_the_same(
    both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that takes the first part for the whole would lose most of a nation, and say nothing."""
    whole, parted = both
    cut_small(monkeypatch)
    parts = sorted(path.name for path in (parted / "microdata" / "persons").iterdir())
    assert len(parts) >= 3
    one, cut = topdown.Release(whole), topdown.Release(parted)
    assert one.microdata().equals(cut.microdata())
    for query in one.tables:
        for level in one.levels:
            assert one.table(query, level).equals(cut.table(query, level)), (query, level)
    records = parted.parent / "records.csv"
    assert topdown.evaluate(whole, records) == topdown.evaluate(parted, records)
    for of, out in ((whole, "a"), (parted, "b")):
        tables(of, tmp_path / out, by=["sex, age"])
    assert files(tmp_path / "a") == files(tmp_path / "b")
    level = one.levels[1]
    areas = tmp_path / "areas.csv"
    areas.write_text("geocode\n" + "\n".join(one.table("total", level)["geocode"]) + "\n", encoding="utf-8")
    assert interval(whole, areas, "age") == interval(parted, areas, "age")
    assert [f.text for check in verify_and_solve(parted).checks for f in check.findings] == []
    truth = open_truth(parted, load_context(parted), "it was published in a test of a made-up land")[1]
    assert truth.leaves.n_records == cut.microdata()["count"].sum()


@pytest.mark.slow
def test_an_interval_in_a_part_is_recomputed(
    both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intervals of leaves use areas above the cut: they must be found wrong in the last part as well."""
    cut_small(monkeypatch)
    copy = tmp_path / "copy"
    shutil.copytree(both[1], copy)
    last = sorted((copy / "tables" / "detailed" / "block").iterdir())[-1]
    edit_table(last, lambda rows: rows[-1].update(high=rows[-1]["high"] + 1))
    reseal(copy)
    found = verify(copy).check("intervals").findings
    assert {"V113"} == {f.code for f in found}


@pytest.mark.slow
def test_an_extension_keeps_a_base_in_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is carried of the base must be all of it, and each part where it belongs."""
    cut_small(monkeypatch)
    land = make_land(tmp_path, 3, n_blocks=7)
    out = land.folder / "more"
    generate_release(prepare(land.run, land.base), out, base=land.base)
    parts = sorted((out / "base" / "persons").iterdir())
    assert len(parts) > 1
    assert [path.read_bytes() for path in parts] == [
        path.read_bytes() for path in sorted((land.base / "microdata" / "persons").iterdir())
    ]
    context, base = load_context(out), load_context(land.base)
    plain = read_microdata(land.base / "microdata" / "persons.parquet", base)
    more = read_microdata(out / "microdata" / "persons.parquet", context)
    kept = type(plain).build(
        plain.n_nodes, plain.n_cells, more.node, context.support.of_cell[more.cell], more.count
    )
    np.testing.assert_array_equal(plain.count, kept.count)
    assert verify(out).ok
    first, second = parts[0].read_bytes(), parts[1].read_bytes()
    parts[0].write_bytes(second)
    parts[1].write_bytes(first)
    reseal(out)
    assert "base" in {check.name for check in verify(out).checks if not check.ok}
    parts[0].write_bytes(first)
    parts[1].unlink()
    reseal(out)
    assert {"manifest", "base"} <= {check.name for check in verify(out).checks if not check.ok}


def _random_tree(rng: np.random.Generator) -> Geography:
    """Return a tree of 1 to 5 levels, some of whose nodes have many children."""
    levels, n_above = [Level("l0", ("0",), np.zeros(1, dtype=np.int64))], 1
    for depth in range(1, int(rng.integers(1, 6))):
        children = rng.integers(1, rng.choice([2, 4, 12]), n_above)
        parent = np.repeat(np.arange(n_above), children)
        n_above = len(parent)
        levels.append(Level(f"l{depth}", tuple(f"{depth}-{i:05d}" for i in range(n_above)), parent))
    return Geography(tuple(levels))


@pytest.mark.parametrize("seed", range(4))
def test_writer_and_verifier_cut_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section that ends elsewhere for one of them would make every large release fail, or hide a moved part."""
    rng = np.random.default_rng(seed)
    n_cut = 0
    for _ in range(50):
        geography = _random_tree(rng)
        cut_small(monkeypatch, int(rng.integers(1, 9)), n_section := int(rng.integers(1, 30)))
        tree = Tree(
            geography.level_names,
            tuple(pa.array(list(level.codes), pa.string()) for level in geography.levels),
            tuple(level.parent for level in geography.levels),
            Facts({}),
        )
        ours, theirs = sections_of(geography), file_sections(tree)
        assert (ours.cut, len(ours)) == (theirs.level, theirs.n_sections)
        assert [list(at) for at in ours.first] == [at.tolist() for at in theirs.first]
        sizes = np.diff(ours.first[-1])
        assert sizes.sum() == len(geography.leaves)
        assert (sizes[:-1] >= n_section).all()
        held = rng.integers(0, 9, tree.n_leaves)
        for above, added in zip(tree.ancestors, tree.sums(held), strict=True):
            assert np.bincount(above, held).tolist() == added.tolist()
        if len(ours) > 1:
            n_cut += 1
            assert 0 < ours.cut < len(geography.levels) - 1
            assert ours.paths("t/x.parquet", ours.cut - 1) == ["t/x.parquet"]
            assert ours.paths("t/x.parquet", ours.cut) == theirs.paths("t/x.parquet", ours.cut)
    assert n_cut > 5


def test_facts_in_few_bytes_are_added_up_in_eight() -> None:
    """A bound of a nation that wraps around at 255 would be met by anybody."""
    codes = tuple(pa.array(texts, pa.string()) for texts in (["0"], ["00", "01"]))
    parents = (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64))
    tree = Tree(("land", "block"), codes, parents, Facts({"homes": np.array([200, 100], dtype=np.uint8)}))
    stated = {"name": "homes", "cells": [], "basis": {"legal_basis": "law", "decided_by": "", "date": ""}}
    least, zero = stated | {"column": "homes", "per": 2}, stated | {"columns": ["homes", "homes"]}
    kinds = {"exact": [], "at_least": [least], "none_where_zero": [zero], "never": []}
    head = dict.fromkeys(("name", "title", "schema", "source"), "toy")
    rules = Rules.of_plan(msgspec.convert(head | kinds, InvariantRules))
    bounds = bounds_by_level(tree, rules.bounds[0])
    assert bounds is not None
    assert [at.tolist() for at in bounds] == [[600], [400, 200]]
    assert tree.facts.at(slice(1, 2))["homes"].tolist() == [100]
    closed = rules.closing[0].closed(tree.facts, tree.n_leaves)
    assert closed.tolist() == [False, False]


MOST_CALLS = 700  # of functions, to open a slice: a twentieth of what its families took one by one


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how many parts are opened and row groups read; both count again from nothing when cleared."""
    counted = Counter[str]()
    for name in ("_part", "_read"):
        monkeypatch.setattr(MeasurementParts, name, _counting(getattr(MeasurementParts, name), counted, name))
    return counted


def _counting(function: Callable[..., Any], counted: Counter[str], name: str) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        counted[name] += 1
        return function(*args)

    return called


def _calls(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return what some work returns, and how many functions it called: its cost, the same on every machine."""
    n = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal n
        n += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return found, n


@pytest.mark.slow
def test_slices_cost_little(tmp_path: Path, read: Counter[str]) -> None:
    """A worker that opens every file for every slice, or derives again what all share, spends its time on that."""
    prepared = prepare(with_ledger(synth(tmp_path, people=200_000, seed=5).run_file))
    release = tmp_path / "release"
    measure_release(prepared, release)
    walk = open_release(release, load_context(release))
    cutter, geography = make_partitioner(walk), walk.context.geography
    cut, run_leaves = solve.choose_cut(geography, 1)
    rows = solve._solve_above(cutter, LocalWorker(cutter.state), cut, 1, lambda _: None).rows
    read.clear()
    walk.below(cut, unpack_nodes(rows), Tally())
    at_once = dict(read)
    read.clear()
    opener, own, n_runs = pickle.loads(pickle.dumps(cutter.state)), 0, 0  # noqa: S301 -- our own
    for run in node_runs(geography, checkpoint_spans(geography, cut)[0], run_leaves, rows):

        def opened(run: Any = run) -> tuple[Any, Any]:
            part, firsts = cutter.cut(cut, run.span.first, run.span.last)
            sent = pickle.loads(pickle.dumps((part, solve.renumbered(unpack_nodes(run.rows), -firsts[cut]))))  # noqa: S301
            return opener.open(sent[0])[0], sent[1]

        (alone, nodes), n_opening = _calls(opened)
        alone.below(cut, nodes, Tally())
        own, n_runs = own + n_opening, n_runs + 1
    assert n_runs > 2
    assert dict(read) == at_once
    assert own <= MOST_CALLS * n_runs, (own, n_runs)
