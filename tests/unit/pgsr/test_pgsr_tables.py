"""Tables of groups, regions and public totals are read one way or refused."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgsr.group_tables import public_totals, read_hierarchy
from tests.helpers.groups import REGIONS, WHY, released
from topdown.errors import DataError

HIERARCHY = "region,parent,level\nUS,,nation\nGA,US,state\nNY,US,state\n"


def from_file(folder, text, name="groups.csv", **options):
    """Simulate on a file of groups; return the counts of the root, by size."""
    (folder / name).write_text(text, newline="")
    settings = {"sizes": 40, "simulate": 1, "truth_is_public": WHY, "calibration": "correct"} | options
    return released(folder / name, REGIONS, "tracking", 4000, **settings).counts[:, 0].tolist()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("unit,region,size,count\nA,GA,1,65\nB,GA,2,1\n", "D040"),
        ("region,size,count,count\nGA,1,3,4\n", "D132"),
        ("region,size,size,count\nGA,1,3,4\n", "D132"),
        ("region,size,Count\nGA,1,3\n", "D132"),
        ("region,size,count,note\nGA,1,3,x\n", "D040"),
        ("region,size,count\nGA,0x1F,1\n", "D133"),
        ("region,size,count\nGA,1,1e3\n", "D133"),
        ("region,size,count\nGA,1,1.0\n", "D133"),
        ("region,size,count\nGA,1,\n", "D133"),
        ("region,size,count\nGA,1, 3\n", "D133"),
        ("region,size,count\nGA,1,9223372036854775808\n", "D133"),
        ("region,size,count\nGA,1,1e300\n", "D133"),
        ("region,size,count\nGA,1,1_000\n", "D133"),
        ("region,size,count\nGA,1,\u0663\n", "D133"),
        ('region,size,count\nGA,1,3\nGA"x,1,3\n', "D042"),
        ("region,size,count\n" + "GA,1\n", "D130"),
        ("GA,1,3\nNY,1,2\n", "D132"),
        ("", "D132"),
    ],
)
def test_a_file_that_could_be_read_two_ways_is_refused(tmp_path, text, code):
    """A count that is passed over, a column that wins over its twin, 0x1F read as 31: wrong without a word."""
    with pytest.raises(DataError) as caught:
        from_file(tmp_path, text)
    assert code == caught.value.code
    assert caught.value.fix
    assert "NY" not in str(caught.value.to_json())


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


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("region,groups\nUS,6\nUS,7\n", "D133"),
        ("region,groups,groups\nUS,6,7\n", "D132"),
        ("region,Groups\nUS,6\n", "D132"),
        ("region,groups,note\nUS,6,x\n", "D040"),
        ("region,groups\nUS,0x6\n", "D133"),
        ("region,groups\nUS,-6\n", "D133"),
    ],
)
def test_public_totals_are_read_one_way(tmp_path, text, code):
    """Of two numbers for one region the last would win."""
    path = tmp_path / "public.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        public_totals(path)
    assert code == caught.value.code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (HIERARCHY.replace("level", "Level", 1), "D132"),
        (HIERARCHY.replace("region,parent,level", "region,parent,level,level"), "D130"),
        ("region,parent,level,note\nUS,,nation,x\n", "D040"),
        ("region,parent,region\nUS,,nation\n", "D132"),
    ],
)
def test_a_hierarchy_is_read_one_way(tmp_path, text, code):
    """Of two parents of a region the last would win."""
    path = tmp_path / "hierarchy.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_hierarchy(path)
    assert code == caught.value.code


@pytest.mark.parametrize(
    ("column", "kind"),
    [("count", pa.float16()), ("count", pa.float64()), ("count", pa.bool_()), ("size", pa.binary()),
     ("size", pa.date32()), ("region", pa.int64()), ("region", pa.binary()), ("size", pa.list_(pa.int64()))],
)  # fmt: skip
def test_a_parquet_column_of_another_type_is_refused(tmp_path, column, kind):
    """A date, a truth value or a half float that looks like a number is none."""
    columns = {"region": pa.array(["GA"]), "size": pa.array([1]), "count": pa.array([1])}
    some = {"binary": b"1", "bool": True, "list": [1]}.get(str(kind).partition("<")[0], 1)
    columns[column] = pa.array([np.float16(1) if kind == pa.float16() else some], kind)
    path = tmp_path / "groups.parquet"
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(DataError) as caught:
        released(path, REGIONS, "tracking", 4000, sizes=3, simulate=1, truth_is_public=WHY)
    assert caught.value.code == "D024"
