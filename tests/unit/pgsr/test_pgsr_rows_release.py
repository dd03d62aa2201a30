"""Whole releases by columns and rows: the choice is checked, made of noisy answers alone, and outlives interrupts."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgsr import hierarchy_of, verify
from tests.helpers.failing import fails_with, stopping_at
from tests.helpers.folders import files
from tests.helpers.groups import GROUPS, REGIONS, WHY, book, codes, edit_document, released, seal
from tests.helpers.small_release import rewrite_table
from topdown.errors import DataError
from topdown.privacy.ledger import read_book
from topdown.progress import silent

ROWS = "posterior"
LEVELS = ("nation", "region", "town")
TOWNS = hierarchy_of(
    [("N", "", "nation"), *((r, "N", "region") for r in "EW")]
    + [(p + c, p, "town") for p in "EW" for c in "abc"]
)
N_SIZES = 90
TOTALS = {p + c: 6 for p in "EW" for c in "abc"}


def groups(seed):
    """Return six groups a town, of sizes far apart."""
    size = np.random.default_rng(seed).integers(1, N_SIZES + 1, 36).tolist()
    return {"region": [town for town in TOTALS for _ in range(6)], "size": size, "count": [1] * 36}


def release_from(folder, seed=0, **options):
    """Release the towns; return the folder."""
    options = {"sizes": N_SIZES, "public": TOTALS, "out": folder / "out"} | options
    options = options if "ledger" in options else options | book(folder)
    released(groups(seed), TOWNS, ROWS, 6, **options)
    return folder / "out"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a folder with a release by rows."""
    place = tmp_path_factory.mktemp("rows")
    return release_from(place)


def test_a_release_by_rows_keeps_public_numbers_and_checks_out(whole):
    """Rows are chosen, the certificate states them, and every check passes."""
    stated = json.loads((whole / "certificate.json").read_text())
    assert set() == codes(verify(whole))
    assert stated["choice"][0] == [N_SIZES, 0]
    assert all(rows > 0 and columns + rows <= N_SIZES for columns, rows in stated["choice"][1:])
    assert [level["sensitivity"] for level in stated["levels"]] == [1, 1, 1]
    table = parquet.read_table(whole / "counts.parquet").to_pandas()
    held = table[table.level == "town"].groupby("region", observed=True)["count"].sum()
    assert held.to_dict() == TOTALS


def test_what_is_released_follows_from_noisy_answers_alone(tmp_path):
    """With other groups in the file and the same answers, every byte stays: no choice looks at the truth."""
    named = book(tmp_path)
    folder = release_from(tmp_path, **named)
    before = files(folder)
    for path in ("counts.parquet", "certificate.json", "manifest.json"):
        (folder / path).unlink()
    release_from(tmp_path, seed=1, resume=True, **named)
    assert before == files(folder)


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["choice"].__setitem__(3, [N_SIZES, 0]),
        lambda d: d["choice"].pop(),
        lambda d: d.pop("choice"),
        lambda d: d["mechanism"].update(name="tracking"),
    ],
)
def test_another_choice_is_found(whole, tmp_path, edit):
    """A certificate that states other columns and rows than the answers say, or none, must not pass."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    edit_document(folder, "certificate.json", edit)
    assert "choice" in codes(verify(folder))


def test_other_answers_above_are_found(whole, tmp_path):
    """If the answers of a level were exchanged, the choices below would no longer follow from them."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    path = folder / "measurements" / "nation" / "part-000.parquet"
    table = parquet.read_table(path)
    rewrite_table(path, table.set_column(3, "answer", pa.array(np.repeat(0, N_SIZES))))
    seal(folder)
    assert {"choice", "ledger"} == codes(verify(folder))


@pytest.mark.parametrize("level", LEVELS[:2])
def test_an_interrupted_release_goes_on_by_the_answers_it_has(tmp_path, level):
    """Levels still to draw are chosen by the noise that was kept; nothing is charged twice."""
    named = book(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        release_from(tmp_path, report=stopping_at("measure", lambda event: event.text == level), **named)
    folder = release_from(tmp_path, resume=True, report=silent, **named)
    assert set() == codes(verify(folder))
    charged, _, _ = read_book((folder / "ledger.jsonl").read_bytes(), folder)
    assert charged.charged == {"epsilon": 6}


def test_a_lost_level_is_not_drawn_again_below_its_choices(tmp_path):
    """New noise of a level would not be what the levels below were chosen by; nothing more is charged."""
    named = book(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        release_from(tmp_path, report=stopping_at("measure", lambda event: event.text == "region"), **named)
    (lost,) = (tmp_path / "out" / "measurements" / "nation").glob("*.drawn")
    lost.unlink()
    before = named["ledger"].read_bytes()
    with fails_with("D139", DataError):
        release_from(tmp_path, resume=True, **named)
    assert before == named["ledger"].read_bytes()


def test_a_region_whose_number_of_groups_is_not_public_has_columns_only():
    """Its rows would be chosen by a number nobody may read."""
    made = released(GROUPS, REGIONS, ROWS, 1, sizes=4, simulate=1, truth_is_public=WHY, public={"GA": 3})
    assert made.prepared.kind == "tail_rows"
    assert made.prepared.rows_design.choice(made.noisy).rows.tolist() == [0, 0, 0]


def test_groups_of_the_last_size_that_disappear_are_measured_by_columns():
    """Such a step moves a row by more than one, which the noise of rows does not cover."""
    options = {"public": {"GA": 3, "NY": 3}, "relations": ("move", "dropped")}
    made = released(GROUPS, REGIONS, ROWS, 1, sizes=4, simulate=1, truth_is_public=WHY, **options)
    assert made.prepared.kind == "tail"
    assert made.prepared.rows_design is None
