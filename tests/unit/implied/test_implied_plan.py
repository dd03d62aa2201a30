"""Contradictions and combinations of a whole plan with its public facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.solved import Census, make_census
from topdown.errors import InfeasibleError
from topdown.model.constraint import Exact
from topdown.model.contradiction import Contradiction, find_contradiction
from topdown.solve.implied.polymatroid import Polymatroid
from topdown.solve.implied.tables import node_combinations


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
    """The combination constraints must never cut off the confidential table itself; a person more must be cut off."""
    context, plan = census.context, census.context.plan
    exact = totals(census, "block")
    invariants = replace(plan.invariants, exact=(Exact("blocks", "block", "total"),))
    there = node_combinations(plan.schema, context.geography, invariants, context.facts, exact)
    assert there.tables(2) is None
    for level in (0, 1):
        tables, truth = there.tables(level), census.truth[level]
        for node in range(truth.n_nodes):
            x = np.zeros(len(there.atoms), dtype=np.int64)
            table = truth.dense(node, node + 1)[0]
            np.add.at(x, there.atoms.of_cell[table > 0], table[table > 0])
            polymatroid = Polymatroid(there.atoms.names, tables[node])
            assert polymatroid.contains(x.tolist())
            assert not polymatroid.contains((x + 1).tolist())
            assert all(a <= b for a, b in zip(polymatroid.lower, x, strict=True))
    broken = {"block": np.zeros_like(exact["block"])}
    with pytest.raises(InfeasibleError, match="contradicts the public facts"):
        node_combinations(plan.schema, context.geography, invariants, context.facts, broken)
