"""Trees of places: built from prefixes or parents, the same either way, and refused when they are no tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from topdown.errors import DataError
from topdown.model import ConstraintSystem, PublicFacts, from_parents, from_prefixes
from topdown.plan import load_invariants, load_schema
from topdown.resources import bundled_root

leaves = st.sets(st.text("0123", min_size=4, max_size=4), min_size=1, max_size=25)


@given(leaves)
def test_prefixes_and_parent_table_give_the_same_tree(codes: set[str]) -> None:
    """Two ways to say one geography must not order nodes differently: files of one would not fit the other."""
    tree = from_prefixes(("land", "county", "block"), (0, 2, 4), tuple(codes))
    rows = [("0", "", "land")]
    rows += [(county, "0", "county") for county in {c[:2] for c in codes}]
    rows += [(code, code[:2], "block") for code in codes]
    again = from_parents(rows[::-1])
    assert again.level_names == tree.level_names
    for a, b in zip(tree.levels, again.levels, strict=True):
        assert a.codes == b.codes
        np.testing.assert_array_equal(a.parent, b.parent)


@given(leaves)
def test_children_and_ancestors_agree_with_the_codes(codes: set[str]) -> None:
    """A child listed under the wrong parent would move its people."""
    tree = from_prefixes(("land", "county", "block"), (0, 2, 4), tuple(codes))
    pointers = tree.child_pointers[1]
    for i, county in enumerate(tree.levels[1].codes):
        below = tree.leaves.codes[pointers[i] : pointers[i + 1]]
        assert set(below) == {c for c in codes if c[:2] == county}
    for leaf, county in enumerate(tree.ancestors_of_leaves[1]):
        assert tree.leaves.codes[leaf][:2] == tree.levels[1].codes[county]


@given(leaves, st.integers(0, 2))
def test_leaves_add_up_to_every_level(codes: set[str], width: int) -> None:
    """A sum that takes a neighbour's leaf would let exact totals, rules and tables of a level contradict each other."""
    tree = from_prefixes(("land", "county", "block"), (0, 2, 4), tuple(codes))
    held = np.arange(len(codes) * width, dtype=np.int64).reshape(len(codes), width)
    every, marks = tree.at_every_level(held), tree.at_every_level(held % 3 == 1, np.logical_or)
    for depth, (level, length) in enumerate(zip(tree.levels, (0, 2, 4), strict=True)):
        for node, code in enumerate(level.codes):
            inside = [leaf.startswith(code[:length]) for leaf in tree.leaves.codes]
            assert held[inside].sum(axis=0).tolist() == every[depth][node].tolist()
            assert (held[inside] % 3 == 1).any(axis=0).tolist() == marks[depth][node].tolist()
    np.testing.assert_array_equal(every[0], tree.upward(every[1], 1, 0))


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([("a", "", "top"), ("a", "", "top")], "D012"),
        ([("a", "", "top"), ("b", "", "top")], "D013"),
        ([("a", "", "top"), ("b", "c", "leaf")], "D014"),
        ([("a", "", "top"), ("b", "a", "x"), ("c", "a", "y")], "D015"),
        ([("a", "", "top"), ("b", "a", "mid"), ("c", "a", "mid"), ("d", "b", "leaf")], "D016"),
        ([("a", "", "top"), ("b", "c", "x"), ("c", "b", "x")], "D017"),
    ],
)
def test_what_is_no_tree_is_refused(rows: list[tuple[str, str, str]], code: str) -> None:
    """A cycle, an orphan or a ragged branch must be named before anything is planned on it."""
    with fails_with(code, DataError):
        from_parents(rows)


@pytest.mark.parametrize(
    ("codes", "code"), [(("001", "01"), "D011"), (("001", "001"), "D012"), (("001", "101"), "D013")]
)
def test_bad_geocodes_are_refused(codes: tuple[str, ...], code: str) -> None:
    """Lost leading zeros, a leaf twice and several roots are the usual accidents."""
    with fails_with(code, DataError):
        from_prefixes(("top", "leaf"), (1, 3), codes)


def test_rules_open_and_bound_every_level() -> None:
    """Inner nodes must be open where a leaf is, and need what their leaves need together (Theorems 3 and 8)."""
    schema = load_schema(bundled_root() / "schemas" / "toy.toml")
    invariants = load_invariants(bundled_root() / "invariants" / "toy.toml", schema)
    tree = from_prefixes(("land", "county", "block"), (0, 1, 2), ("11", "12", "21"))
    facts = PublicFacts(
        {
            "homes": np.array([3, 0, 0]),
            "dormitories": np.array([0, 2, 0]),
            "barracks": np.array([1, 1, 0]),
        }
    )
    rules = ConstraintSystem.from_facts(schema, tree, invariants, facts)

    def is_open(level: int, node: int, **values: str) -> bool:
        cell = int(np.flatnonzero(schema.select({k: (v,) for k, v in values.items()}))[0])
        return bool(rules.open[level][node, rules.class_of_cell[cell]])

    assert is_open(2, 0, dwelling="home", sex="male", age="0_17")
    assert not is_open(2, 1, dwelling="home", sex="male", age="0_17")
    assert not is_open(2, 0, dwelling="barracks", sex="male", age="0_17")
    assert is_open(1, 0, dwelling="dormitory", sex="male", age="0_17")
    np.testing.assert_array_equal(rules.inhabited[2], [True, True, False])
    np.testing.assert_array_equal(rules.inhabited[1], [True, False])
    np.testing.assert_array_equal(rules.lower[2], [[0, 1], [4, 1], [0, 0]])
    np.testing.assert_array_equal(rules.lower[1], [[4, 2], [0, 0]])
    np.testing.assert_array_equal(rules.lower[0], [[4, 2]])


@pytest.mark.parametrize(
    ("lengths", "leaves", "root"),
    [
        ((0, 2), ("11", "12"), "0"),
        ((0, 1), ("0", "1"), "root"),
        ((0, 1, 4), ("0abc", "root"), "root-"),
    ],
)
def test_the_root_of_prefixes_has_a_name_of_its_own(
    lengths: tuple[int, ...], leaves: tuple[str, ...], root: str
) -> None:
    """A county called 0 beside a root called 0 could not be read back after the budget was spent."""
    tree = from_prefixes(("land", "county", "block")[: len(lengths)], lengths, leaves)
    assert tree.root.codes == (root,)
