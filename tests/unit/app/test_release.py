"""`Release`: what it reads is what the files say."""

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
    ("query", "level", "code", "named"),
    [("income", "block", "C024", "age"), ("total", "moon", "C181", "block")],
)
def test_an_unknown_table_names_those_there_are(town, query, level, code, named):
    """An error that does not say what there is sends people to the source, or to a path of their own making."""
    with pytest.raises(topdown.TopdownError) as refused:
        topdown.Release(town.release).table(query, level)
    assert (refused.value.code, named in refused.value.fix) == (code, True)


def test_any_table_is_counted_from_the_records(town):
    """A table that a reader needs and nobody published was refused, though the command line makes it."""
    release, query = topdown.Release(town.release), "dwelling * age"
    assert query not in release.tables
    records, leaves = release.microdata(), release.levels[-1]
    by_hand = records.groupby(["geocode", "dwelling", "age"], observed=True)["count"].sum()
    found = release.table(query, leaves)
    assert by_hand.to_dict() == found.set_index(["geocode", "dwelling", "age"])["count"].to_dict()
    for level in release.levels:
        assert release.table(query, level)["count"].sum() == 400


def test_noisy_answers_are_those_of_the_files(town):
    """An answer under another label, or of another area, is another measurement."""
    release = topdown.Release(town.release)
    level = release.levels[-1]
    stored = pq.read_table(town.release / "measurements" / level / "part-000.parquet").to_pylist()
    for query in {m.query for m in release.plan.level(level).measurements}:
        found = release.measurements(query, level)
        for code in found["geocode"].unique()[:3]:
            (row,) = [at for at in stored if (at["node"], at["query"]) == (code, query)]
            assert row["answers"] == found[found["geocode"] == code]["noisy"].tolist()
    with pytest.raises(topdown.TopdownError) as refused:
        release.measurements("income", level)
    assert refused.value.code == "C181"


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
