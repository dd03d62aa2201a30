"""Lemma 1 and Theorem 3 against every small table: complete means complete."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.implied_brute import (
    compositions,
    group_limits,
    leaf_tables,
    margin_tables,
    random_groups,
    sums,
)
from tests.helpers.polytopes import limit_excess
from topdown.errors import InfeasibleError
from topdown.solve.implied import (
    GroupLeaf,
    Groups,
    LeafMargins,
    implied_by_groups,
    implied_by_margins,
)


def keeps(limits: np.ndarray, x: tuple[int, ...]) -> bool:
    """Tell whether group totals keep the solver's limits and add up."""
    held = np.array(x, dtype=np.int64)[:, None]
    return bool(held.sum() == limits[-1] and limit_excess(limits[None], held)[0] <= 0)


def random_margins(rng: np.random.Generator, most: int) -> LeafMargins:
    """Take the margins of a random table, so that they add up."""
    h = rng.multinomial(int(rng.integers(0, most + 1)), rng.dirichlet([0.7] * 4)).tolist()
    return LeafMargins((h[0] + h[1], h[2] + h[3]), (h[0] + h[2], h[1] + h[3]))


@pytest.mark.deep
def test_lemma_1_accepts_exactly_the_sums_of_leaf_tables() -> None:
    """A bound too loose lets a parent through that no leaf tables add up to; too tight refuses a true one."""
    rng = np.random.default_rng(1)
    accepted = refused = 0
    for _ in range(600 * DEPTH):
        leaves = [random_margins(rng, 6) for _ in range(rng.integers(1, 4))]
        system, possible = implied_by_margins(leaves), sums(margin_tables(leaf) for leaf in leaves)
        for h11 in range(-1, 10):
            base = LeafMargins(
                (sum(leaf.rows[0] for leaf in leaves), sum(leaf.rows[1] for leaf in leaves)),
                (sum(leaf.columns[0] for leaf in leaves), sum(leaf.columns[1] for leaf in leaves)),
            ).table(h11)
            cells = (*base[0], *base[1])
            fits = cells in possible
            assert fits == (system.broken(cells) is None)
            accepted, refused = accepted + fits, refused + (not fits)
        table = tuple(rng.integers(0, 5, size=4).tolist())
        assert (table in possible) == (system.broken(table) is None)
    assert min(accepted, refused) > 300 * DEPTH


@pytest.mark.deep
def test_theorem_3_accepts_exactly_the_sums_of_leaf_tables() -> None:
    """The written constraints and the solver's limits must both say what enumeration says."""
    rng = np.random.default_rng(3)
    accepted = refused = 0
    for case in range(600 * DEPTH):
        k = int(rng.integers(1, 5))
        groups = random_groups(rng, k, int(rng.integers(1, 4)), 3)
        possible = sums(leaf_tables(leaf) for leaf in groups.leaves)
        table = group_limits(groups)
        system = implied_by_groups(groups) if case % 8 == 0 else None
        total = groups.combinations.total
        candidates = list(compositions(total, k))
        for i in rng.permutation(len(candidates))[:40]:
            x = candidates[i]
            fits = x in possible
            assert fits == keeps(table, x)
            if system is not None:
                assert fits == (system.broken(x) is None)
            accepted, refused = accepted + fits, refused + (not fits)
        off = (candidates[0][0] + 1, *candidates[0][1:])
        assert not keeps(table, off)
    assert min(accepted, refused) > 600 * DEPTH


@st.composite
def small_groups(draw: st.DrawFn) -> Groups:
    """Draw up to three leaves over up to four groups."""
    k = draw(st.integers(1, 4))
    leaves = []
    for _ in range(draw(st.integers(1, 3))):
        is_open = tuple(draw(st.lists(st.booleans(), min_size=k, max_size=k)))
        lower = tuple(draw(st.lists(st.integers(0, 2), min_size=k, max_size=k)))
        rest = draw(st.integers(0, 3)) if any(is_open) else 0
        leaves.append(GroupLeaf(sum(lower) + rest, lower, is_open))
    return Groups(tuple("abcd"[:k]), tuple(leaves))


@given(small_groups(), st.data())
@settings(max_examples=100 * DEPTH, deadline=None)
def test_theorem_3_on_searched_cases(groups: Groups, data: st.DataObject) -> None:
    """Corners that random draws miss: no open group, equal bounds, empty leaves."""
    total = groups.combinations.total
    x = data.draw(st.sampled_from(list(compositions(total, len(groups.names)))[:500]))
    fits = x in sums(leaf_tables(leaf) for leaf in groups.leaves)
    assert fits == (implied_by_groups(groups).broken(x) is None)
    assert fits == keeps(group_limits(groups), x)


def test_a_leaf_without_room_is_refused() -> None:
    """Bounds above the total have no table."""
    with pytest.raises(InfeasibleError, match="cannot have the group bounds"):
        GroupLeaf(3, (2, 2), (True, True))
