"""Trees of regions: refusals, orders and sums."""

import numpy as np
import pytest

from pgsr import hierarchy_of, tree_of
from topdown.errors import ConfigError, DataError

ROWS = [("US", "", "nation"), ("GA", "US", "state"), ("NY", "US", "state")]


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([*ROWS, ("A", "B", "state"), ("B", "A", "state")], "D017"),
        ([*ROWS, ("X", "X", "state")], "D017"),
        ([*ROWS, ("X", "FR", "state")], "D014"),
        ([*ROWS, ("GA", "US", "state")], "D012"),
        ([*ROWS, ("CA", "", "nation")], "D013"),
        ([*ROWS, ("county", "GA", "county")], "D016"),
    ],
)
def test_broken_hierarchies_are_refused(rows, code):
    """A cycle or a lost branch would make sums meaningless."""
    with pytest.raises(DataError) as caught:
        hierarchy_of(rows)
    assert code == caught.value.code
    assert caught.value.fix


def test_a_cycle_names_its_regions():
    """Without the loop spelled out nobody finds it among thousands of regions."""
    with pytest.raises(DataError, match="A -> B -> A"):
        hierarchy_of([("US", "", "n"), ("A", "B", "s"), ("B", "A", "s")])


@pytest.mark.parametrize(
    "levels", [[], [[-1, -1]], [[-1], [0, 1]], [[-1], [0, 0], [1, 0]], [[-1], [0, 0], [0]], [[-1], []]]
)
def test_broken_levels_are_refused(levels):
    """Kernels index by these numbers without checks."""
    with pytest.raises(DataError):
        tree_of(levels)


def test_counts_of_another_shape_or_type_are_refused():
    """A transposed or fractional matrix must not be read as counts."""
    from pgsr import tree_optimum

    for noisy in ([[1, 2]], [[1.5, 2.0, 3.0]], [1, 2, 3]):
        with pytest.raises(ConfigError):
            tree_optimum([[-1], [0, 0]], noisy, 3)
    for total in (-1, 1.5):
        with pytest.raises(ConfigError):
            tree_optimum([[-1], [0, 0]], [[1, 2, 3]], total)


def test_sums_and_bounds_of_a_deep_tree():
    """Parents, leaf ranges and post-order are what every algorithm walks on."""
    tree = tree_of([[-1], [0, 0], [0, 1, 1]])
    assert tree.sums(np.array([[1, 2, 3]])).tolist() == [[6, 1, 5, 1, 2, 3]]
    assert tree.leaf_start.tolist() == [0, 0, 1, 0, 1, 2]
    assert tree.leaf_stop.tolist() == [3, 1, 3, 1, 2, 3]
    assert tree.post_order.tolist() == [3, 1, 4, 5, 2, 0]
