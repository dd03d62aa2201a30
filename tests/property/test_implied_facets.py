"""Irredundant limits against exact linear programs: what is left out follows, what is kept does not."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.polytopes import make_polytopes
from topdown.model import NO_LIMIT
from topdown.solve.implied import Relation, Row, System, facets, is_implied


def row(limits: np.ndarray, a: int, relation: Relation) -> Row:
    """Write x(A) <= or = its limit."""
    n = len(limits).bit_length() - 1
    return Row(tuple(a >> i & 1 for i in range(n)), relation, int(limits[a]))


@given(st.integers(0, 1_000_000), st.sampled_from([0, 1, 2, None]), st.booleans(), st.sampled_from([0, 1]))
@settings(max_examples=150, deadline=None)
def test_facets_are_all_limits_and_none_too_many(
    seed: int, exact: int | None, caps: bool, depth: int
) -> None:
    """A limit too few would hide a constraint from an office; one too many would bury the others."""
    polytopes = make_polytopes(seed, exact=exact, caps=caps)
    limits = polytopes.limits(depth, np.array([0]))[0]
    found = facets(limits)
    assert sum(found.parts) == len(limits) - 1
    names = tuple("abcdefgh"[: len(limits).bit_length() - 1])
    fixed = tuple(row(limits, a, "=") for a in found.parts)
    kept = tuple(row(limits, a, "<=") for a in found.limits)
    for a in range(1, len(limits)):
        if limits[a] < NO_LIMIT // 2:
            assert is_implied(System(names, fixed + kept), row(limits, a, "<="))
    for i, one in enumerate(kept):
        assert not is_implied(System(names, fixed + kept[:i] + kept[i + 1 :]), one)
