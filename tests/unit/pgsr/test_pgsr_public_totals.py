"""Public numbers of groups in whole releases: kept, certified, checked; and the bounds beside every count."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgsr import Sizes, hierarchy_of, verify
from pgsr.estimators import OF_MODEL, OF_NOISE
from pgsr.group_checks import check_folder
from pgsr.group_tables import leaf_counts
from tests.helpers.failing import fails_with
from tests.helpers.groups import GROUPS, REGIONS, book, codes, edit_document, released, seal, simulated
from tests.helpers.small_release import rewrite_table
from topdown.errors import ConfigError

TOWNS = hierarchy_of(
    [
        ("N", "", "nation"),
        *((r, "N", "region") for r in "EW"),
        *((p + c, p, "town") for p in "EW" for c in "ab"),
    ]
)
COUNTS = {
    "region": ["Ea"] * 4 + ["Eb"] * 3 + ["Wa"] * 2 + ["Wb"],
    "size": [1, 2, 3, 4, 1, 2, 4, 1, 2, 2],
    "count": [31, 38, 14, 12, 20, 25, 9, 55, 61, 6],
}
TOTALS = {"Ea": 95, "Eb": 54, "Wa": 116, "Wb": 6}


def release_from(folder, **options):
    """Release the towns with their totals public; return the folder."""
    options = {"sizes": 4, "too_large": "top-code", "public": TOTALS, "out": folder / "out"} | options
    released(COUNTS, TOWNS, options.pop("mechanism", "posterior"), "1/2", **options, **book(folder))
    return folder / "out"


@pytest.mark.parametrize("mechanism", ["tracking", "posterior"])
@pytest.mark.parametrize("direction", ["tail", "cumulative"])
def test_a_release_agrees_with_the_numbers_it_was_given(tmp_path, mechanism, direction):
    """It published 94, 53, 116, 8 beside public 95, 54, 116, 6."""
    folder = release_from(tmp_path, mechanism=mechanism, direction=direction)
    table = parquet.read_table(folder / "counts.parquet").to_pandas()
    held = table[table.level == "town"].groupby("region", observed=True)["count"].sum()
    assert held.to_dict() == TOTALS
    assert set() == codes(verify(folder))


def test_other_mechanisms_refuse_public_numbers(tmp_path):
    """A mechanism that estimates each region without them would contradict them; G alone is kept by all."""
    with fails_with("C182", ConfigError):
        release_from(tmp_path, mechanism="M_H^dp")
    made = simulated(COUNTS, TOWNS, "M_H^dp", 1, sizes=4, public={"N": 271})
    assert made.counts[:, 0].sum() == 271


def test_where_all_units_are_listed_their_numbers_are_exact_and_said_to_be(tmp_path):
    """No move changes them: they come out exactly, and the statement names them."""
    named = book(tmp_path, smallest=0, relations=("move",))
    released(GROUPS, REGIONS, "posterior", "1/2", sizes=5, smallest=0, out=tmp_path / "out", **named)
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert stated["public_totals"] == {"GA": 3, "NY": 3}
    assert "public numbers of groups of regions" in stated["privacy"]["conditional_on"]
    assert set() == codes(verify(tmp_path / "out"))
    made = simulated(GROUPS, REGIONS, "posterior", "1/2", sizes=5, smallest=0, relations=("move", "new"))
    assert made.prepared.sections["public_totals"] == {}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make one release with bounds from the model."""
    return release_from(tmp_path_factory.mktemp("made"), coverage=["0.5", "0.9", "0.95", "0.99"])


def with_column(folder, tmp_path, name, change):
    """Return a copy of a release with another column, sealed again."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    table = parquet.read_table(copy / "counts.parquet")
    values = change(table.column(name).to_numpy().copy())
    position = table.schema.get_field_index(name)
    rewrite_table(copy / "counts.parquet", table.set_column(position, name, pa.array(values)))
    seal(copy)
    return copy


@pytest.mark.parametrize(
    ("name", "by"),
    [("lower_95", 10**6), ("lower_95", -1), ("lower_50", 10**6), ("upper_95", -(10**6)), ("upper_99", 10**6)],
)
def test_bounds_that_were_moved_are_found(made, tmp_path, name, by):
    """Bounds on one side of a count, below 0, or wider than all noise promise something else than was estimated."""
    assert "intervals" in codes(verify(with_column(made, tmp_path, name, lambda values: values + by)))


def test_numbers_of_groups_that_are_not_the_public_ones_are_found(made, tmp_path):
    """A group moved between regions keeps every sum but the public numbers."""

    def moved(values):
        cells = values.reshape(7, 4)
        size = int(np.argmax(cells[5]))
        cells[5, size] -= 1
        cells[6, size] += 1
        return cells.reshape(-1)

    assert "total" in codes(verify(with_column(made, tmp_path, "count", moved)))


def test_the_method_of_the_bounds_is_stated_as_it_is(made, tmp_path):
    """Bounds of the model are not those of the noise; a certificate that says so fails."""
    copy = shutil.copytree(made, tmp_path / "copy")
    stated = json.loads((copy / "certificate.json").read_text())["intervals"]
    assert stated["method"] == OF_MODEL
    edit_document(copy, "certificate.json", lambda d: d["intervals"].update(method=OF_NOISE))
    assert "intervals" in codes(verify(copy))


@pytest.mark.parametrize("coverage", [[], ["0.8"], ["0.95", "1"], ["19/20", "0.951"]])
def test_other_coverage_is_refused(tmp_path, coverage):
    """Nobody has measured how often intervals of another stated probability hold."""
    with fails_with("C320", ConfigError):
        release_from(tmp_path, coverage=coverage)


def test_bounds_under_another_coverage_are_found(made, tmp_path):
    """Bounds of 50 % that are called those of 95 % promise what nobody computed."""
    copy = shutil.copytree(made, tmp_path / "copy")
    edit_document(copy, "certificate.json", lambda d: d.update(coverage=["19/20", "9/10", "1/2", "99/100"]))
    assert codes(verify(copy))


@pytest.mark.parametrize("mechanism", ["M_H^dp", "tracking", "M_c^r"])
def test_every_release_bears_bounds(tmp_path, mechanism):
    """Beside every count stand its bounds, of the noise alone where nothing better is known."""
    options = {"sizes": 4, "simulate": 3, "coverage": ["0.95", "1/2"], "out": tmp_path / "out"}
    made = simulated(GROUPS, REGIONS, mechanism, 1, **options)
    assert set() == codes(check_folder(tmp_path / "out"))
    table = parquet.read_table(tmp_path / "out" / "counts.parquet")
    for (lower, upper), level in zip(made.bounds, (50, 95), strict=True):
        assert np.all((lower <= made.counts) & (made.counts <= upper))
        assert lower.T.reshape(-1).tolist() == table.column(f"lower_{level}").to_pylist()
        assert upper.T.reshape(-1).tolist() == table.column(f"upper_{level}").to_pylist()


def test_everything_after_the_noise_comes_from_the_noise(tmp_path):
    """Other groups with the same public numbers and the same noisy answers give the same bytes."""
    groups = tmp_path / "groups.csv"
    rows = list(zip(*COUNTS.values(), strict=True))
    groups.write_text("region,size,count\n" + "".join(f"{r},{s},{n}\n" for r, s, n in rows))
    options = {
        "sizes": 4,
        "too_large": "top-code",
        "public": TOTALS,
        "out": tmp_path / "out",
        **book(tmp_path),
    }
    released(groups, TOWNS, "posterior", "1/2", **options)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.*")}
    groups.write_text("region,size,count\n" + "".join(f"{r},3,{n}\n" for r, n in TOTALS.items()))
    sizes = Sizes(4, too_large="top-code")
    moved = {"region": list(TOTALS), "size": [3] * 4, "count": list(TOTALS.values())}
    other = leaf_counts(moved, TOWNS, sizes)
    assert not np.array_equal(leaf_counts(COUNTS, TOWNS, sizes), other)
    for name in ("counts.parquet", "certificate.json", "manifest.json"):
        (tmp_path / "out" / name).unlink()
    released(groups, TOWNS, "posterior", "1/2", resume=True, **options)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.*")}
