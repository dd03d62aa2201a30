"""What the checker finds in a release that was changed."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgsr import verify
from pgsr.group_checks import exchange_gain_plain
from tests.helpers.groups import GROUPS, REGIONS, book, codes, edit_document, released, seal
from tests.helpers.small_release import rewrite_table
from topdown.errors import DataError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "out"
    released(GROUPS, REGIONS, "M_H^dp", "1/2", sizes=5, out=folder, **book(folder.parent))
    return folder


def _copy(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def test_a_changed_byte_is_found(made, tmp_path):
    """The manifest is the first line of defence."""
    folder = _copy(made, tmp_path)
    with (folder / "counts.parquet").open("ab") as file:
        file.write(b"x")
    assert "manifest" in codes(verify(folder))


def _moved_count(made, tmp_path, region, by):
    folder = _copy(made, tmp_path)
    table = parquet.read_table(folder / "counts.parquet")
    counts = table.column("count").to_numpy().copy()
    counts[region * 5 : region * 5 + 2] += by
    position = table.schema.get_field_index("count")
    rewrite_table(folder / "counts.parquet", table.set_column(position, "count", pa.array(counts)))
    seal(folder)
    return folder


def test_counts_that_do_not_add_up_are_found(made, tmp_path):
    """A resealed but inconsistent table."""
    assert "hierarchy" in codes(verify(_moved_count(made, tmp_path, 1, [1, -1])))


def test_a_negative_count_and_a_wrong_total_are_found(made, tmp_path):
    """Validity and faithfulness are separate checks."""
    assert {"whole numbers", "hierarchy", "total"} <= codes(
        verify(_moved_count(made, tmp_path, 0, [-100, 7]))
    )


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (lambda d: d["privacy"].update(loss="1/4"), "privacy"),
        (lambda d: d["levels"][0].update(parameter="1"), "privacy"),
        (lambda d: d["levels"][1].update(sensitivity=1), "privacy"),
        (lambda d: d["mechanism"].update(measures="chain"), "privacy"),
        (lambda d: d["privacy"].update(private_as_claimed=False), "privacy"),
        (lambda d: d.update(journal="0" * 32), "ledger"),
        (lambda d: d.update(total=7), "total"),
        (lambda d: d.pop("sizes"), "files"),
    ],
)
def test_a_false_certificate_is_found(made, tmp_path, edit, check):
    """Each stated number is recomputed, so that none can be dressed up."""
    folder = _copy(made, tmp_path)
    edit_document(folder, "certificate.json", edit)
    assert check in codes(verify(folder))


def test_exchange_check_rejects_a_worse_table():
    """The optimality check must be able to fail."""
    parent = np.array([-1, 0, 0])
    answers = np.array([[2, 3, 0], [1, 0, 1]])
    assert exchange_gain_plain(parent, answers, np.array([[3, 3, 0], [1, 0, 1]]))[0] <= 0
    assert exchange_gain_plain(parent, answers, np.array([[3, 0, 3], [1, 0, 1]]))[0] > 0


def test_a_folder_that_is_no_release_is_refused(tmp_path):
    """An empty list of checks would look like a pass."""
    with pytest.raises(DataError):
        verify(tmp_path)
