"""`topdown tables`: what people open in other programs, against the release it comes from."""

import csv
import json
import shutil
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.folders import files
from tests.helpers.interval_census import release
from topdown.app import tables
from topdown.publish import Sheet, SheetColumn, free_names, write_sheet


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release with intervals, once."""
    return Path(release(tmp_path_factory.mktemp("tables")).release)


@pytest.fixture(scope="module")
def written(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write all its tables, once."""
    out = tmp_path_factory.mktemp("written") / "t"
    tables(made, out)
    return out


def rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def people(made: Path) -> list[dict]:
    """Read the microdata without the product."""
    return pq.read_table(made / "microdata" / "persons.parquet").to_pylist()


def test_tables_come_from_the_microdata_and_list_every_area(topdown, check, made, tmp_path):
    """A recode that was not measured, or an area without people, was missing from every table."""
    before = files(made)
    said = topdown("tables", made, "--out", "t", "--json").ok()
    check(said.document)
    assert before == files(made)  # the release is read only
    leaves = pq.read_table(made / "public" / "leaves.parquet")["geocode"].to_pylist()
    level = json.loads((made / "plan.json").read_text())["levels"][-1]["name"]
    total = rows(tmp_path / "t" / "tables" / "total" / f"{level}.csv")
    counted = Counter()
    for row in people(made):
        counted[row["geocode"]] += row["count"]
    assert {code: counted[code] for code in leaves} == {r["geocode"]: int(r["count"]) for r in total}
    schema = json.loads((made / "plan.json").read_text())["schema"]
    names = {a["name"] for a in schema["attributes"]} | {
        r["name"] for a in schema["attributes"] for r in a["recodes"]
    }
    assert names | {"total"} == {t["query"] for t in said.document["tables"]}
    for name in names:
        table = rows(tmp_path / "t" / "tables" / name / f"{level}.csv")
        assert sum(counted.values()) == sum(int(r["count"]) for r in table)


def test_intervals_are_those_of_the_release(made, written):
    """Two intervals for one number, one published and one in a table, would each deny the other."""
    for published in sorted((made / "tables" / "age").glob("*.parquet")):
        theirs = pq.read_table(published).to_pylist()
        ours = rows(written / "tables" / "age" / f"{published.stem}.csv")
        assert theirs == [
            {name: type(value)(our[name]) for name, value in their.items()}
            for their, our in zip(theirs, ours, strict=True)
        ]


def test_wide_tables_hold_the_same_numbers_and_kinds_for_maps(topdown, made, tmp_path):
    """A map would be drawn from a number that no other table has, or from geocodes without their zeros."""
    assert topdown("tables", made, "--by", "sex,age", "--out", "t").code == 0
    for path in sorted((tmp_path / "t" / "wide" / "sex_by_age").glob("*.csv")):
        long = rows(tmp_path / "t" / "tables" / "sex_by_age" / path.name)
        expected = Counter()
        for r in long:
            for measure, end in (("count", ""), ("low", "_low"), ("high", "_high")):
                expected[r["geocode"], f"{r['sex']}_{r['age']}{end}"] += int(r[measure])
        wide = rows(path)
        found = Counter(
            {(r["geocode"], k): int(v) for r in wide for k, v in r.items() if k not in ("geocode", "level")}
        )
        assert +expected == +found
        kinds = path.with_suffix(".csvt").read_text().strip().split(",")
        assert ['"String"', '"String"'] + ['"Integer64"'] * (len(wide[0]) - 2) == kinds


def test_description_fits_the_files(written):
    """A description that names a column or hash the file lacks sends programs and readers astray."""
    top = written
    package = json.loads((top / "datapackage.json").read_text())
    assert "one number chosen beforehand" in package["description"]
    assert "not for use as official statistics" in package["description"]
    described = {(r["file"], r["column"]) for r in rows(top / "dictionary.csv")}
    paths = {path.relative_to(top).as_posix() for path in top.rglob("*.csv")}
    assert paths == {r["path"] for r in package["resources"]}
    for resource in package["resources"]:
        data = (top / resource["path"]).read_bytes()
        assert f"sha256:{sha256(data).hexdigest()}" == resource["hash"]
        header = next(csv.reader(data.decode().splitlines()))
        fields = resource["schema"]["fields"]
        assert header == [field["name"] for field in fields]
        found = rows(top / resource["path"])
        for field in fields:
            allowed = field.get("constraints", {}).get("enum")
            assert allowed is None or {r[field["name"]] for r in found} <= set(allowed)
        keys = [tuple(r[k] for k in resource["schema"]["primaryKey"]) for r in found]
        assert len(keys) == len(set(keys)), resource["path"]
        if "/" in resource["path"]:
            assert {(resource["path"], name) for name in header} <= described


def test_codes_put_every_label_into_its_groups(made, written):
    """A reader who adds up groups by a wrong list gets wrong groups."""
    expected = set()
    for a in json.loads((made / "plan.json").read_text())["schema"]["attributes"]:
        for i, label in enumerate(a["labels"]):
            groups = {(r["name"], r["group_labels"][r["group_of"][i]]) for r in a["recodes"]} or {("", "")}
            expected |= {(a["name"], label, *group) for group in groups}
    assert expected == {tuple(r.values()) for r in rows(written / "codes.csv")}


def test_districts_are_those_of_the_interval_command(topdown, made, tmp_path):
    """A union added up from its parts' intervals would promise what nobody computed."""
    leaves = pq.read_table(made / "public" / "leaves.parquet")["geocode"].to_pylist()
    lines = [f"{code},{'north' if i % 2 else 'south'}" for i, code in enumerate(leaves)]
    Path("d.csv").write_text("geocode,area\n" + "\n".join(lines) + "\n")
    told = topdown("interval", made, "--areas", "d.csv", "--query", "age", "--json").document
    said = topdown("tables", made, "--areas", "d.csv", "--by", "age", "--out", "t", "--json").ok()
    assert told["meaning"] == said.document["meaning"]
    expected = [
        (u["area"], a["labels"]["age"], a["count"], a["estimate"], a["low"], a["high"])
        for u in told["unions"]
        for a in u["answers"]
    ]
    found = [
        (r["area"], r["age"], int(r["count"]), float(r["estimate"]), int(r["low"]), int(r["high"]))
        for r in rows(tmp_path / "t" / "areas" / "age.csv")
    ]
    assert expected == found
    assert not (tmp_path / "t" / "tables").exists()


@pytest.mark.parametrize("command", ["interval", "tables"])
@pytest.mark.parametrize("header", ["geocode,zone", "code,area"])
def test_a_wrong_list_of_areas_is_mended_in_the_list(topdown, made, tmp_path, command, header):
    """Advice about a run file or other invariants mends no list of areas."""
    (tmp_path / "d.csv").write_text(f"{header}\n11,a\n")
    wanted = ("--query", "total") if command == "interval" else ("--out", "t")
    said = topdown(command, made, "--areas", "d.csv", *wanted, "--json").document
    assert (said["code"], "rename" in said["fix"]) == (
        "D004" if "code" in header.split(",") else "D040",
        True,
    )
    assert "run file" not in said["fix"] + said["text"]
    assert "invariants" not in said["fix"]


def test_names_stand_beside_their_areas(topdown, made, tmp_path):
    """A name beside another area, or a list of which nothing fits and nobody says so, misleads a reader."""
    leaves = pq.read_table(made / "public" / "leaves.parquet")["geocode"].to_pylist()
    level = json.loads((made / "plan.json").read_text())["levels"][-1]["name"]
    Path("n.csv").write_text(f'size,geocode,name\n1,{leaves[2]},"Saint, A"\n2,elsewhere,Atlantis\n')
    assert topdown("tables", made, "--by", "age", "--names", "n.csv", "--out", "t").code == 0
    table = rows(tmp_path / "t" / "tables" / "total" / f"{level}.csv")
    assert {(leaves[2], "Saint, A")} == {(r["geocode"], r["name"]) for r in table if r["name"]}
    Path("n.csv").write_text(f"{level},name\n{leaves[2]},A\n")
    assert topdown("tables", made, "--names", "n.csv", "--out", "v", "--json").document["n_named"] == 1
    for text, said in (("elsewhere,Atlantis", "no area"), (f"{leaves[0]},A\n{leaves[0]},B", "two names")):
        Path("n.csv").write_text(f"geocode,name\n{text}\n")
        refused = topdown("tables", made, "--names", "n.csv", "--out", "u")
        assert (refused.code, said in " ".join(refused.err.split())) == (2, True), refused.err


def test_what_is_wrong_is_refused_and_nothing_written(topdown, made, tmp_path):
    """A misspelt table or level that is skipped, or files put among others, go unnoticed."""
    for arguments, code in (
        (("--by", "shoe"), "C024"),
        (("--level", "street"), "C181"),
        (("--coverage", "1"), "C210"),
    ):
        assert topdown("tables", made, *arguments, "--out", "t", "--json").refusal == code
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "C085" in topdown("tables", made, "--out", "full").err
    assert "C132" in topdown("tables", made, "--out", made / "tables" / "more").err
    assert "C088" in topdown("tables", tmp_path / "full", "--out", "t").err
    assert not (tmp_path / "t").exists()


def test_records_where_public_facts_allow_none_are_refused(topdown, made, tmp_path):
    """A damaged release that nobody verified would lose people, or show them in another group."""
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    path = copy / "microdata" / "persons.parquet"
    table = pq.read_table(path).to_pylist()
    pq.write_table(pa.Table.from_pylist([row | {"dwelling": "barracks"} for row in table]), path)
    (tmp_path / "d.csv").write_text("geocode\n1\n")
    for arguments in (
        ("tables", copy, "--out", "t"),
        ("interval", copy, "--areas", "d.csv", "--query", "age"),
    ):
        said = topdown(*arguments, "--json")
        assert (said.code, said.document["code"]) == (1, "V090")


def test_a_release_without_intervals_promises_none(topdown, release, tmp_path):
    """An interval that nobody asked for has no chance stated anywhere."""
    said = topdown("tables", release, "--out", "t", "--json")
    assert (said.code, said.document["coverage"], said.document["meaning"]) == (0, None, "")
    for path in (tmp_path / "t").rglob("*.csv"):
        assert not {"low", "high", "stddev"} & set(path.read_text().splitlines()[0].split('"'))


def test_long_tables_come_in_parts_and_names_never_meet(tmp_path):
    """A spreadsheet drops rows after its millionth without a word; two columns of one name are one to programs."""
    sheet = Sheet("a/b", "", (SheetColumn("n", "integer", ""),), (pa.array(range(7)),), ("n",), "")
    parts = write_sheet(tmp_path, sheet, most_rows=3)
    assert [part.path for part in parts] == ["a/b.part1.csv", "a/b.part2.csv", "a/b.part3.csv"]
    found = [r["n"] for part in parts for r in rows(tmp_path / part.path)]
    assert [str(n) for n in range(7)] == found
    assert free_names(["name", "x", "X"], ["Name"]) == ("name_2", "x", "X_2")


def test_tables_that_were_stopped_are_written_by_the_same_command(made, tmp_path, monkeypatch):
    """Half a folder of tables looked like all of them, and the same command refused to write there."""
    out, written_so_far = tmp_path / "t", []

    def stop(sheet, part):
        written_so_far.extend(tmp_path.rglob("*.csv"))
        raise KeyboardInterrupt

    monkeypatch.setattr("topdown.publish.sheets._resource", stop)
    with pytest.raises(KeyboardInterrupt):
        tables(made, out)
    assert written_so_far
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    left = tmp_path / ".t.unfinished"  # as SIGKILL would leave it
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "x.csv").write_text("half")
    assert tables(made, out).n_files > 1
    assert [out] == list(tmp_path.iterdir())
