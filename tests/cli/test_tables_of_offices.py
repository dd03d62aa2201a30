"""Input in the shapes that offices have: codes that do not nest, other column names, separators, integers."""

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import write_toy
from tests.helpers.failing import fails_with
from tests.helpers.ledgers import with_ledger
from topdown.errors import DataError
from topdown.inputs import separator_of
from topdown.model import from_columns
from topdown.plan import prepare

PLACES = """settlement,county,region,homes,dormitories,barracks
7,south,A,9,0,1
12,south,A,9,1,0
105,south,A,0,0,0
3,north,B,9,0,1
44,north,B,9,1,0
"""
PEOPLE = """settlement,dwelling,sex,age
7,home,female,18_64
12,dormitory,male,0_17
12,dormitory,male,0_17
44,dormitory,female,65_plus
44,dormitory,female,65_plus
3,barracks,male,18_64
7,barracks,male,18_64
"""


def office(folder: Path, *, records: str = "people.csv", leaves: str = "places.csv") -> Path:
    """Write tables as an office has them, and the run file that reads them; return the run file."""
    folder.mkdir(exist_ok=True)
    (folder / "people.csv").write_text(PEOPLE)
    (folder / "places.csv").write_text(PLACES)
    text = write_toy(folder / "usual").read_text()
    head, _, rest = text.partition("[input]")
    _, _, ledger = rest.partition("[ledger]")
    ledger = ledger[ledger.index("\n") :]
    run = folder / "run.toml"
    run.write_text(
        f"""{head}[input]
records = "{records}"
leaves = "{leaves}"
count = false
ignore = ["region"]
columns = {{ geocode = "settlement" }}

[geography]
levels = ["land", "county", "block"]
columns = ["county"]

[ledger]
path = "ledger.jsonl"
rho_limit = "20"
{ledger[ledger.index("[budget]") :]}"""
    )
    return with_ledger(run)


def test_codes_of_any_length_go_to_a_verified_release(topdown, tmp_path):
    """An office whose codes do not nest, or are whole numbers, or whose key has another name, could release nothing."""
    run = office(tmp_path / "o", records="people.parquet")
    pq.write_table(pa_csv.read_csv(tmp_path / "o" / "people.csv"), tmp_path / "o" / "people.parquet")
    geography = prepare(run).context.geography
    assert list(geography.level_names) == ["land", "county", "block"]
    assert [level.codes for level in geography.levels] == [
        ("land",),
        ("north", "south"),
        ("3", "44", "105", "12", "7"),
    ]
    made = topdown("generate", run, "--out", "r", "--yes", "--workers", "1", "--json").ok()
    assert made.document["n_records"] == 7
    assert topdown("verify", "r").code == 0
    truth = ("evaluate", "r", "--truth", run.parent / "people.csv", "--no-count")
    assert topdown(*truth, "--column", "geocode=settlement").code == 0
    assert (topdown(*truth).code, topdown(*truth, "--column", "geocode").code) == (2, 2)


def test_other_shapes_are_the_same_tables(tmp_path):
    """A table of other separators, packed, or with integers must be read as the same table or be refused."""
    expected = prepare(office(tmp_path / "o")).context.plan.public_sha256
    folder = tmp_path / "o"
    rows = list(csv.reader(io.StringIO(PLACES)))
    for name, separator in (("semicolon.csv", ";"), ("tab.csv", "\t")):
        (folder / name).write_text("\ufeff" + "\n".join(separator.join(row) for row in rows) + "\n")
    table = pa_csv.read_csv(folder / "places.csv")
    assert pa.types.is_integer(table["settlement"].type)
    pq.write_table(table, folder / "integers.parquet")
    with pa.CompressedOutputStream(str(folder / "packed.csv.zst"), "zstd") as file:
        file.write(PLACES.encode())
    for name in ("semicolon.csv", "tab.csv", "integers.parquet", "packed.csv.zst"):
        assert expected == prepare(office(folder, leaves=name)).context.plan.public_sha256, name


def test_integers_that_may_have_lost_their_zeros_are_refused(topdown, tmp_path):
    """The number 7 in records may be settlement 07 or 7: people in a wrong place."""
    folder = tmp_path / "o"
    office(folder)
    pq.write_table(pa_csv.read_csv(folder / "people.csv"), folder / "people.parquet")
    (folder / "places.csv").write_text(PLACES.replace("\n7,", "\n07,"))
    next(folder.glob("*.registry")).unlink()  # of the CSV file of the same people
    lost = office(folder / "again", records="../people.parquet", leaves="../places.csv")
    assert topdown("generate", lost, "--out", "s", "--yes", "--json").refusal == "D024"


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda t: t.replace('columns = ["county"]', 'columns = ["county", "region", "x"]'), "C041"),
        (lambda t: t.replace('columns = ["county"]', 'columns = ["parish"]'), "D004"),
        (
            lambda t: t.replace('columns = ["county"]', 'columns = ["county"]\nprefix_lengths = [0, 1, 2]'),
            "C040",
        ),
        (lambda t: t.replace("geocode =", "geocod ="), "C138"),
        (lambda t: t.replace('"settlement" }', '"settlement", homes = "settlement" }'), "C138"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_read(topdown, tmp_path, edit, code):
    """A misspelt column that is passed over would leave out a level, or read another column."""
    run = office(tmp_path / "o")
    run.write_text(edit(run.read_text()))
    assert topdown("plan", run, "--json").refusal == code


def test_an_area_in_two_others_is_refused_or_joined():
    """One wrong row would split a district in two, and each half would be published as a district."""
    regions, districts, leaves = ["1", "1", "2"], ["7", "8", "7"], ["a", "b", "c"]
    with fails_with("D019", DataError, match="lies in '1' and in '2'"):
        from_columns(("land", "region", "district", "leaf"), [regions, districts], leaves)
    joined = [f"{r}-{d}" for r, d in zip(regions, districts, strict=True)]
    tree = from_columns(("land", "region", "district", "leaf"), [regions, joined], leaves)
    assert tree.levels[2].codes == ("1-7", "1-8", "2-7")


def test_codes_of_two_levels_stay_apart_and_a_root_may_have_a_column():
    """A region that shares its code with a settlement would be listed as that settlement."""
    tree = from_columns(("land", "region", "leaf"), [["x", "x"], ["1", "2"]], ["1", "9"])
    assert [level.codes for level in tree.levels] == [("x",), ("region-1", "region-2"), ("1", "9")]
    with fails_with("D013", DataError):
        from_columns(("land", "region", "leaf"), [["x", "y"], ["1", "2"]], ["1", "9"])


@pytest.mark.parametrize(
    ("header", "separator"),
    [("a,b;c", ","), ('"a,b";c', ";"), ('"a;b",c', ","), ('"a,b;c"\td', "\t"), ("a\nb;c", ","), ("", ",")],
)
def test_separators_in_names_separate_nothing(tmp_path, header, separator):
    """A comma inside a quoted name would cut a header in other places than its rows."""
    (tmp_path / "t.csv").write_text(header + "\n1;2,3\n")
    assert separator == separator_of(tmp_path / "t.csv")
