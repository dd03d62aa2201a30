"""Tables of groups, regions and public totals are read one way or refused."""

import pytest

from tests.helpers.groups import REGIONS, WHY, released
from topdown.errors import DataError


def from_file(folder, text, name="groups.csv", **options):
    """Simulate on a file of groups; return the counts of the root, by size."""
    (folder / name).write_text(text, newline="")
    settings = {"sizes": 40, "simulate": 1, "truth_is_public": WHY, "calibration": "correct"} | options
    return released(folder / name, REGIONS, "tracking", 4000, **settings).counts[:, 0].tolist()


def test_columns_named_in_ignore_are_not_read(tmp_path):
    """A file may carry more than one form if the run says which columns it does not read."""
    text = "unit,region,size,count\nA,GA,1,65\nB,NY,2,1\n"
    assert [1, 1, *[0] * 38] == from_file(tmp_path, text, ignore=["count"])
    assert [65, 1, *[0] * 38] == from_file(tmp_path, text, ignore=["unit"])


@pytest.mark.parametrize("shift", [0, 11, 23])
def test_a_quoted_line_break_at_the_edge_of_a_block_makes_no_group(tmp_path, shift):
    """Text of a column nobody reads became groups where a block of the reader began inside it."""
    row, head = f"GA,1,1,{'x' * 20}\n", "region,size,count,note\n"
    n = ((1 << 20) - 500 - len(head)) // len(row)
    text = head + row * n + f'GA,1,1,"{"x" * shift}\n{row * 40}"\n' + row
    assert n + 2 == from_file(tmp_path, text, ignore=["note"])[0]


@pytest.mark.parametrize("values", [[True, 1], [1.0, 2], ["0x1F", "1"], [2**63, 1], [None, 1], [1e300, 1]])
def test_numbers_by_luck_are_refused_in_memory_too(tmp_path, values):
    """A truth value is no size, and a number past 64 bits must not end in a traceback."""
    with pytest.raises(DataError) as caught:
        released(
            {"region": ["GA", "NY"], "size": values, "count": [1, 1]}, REGIONS, "tracking", "1/2",
            sizes=3, simulate=1, truth_is_public=WHY,
        )  # fmt: skip
    assert caught.value.code == "D133"
