"""One row a group: the rows are the released counts, of a release that passes its checks, and nothing else."""

import json
import shutil

import numpy as np
import pytest
from pyarrow import parquet

from pgsr import Sizes
from pgsr.cli import main
from pgsr.formats import document_schema
from pgsr.group_files import ROWS_A_TIME, _group_rows, write_groups
from pgsr.group_tables import leaf_counts, read_groups
from tests.helpers.failing import fails_with
from tests.helpers.groups import GROUPS, REGIONS, WHY, book, edit_document, released
from tests.helpers.schemas import problems


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of a release with sizes 0 to 2 or more."""
    place = tmp_path_factory.mktemp("made")
    options = {"sizes": 3, "smallest": 0, "too_large": "top-code", "out": place / "out"}
    options |= book(place, smallest=0, relations=("move",))
    released(GROUPS, REGIONS, "posterior", "1/2", **options)
    return place / "out"


def test_rows_are_the_released_groups(made, tmp_path):
    """Read as groups they give the counts of every leaf again, and their sizes the stated members."""
    found, _ = write_groups(made, tmp_path / "units.parquet")
    table = parquet.read_table(made / "counts.parquet").to_pandas()
    leaves = table[table.level == "state"]
    expected = leaves["count"].to_numpy().reshape(2, 3).T
    read = leaf_counts(read_groups(tmp_path / "units.parquet"), REGIONS, Sizes(3, 0))
    assert expected.tolist() == read.tolist()
    assert (found.groups, found.members) == (6, int((leaves["count"] * leaves["size"]).sum()))


def test_rows_come_in_pieces():
    """More rows than one piece holds must be all there, each unit once, in order of region and size."""
    counts = np.array([[ROWS_A_TIME - 1, 0], [0, 3]])
    pieces = list(_group_rows(counts, ["A", "B"], 1))
    rows = [row for piece in pieces for row in piece.slice(max(piece.num_rows - 4, 0)).to_pylist()]
    assert [piece.num_rows for piece in pieces] == [ROWS_A_TIME, 2]
    assert rows[2] == {"unit": ROWS_A_TIME - 1, "region": "A", "size": 1}
    assert [{"unit": ROWS_A_TIME + i, "region": "B", "size": 2} for i in range(3)] == rows[3:]


def test_the_command_says_what_top_coding_hides(made, tmp_path, capsys):
    """Where larger groups count as the last size, members are a lower bound, not a number."""
    assert main(["microdata", str(made), "--out", str(tmp_path / "a.parquet"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert problems(document, document_schema("microdata")) == []
    assert not document["members_exact"]
    assert main(["microdata", str(made), "--out", str(tmp_path / "b.parquet")]) == 0
    assert "at least: size 2 means 2 or more" in capsys.readouterr().out
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_what_is_no_checked_release_is_refused(made, tmp_path):
    """A changed release, a simulation, counts below 0, a file that is there or inside a release: no row is written."""
    changed, named = shutil.copytree(made, tmp_path / "changed"), book(tmp_path)
    edit_document(changed, "certificate.json", lambda d: d["privacy"].update(claimed="1/4"))
    unsure = {"sizes": 4, "out": tmp_path / "unsure"}
    released(GROUPS, REGIONS, "M_H^r", "1/2", **unsure, **named)
    pretended = {"sizes": 4, "simulate": 1, "truth_is_public": WHY, "out": tmp_path / "simulated"}
    released(GROUPS, REGIONS, "tracking", "1/2", **pretended)
    (tmp_path / "there.parquet").write_bytes(b"mine")
    cases = {
        "D140": (changed, "a.parquet"),
        "C186": (tmp_path / "unsure", "a.parquet"),
        "C122": (tmp_path / "simulated", "a.parquet"),
        "D137": (tmp_path, "a.parquet"),
        "C080": (made, "there.parquet"),
        "C132": (made, "unsure/a.parquet"),
        "D050": (made, "missing/a.parquet"),
    }
    for code, (folder, name) in cases.items():
        with fails_with(code):
            write_groups(folder, tmp_path / name)
    assert not list(tmp_path.rglob("*a.parquet"))
    assert (tmp_path / "there.parquet").read_bytes() == b"mine"
