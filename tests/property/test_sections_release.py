"""Whole releases in sections: all that reads a release says the same of one cut into parts as of one that is not."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import topdown
from tests.helpers.extension import make_land
from tests.helpers.folders import files
from tests.helpers.interval_census import release
from tests.helpers.sections import cut_small
from tests.helpers.small_release import edit_table, reseal
from topdown.app import RunOptions, generate_release, interval, tables, verify_and_solve
from topdown.measure import read_microdata
from topdown.plan import load_context, prepare
from topdown.practice import open_truth
from topdown.verify import verify

pytestmark = pytest.mark.slow


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
