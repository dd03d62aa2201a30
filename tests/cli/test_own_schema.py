"""`topdown init --codes`: a schema of one's own from a public list, never from records."""

import tomllib
from pathlib import Path

import pytest

from tests.helpers.country import LEVELS, write_country
from tests.helpers.folders import files
from topdown.plan import draft_files, load_schema, read_code_list

INIT = ("init", "--codes", "codes.csv", "--schema", "arvandia", "--levels", ",".join(LEVELS), "--no-count")
TABLES = ("--records", "people.csv", "--leaves", "places.csv")


def codes(path: Path, *rows: str, header: str = "attribute,label,recode,group") -> Path:
    """Write a list of codes."""
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def places(folder: Path) -> None:
    """Write the places of two settlements."""
    rows = ("settlement,region,district,municipality", "1,R,D,M", "2,R,D,M")
    (folder / "places.csv").write_text("\n".join(rows) + "\n")


def forget_ledgers(folder: Path) -> None:
    """Remove registries: a second draft for the same records makes no second ledger otherwise."""
    for registry in folder.glob("*.registry"):
        registry.unlink()


def test_no_label_or_level_comes_from_records(topdown, check, tmp_path):
    """A label that only records hold would tell the reader of a draft that somebody has it."""
    write_country(tmp_path, 300, 12, ages=20, nationalities=3)
    said = topdown(*INIT, *TABLES, "--out", "a/run.toml", "--json").ok()
    check(said.document)
    (tmp_path / "people.csv").write_text("settlement,sex,secret\n999,third,Zorn\n")
    forget_ledgers(tmp_path)
    assert topdown(*INIT, *TABLES, "--out", "b/run.toml").code == 0
    drafts = ("schema.toml", "invariants.toml", "settings.toml")
    assert {n: files(tmp_path / "a")[n] for n in drafts} == {n: files(tmp_path / "b")[n] for n in drafts}
    assert b"Zorn" not in b"".join(files(tmp_path / "b").values())
    same = (*INIT, "--records", "codes.csv", "--leaves", "places.csv")
    assert topdown(*same, "--out", "c/run.toml", "--json").refusal == "D065"
    (tmp_path / "link.csv").symlink_to("people.csv")
    linked = ("init", "--codes", "link.csv", "--levels", "land,town", *TABLES)
    assert topdown(*linked, "--out", "d/run.toml", "--json").refusal == "D065"
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "d").exists()


def test_a_draft_can_be_planned_as_it_is(topdown, tmp_path):
    """A draft that plan refuses leaves a newcomer with three files to repair."""
    write_country(tmp_path, 300, 12, ages=20, nationalities=3)
    said = topdown(*INIT, *TABLES, "--out", "run.toml", "--json")
    assert said.document["open_answers"] == ["release.title", "release.agency", "release.contact"]
    planned = topdown("plan", "run.toml", "--json").ok()
    assert list(LEVELS) == [level["level"] for level in planned.document["levels"]]
    (tmp_path / "settings.toml").write_text((tmp_path / "settings.toml").read_text().replace("1/5", "1/6"))
    again = topdown(*INIT, *TABLES, "--out", "other.toml")
    assert (again.code, "C080" in again.err, '-share = "1/6"' in again.out) == (2, True, True)
    (tmp_path / "settings.toml").write_text((tmp_path / "settings.toml").read_text().replace("1/6", "1/5"))
    assert not (tmp_path / "other.toml").exists()
    assert [at["targets"] for at in planned.document["estimates"]] == ["tree"] * 4 + ["own"]
    drafted = ("--schema", "schema.toml", "--settings", "settings.toml", "--levels", ",".join(LEVELS))
    topdown("init", *TABLES, *drafted, "--no-count", "--out", "second.toml").ok()
    assert topdown("plan", "second.toml").code == 0


def test_a_schema_file_goes_the_way_of_a_bundled_one(topdown, tmp_path):
    """A schema for which nobody wrote settings could be neither tried nor begun with."""
    codes(tmp_path / "codes.csv", "a,1,,", "a,2,,", "b,1,,", "b,2,,")
    places(tmp_path)
    assert topdown(*INIT, *TABLES, "--out", "x/run.toml").code == 0
    (tmp_path / "mine.toml").write_text((tmp_path / "x" / "schema.toml").read_text())
    assert topdown("synth", "--schema", "mine.toml", "--people", 300, "--out", "s").code == 0
    assert topdown("plan", "s/run.toml").code == 0
    topdown("synth", "--schema", "x/schema.toml", "--people", 300, "--out", "t", "--json").ok()
    assert not (tmp_path / "t" / "settings.toml").exists()
    assert topdown("plan", "t/run.toml").code == 0
    forget_ledgers(tmp_path)
    mine = ("init", "--schema", "mine.toml", *TABLES, "--levels", "country,region,settlement")
    drafted = topdown(*mine, "--out", "y/run.toml", "--json")
    forget_ledgers(tmp_path)
    assert drafted.document["drafted"] == ["y/invariants.toml", "y/settings.toml"]
    assert 'schema = "../mine.toml"' in (tmp_path / "y" / "run.toml").read_text()
    asked = ("init", "--schema", "x/schema.toml", *TABLES, "--levels", ",".join(LEVELS))
    found = topdown(*asked, "--out", "z/run.toml", "--json")
    assert found.document["drafted"] == []


def test_the_schema_is_what_the_list_says(tmp_path):
    """Labels in another order, or a group with another's labels, change every table."""
    path = codes(
        tmp_path / "c.csv",
        *('b,"say ""yes""",,', "a,2,half,low", "a,10,half,high", "b,no,,", "a,3,half,low", "a,2,odd,o"),
        *("a,10,odd,e", "a,3,odd,o"),
    )
    schema, _ = read_code_list(path, "mine")
    assert [(a.name, a.labels) for a in schema.attributes] == [
        ("b", ('say "yes"', "no")),
        ("a", ("2", "10", "3")),
    ]
    halves, odd = schema.attributes[1].recodes
    assert (halves.group_labels, halves.group_of) == (("low", "high"), (0, 1, 0))
    assert (odd.group_labels, odd.group_of) == (("o", "e"), (0, 1, 0))
    text = draft_files(schema, ("land", "town"), "a list").schema
    (tmp_path / "s.toml").write_text(text)
    assert schema.attributes == load_schema(tmp_path / "s.toml").attributes


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a,1,,", "a,1,,"], "there twice"),
        (["a,1,r,x", "a,2,r,", "a,3,r,y"], "given together"),
        (["a,1,r,x", "a,2,,", "a,3,r,y"], "has no group"),
        (["geocode,1,,"], "reserved"),
    ],
)
def test_wrong_lists_are_refused_by_name(topdown, tmp_path, rows, said):
    """A label that is lost without a word makes its people unknown to the schema."""
    codes(tmp_path / "codes.csv", *rows)
    places(tmp_path)
    refused = topdown(*INIT, *TABLES, "--out", "run.toml")
    assert (refused.code, said in " ".join(refused.err.split())) == (2, True), refused.err
    assert not list(tmp_path.glob("*.toml"))


def test_levels_are_named_by_people(topdown, tmp_path):
    """A level guessed from a table would be nobody's decision."""
    codes(tmp_path / "codes.csv", "a,1,,", "a,2,,")
    assert topdown("init", "--codes", "codes.csv", *TABLES, "--out", "run.toml", "--json").refusal == "C139"


def test_the_list_that_tables_write_is_read_back(topdown, release, tmp_path):
    """A published list that cannot be read back makes the next office type it again."""
    assert topdown("tables", release, "--by", "age", "--out", "t").code == 0
    found, _ = read_code_list(tmp_path / "t" / "codes.csv", "toy")
    expected = load_schema(Path(__file__).resolve().parents[2] / "schemas" / "toy.toml")
    assert expected.attributes == found.attributes


def test_budget_goes_to_what_tells_records_apart(tmp_path):
    """An attribute of one label is the total once more: what is spent on it tells nothing."""
    for rows, expected in (
        (("a,1,,", "b,1,,", "b,2,,"), {"total": "1/2", "detailed": "1/2"}),
        (("a,1,,", "b,1,,", "b,2,,", "c,1,,", "c,2,,"),
         {"total": "1/4", "b": "1/8", "c": "1/8", "detailed": "1/2"}),
    ):  # fmt: skip
        schema, _ = read_code_list(codes(tmp_path / "c.csv", *rows), "mine")
        settings = tomllib.loads(draft_files(schema, ("land", "town"), "a list").settings)
        assert [expected] * 2 == [level["queries"] for level in settings["level"]]


def test_rounding_goes_through_nested_recodes_only(topdown, tmp_path):
    """A chain with groups that cross is refused by plan, or costs an integer program at every area."""
    rows = [f"age,{i},{name},{group}" for i in range(8) for name, group in
            (("halves", i // 4), ("pairs", i // 2), ("odd", i % 2), ("all", 0), ("same", i))]  # fmt: skip
    codes(tmp_path / "codes.csv", *rows, "sex,f,,", "sex,m,,")
    places(tmp_path)
    assert topdown(*INIT, *TABLES, "--out", "run.toml").code == 0
    text = (tmp_path / "settings.toml").read_text()
    tables = [line.split('"')[1] for line in text.split("[[level]]")[1].splitlines() if "weight" in line]
    assert tables == ["total", "sex", "sex * halves", "sex * pairs", "detailed"]


def test_more_numbers_than_people_are_named_with_what_makes_fewer(topdown, tmp_path):
    """Ten minutes and seven gigabytes of noise say nothing of which attribute makes them."""
    write_country(tmp_path, 300, 12, ages=20, nationalities=3)
    assert topdown(*INIT, *TABLES, "--out", "run.toml").code == 0
    text = (tmp_path / "run.toml").read_text().replace("# people =", "people = 300")
    (tmp_path / "run.toml").write_text(text)
    (said,) = [w for w in topdown("plan", "run.toml", "--json").document["warnings"] if w["code"] == "C339"]
    assert "detailed at level settlement makes 5,760" in said["text"]
    (tmp_path / "fewer.toml").write_text(text.replace("people = 300", "people = 0"))
    other = topdown("plan", "fewer.toml", "--json")
    assert said in other.document["warnings"], "a plan would say how many people there are"
    fewer = "sex * age_group * marital * nationality"
    assert f"{fewer} {12 * 2 * 2 * 4 * 3:,}" in said["text"]
    head, mark, last = text.rpartition("detailed = ")
    assert "Intervals need every cell of level settlement" in said["text"]
    head = head.replace("coverage = ", "# coverage = ")
    (tmp_path / "run.toml").write_text(f'{head}"{fewer}" = {last}')
    planned = topdown("plan", "run.toml", "--json").ok()
    assert mark
    assert said["text"] not in {w["text"] for w in planned.document["warnings"]}


def test_bundled_invariants_without_a_level_of_the_geography_are_left_out(topdown, tmp_path):
    """A county met a refusal because the bundled file keeps the total of its state exact."""
    assert topdown("synth", "--out", "made", "--people", 300).code == 0
    for name in ("persons.csv.gz", "blocks.csv.gz"):
        (tmp_path / name).write_bytes((tmp_path / "made" / name).read_bytes())
    levels = ("--settings", "pl94_2020", "--levels", "county,tract,block_group,block")
    said = topdown(
        "init", "--records", "persons.csv.gz", "--leaves", "blocks.csv.gz", *levels, "--out", "run.toml"
    ).ok()
    assert "lacks their level: state population" in " ".join(said.out.split())
    planned = topdown("plan", "run.toml", "--json").ok()
    assert "state population" not in {rule["name"] for rule in planned.document["invariants"]}
    assert "no household people without housing units" in {
        rule["name"] for rule in planned.document["invariants"]
    }
