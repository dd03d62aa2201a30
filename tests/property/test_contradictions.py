"""The contradiction check against every small population of random censuses, and its search against all subsets."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH, repeats
from tests.helpers.implied_brute import (
    SmallCensus,
    crossing,
    names_of,
    node_tables,
    node_totals,
    occupied_cells,
    only,
    random_census,
)
from topdown.errors import ConfigError, InfeasibleError
from topdown.model import (
    AtLeast,
    Contradiction,
    Exact,
    Invariants,
    PublicFacts,
    Schema,
    find_contradiction,
    from_prefixes,
    smallest_conflict,
)

MOST = 12  # no total of a random census is larger
FEW = 7  # people of a node whose tables are all written out


def feasible(census: SmallCensus, level: int = 0, node: int = 0) -> bool:
    """Decide by enumeration whether a population exists below a node."""
    return bool(node_totals(census, level, node, MOST))


@pytest.mark.deep
def test_contradictions_are_all_found_at_the_lowest_node_with_a_smallest_set() -> None:
    """A missed one wastes the budget; a false one refuses a good census; a fat one hides the cause."""
    seen: Counter[object] = Counter()
    rng = np.random.default_rng(20)
    for _ in range(repeats(100, 900)):
        census = random_census(rng, most=1)
        try:
            found = find_contradiction(*census.parts)
        except ConfigError as refused:
            if not crossing(census) or "share some cells" not in str(refused):
                raise
            continue
        assert feasible(census) == (found is None)
        if found is None and crossing(census):  # nobody may be where they cross
            assert not crossing(census, among=occupied_cells(census, MOST))
        if found is None:
            seen["none"] += 1
            continue
        level = census.geography.index(found.level)
        node = census.geography.levels[level].codes.index(found.node)
        for below in range(level + 1, 3):
            assert all(feasible(census, below, i) for i in range(len(census.geography.levels[below])))
        assert all(feasible(census, level, i) for i in range(node))
        assert found.leaf == (found.node if level == 2 else "")
        assert not feasible(only(census, found.names), level, node)
        for names in combinations(names_of(census), len(found.names) - 1):
            assert feasible(only(census, names), level, node), (names, found)
        assert found.is_smallest
        kinds = {name.split()[0] for name in found.names}
        assert found.is_public == (not kinds & {"exact", "table"})
        seen[min(len(found.names), 3)] += 1
        seen.update(kinds)
    assert min(
        seen[k] for k in ("none", 2, 3, "exact", "table", "least", "most", "zero", "never")
    ) >= repeats(1, 8), seen


@pytest.mark.deep
def test_a_search_cut_short_says_so() -> None:
    """Beyond the stated number of tests the set is irreducible, and must not be called smallest."""
    rng = np.random.default_rng(21)
    n_short = 0
    for _ in range(100 * DEPTH):
        census = random_census(rng, most=1)
        if crossing(census):
            continue
        found = find_contradiction(*census.parts, max_tests=1)
        if found is None or found.is_smallest:
            continue
        n_short += 1
        assert found.error().details[-1][0] == "note"
        level = census.geography.index(found.level)
        node = census.geography.levels[level].codes.index(found.node)
        assert not feasible(only(census, found.names), level, node)
        for name in found.names:
            assert feasible(only(census, set(found.names) - {name}), level, node)
    assert n_short >= 10 * DEPTH


@pytest.mark.deep
def test_no_census_with_people_and_a_table_above_the_leaves_is_refused() -> None:
    """The check of answers is necessary only, but what it refuses must really be impossible, named sets included."""
    seen: Counter[object] = Counter()
    rng = np.random.default_rng(44)
    for _ in range(repeats(75, 700)):
        census = random_census(rng, most=1, inner=True)
        if crossing(census):
            continue
        found = find_contradiction(*census.parts)
        if found is None:
            seen["none"] += 1
            continue
        level = census.geography.index(found.level)
        node = census.geography.levels[level].codes.index(found.node)
        smaller = only(census, found.names)
        if "inner" in found.names:
            n = max(int(v.sum()) for v in smaller.exact.values())
            if n <= FEW:
                seen["inner"] += 1
                seen["inner alone"] += len(found.names) == 2
                assert not node_tables(smaller, level, node, n), found
        else:
            assert not node_totals(smaller, level, node, MOST)
        for name in found.names:  # none can be left out
            left = only(census, set(found.names) - {name})
            assert find_contradiction(*left.parts) is None or not _below(left, level, node)
    assert seen["none"] > repeats(10, 100)
    assert seen["inner"] > repeats(4, 48)


def _below(census: SmallCensus, level: int, node: int) -> bool:
    """Tell whether a contradiction is at a node of its level or below it."""
    found = find_contradiction(*census.parts)
    assert found is not None
    code = census.geography.levels[level].codes[node]
    return census.geography.index(found.level) >= level and found.node.startswith(code)


@given(st.integers(1, 9), st.lists(st.sets(st.integers(0, 8), max_size=5), min_size=1, max_size=8))
@settings(max_examples=400, deadline=None)
def test_the_smallest_conflict_is_the_smallest(n: int, cores: list[set[int]]) -> None:
    """Any monotone conflict, given by its cores: hitting sets must find one of the fewest members."""
    sets = [frozenset(i % n for i in core) for core in cores]
    found = smallest_conflict(n, lambda chosen: any(core <= chosen for core in sets))
    assert found.is_smallest
    assert found.members in sets
    assert len(found.members) == min(map(len, sets))


def test_refusal_names_constraints_and_node() -> None:
    """The message must say what and where, and never an exact statistic's value."""
    error = Contradiction("county", "012", "", ("exact county", "least 0")).error()
    assert isinstance(error, InfeasibleError)
    assert (error.code, error.node, error.exit_code) == ("I002", "012", 3)
    assert error.text == "2 constraints exclude each other at county 012"
    assert [value for _, value in error.details] == ["exact county", "least 0"]
    assert Contradiction("block", "0121", "0121", ("least 0",), is_public=True).error().code == "I014"


def test_a_bound_on_several_answers_is_held_against_their_sum() -> None:
    """No answer alone and not the total shows that a bound on two answers of an exact table cannot be met."""
    schema = Schema.from_lists({"kind": ["a", "b", "c"]})
    tree = from_prefixes(("land", "block"), (0, 1), ("1", "2"))
    invariants = Invariants(
        "i",
        "i",
        schema.name,
        exact=(Exact("table", "land", "kind"),),
        at_least=(AtLeast("least", (("kind", ("a", "b")),), "k"),),
    )
    facts = PublicFacts({"k": np.array([2, 2])})
    assert find_contradiction(schema, tree, invariants, facts, {"table": np.array([[2, 2, 5]])}) is None
    found = find_contradiction(schema, tree, invariants, facts, {"table": np.array([[2, 1, 5]])})
    assert found is not None
    assert (found.level, found.names, found.is_smallest) == ("land", ("table", "least"), True)
