"""`Release`: what it reads is what the files say."""

from __future__ import annotations

import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest

import topdown


def test_tables_are_the_files(town):
    """A table that differs from the published file would be another release."""
    release = topdown.Release(town.release)
    files = {str(p.relative_to(town.release / "tables")) for p in town.release.glob("tables/*/*.parquet")}
    assert len(files) == len(release.tables) * len(release.levels) > 6
    for query in release.tables:
        folder = query.replace(" * ", "_by_")
        for level in release.levels:
            path = town.release / "tables" / folder / f"{level}.parquet"
            table = release.table(query, level)
            pd.testing.assert_frame_equal(pd.read_parquet(path), table)
            assert pq.read_table(path).equals(release.arrow(query, level))
            assert table["count"].sum() == 400


def test_records_plan_and_certificate_are_the_files(town):
    """The records must be those of the microdata, the plan the one that was paid for."""
    release = topdown.Release(str(town.release))
    records = release.microdata()
    pd.testing.assert_frame_equal(pd.read_parquet(town.release / "microdata" / "persons.parquet"), records)
    assert 400 == records["count"].sum() == town.made.n_records
    assert topdown.plan(town.run).plan_hash == release.plan.plan_hash
    assert release.certificate["plan_hash"] == release.plan.plan_hash
    assert [level.name for level in release.plan.levels] == list(release.levels)


@pytest.mark.parametrize(
    ("query", "level", "named"), [("income", "block", "total"), ("total", "moon", "block")]
)
def test_an_unknown_table_names_those_there_are(town, query, level, named):
    """An error that does not say what there is sends people to the source, or to a path of their own making."""
    with pytest.raises(topdown.TopdownError) as refused:
        topdown.Release(town.release).table(query, level)
    assert (refused.value.code, named in refused.value.fix) == ("C181", True)


def test_what_is_no_finished_release_is_refused(town, tmp_path):
    """Half a release read as a whole one would be published."""
    for folder in (tmp_path / "nothing", tmp_path):
        with pytest.raises(topdown.TopdownError) as refused:
            topdown.Release(folder)
        assert refused.value.code == "C088"
    half = shutil.copytree(town.release, tmp_path / "half")
    (half / "manifest.json").unlink()
    with pytest.raises(topdown.TopdownError, match="not a finished release"):
        topdown.Release(half)


@pytest.mark.parametrize(
    "name", ["tables/total/block.parquet", "microdata/persons.parquet", "certificate.json"]
)
@pytest.mark.parametrize("gone", [True, False])
def test_a_damaged_file_is_named(town, tmp_path, name, gone):
    """A traceback of a library would not say which file to get again."""
    broken = shutil.copytree(town.release, tmp_path / "broken")
    release = topdown.Release(broken)
    (broken / name).unlink()
    if not gone:
        (broken / name).write_bytes(b"PAR1 no more")
    with pytest.raises(topdown.TopdownError) as refused:
        _ = {
            "tables": lambda: release.table("total", "block"),
            "microdata": release.microdata,
            "certificate.json": lambda: release.certificate,
        }[name.split("/")[0]]()
    assert ("V090", str(broken / name)) == (refused.value.code, refused.value.file)
