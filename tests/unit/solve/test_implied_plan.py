"""Contradictions and combinations of a whole plan with its public facts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.polytopes import limit_excess
from tests.helpers.solved import Census, make_census
from topdown.errors import InfeasibleError
from topdown.model import (
    Contradiction,
    Exact,
    LimitUse,
    complete_totals,
    find_contradiction,
    split_constraints,
)


@pytest.fixture
def census(tmp_path: Path) -> Census:
    """Make a toy land with records that keep its invariants."""
    return make_census(tmp_path, 5, n_blocks=30)


def totals(census: Census, *levels: str) -> dict[str, np.ndarray]:
    """Return the true totals of some levels."""
    return {name: census.truth[census.context.geography.index(name)].totals() for name in levels}


def test_true_statistics_are_no_contradiction(census: Census) -> None:
    """A refusal of a real census would stop every release."""
    assert found(census, {}) is None
    assert found(census, totals(census, "land", "county", "block")) is None


def found(census: Census, exact: dict[str, np.ndarray]) -> Contradiction | None:
    """Look for a contradiction with exact totals of some levels."""
    context, plan = census.context, census.context.plan
    invariants = replace(plan.invariants, exact=tuple(Exact(name, name, "total") for name in exact))
    values = {name: total[:, None] for name, total in exact.items()}
    return find_contradiction(plan.schema, context.geography, invariants, context.facts, values)


def test_an_impossible_block_is_named(census: Census) -> None:
    """People where there is neither home, dormitory nor barracks: the leaf and the rules in the way are named."""
    exact, facts = totals(census, "block"), census.context.facts.columns
    empty = int(np.flatnonzero(facts["homes"] + facts["dormitories"] + facts["barracks"] == 0)[0])
    exact["block"][empty] = 3
    said = found(census, exact)
    assert said is not None
    assert said.leaf == census.context.geography.leaves.codes[empty]
    assert set(said.names) == {
        "block",
        *(rule.name for rule in census.context.plan.invariants.none_where_zero),
    }


def test_truth_lies_in_every_table(census: Census) -> None:
    """The solver's limits must never cut off the confidential table itself; a person more must be cut off."""
    geography, rules = census.context.geography, census.context.rules
    exact, kinds = totals(census, "block"), rules.partition()
    polytopes = split_constraints(kinds, rules, geography, complete_totals(geography, rules, kinds, exact))
    for level in (0, 1):
        assert polytopes.decided(level) is LimitUse.KEPT
        truth = census.truth[level]
        held = np.zeros((kinds.n_kinds, truth.n_nodes), dtype=np.int64)
        dense, inside = truth.dense(0, truth.n_nodes), kinds.of_cell >= 0
        np.add.at(held, kinds.of_cell[inside], dense[:, inside].T)
        limits = polytopes.limits(level, np.arange(truth.n_nodes))
        assert (limit_excess(limits, held) <= 0).all()
        assert (limit_excess(limits, held + 1) > 0).all()
    with pytest.raises(InfeasibleError, match="contradicts the public facts"):
        complete_totals(geography, rules, kinds, {"block": np.zeros_like(exact["block"])})
