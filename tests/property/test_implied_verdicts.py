"""The classifier against every small population of random censuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from tests.helpers.implied_brute import (
    SmallCensus,
    compositions,
    crossing,
    node_tables,
    node_totals,
    random_census,
    wanted_totals,
)
from topdown.model.constraint import AtLeast, Invariants, NoneWhereZero
from topdown.model.contradiction import find_contradiction
from topdown.model.geography import from_prefixes
from topdown.model.public import PublicFacts, derive_rules
from topdown.solve.implied.atoms import find_atoms
from topdown.solve.implied.classify import verdicts
from topdown.solve.implied.combinations import assign
from topdown.solve.implied.tables import node_combinations

MOST = 12  # no total of a random census is larger
FEW = 4  # people of a node whose tables are all written out


def censuses(seed: int, count: int) -> list[SmallCensus]:
    """Make random censuses, small enough for enumeration."""
    rng = np.random.default_rng(seed)
    return [random_census(rng, most=1, caps=False) for _ in range(count)]


def disjoint(census: SmallCensus) -> bool:
    """Tell whether the lower bounds are disjoint, the only case the engine takes."""
    return find_atoms(census.schema, census.invariants).shared is None


def satisfied(census: SmallCensus, level: int, x: np.ndarray, node: int) -> bool:
    """Check a node's histogram against what the engine enforces there: zeros, bounds, totals, combinations."""
    rules = derive_rules(census.schema, census.geography, census.invariants, census.facts)
    if x[~rules.open[level][node][rules.class_of_cell]].any():
        return False
    if any(x[cells].sum() < rules.lower[level][node, b] for b, cells in enumerate(rules.bound_cells)):
        return False
    if not wanted_totals(census, level, node) <= {int(x.sum())}:
        return False
    totals = {e.level: census.exact[e.name][:, 0] for e in census.invariants.exact}
    combinations = node_combinations(*census.parts[:4], totals)
    there = combinations.node(level, node)
    if there is None:
        return True
    totals = np.zeros(len(combinations.atoms), dtype=np.int64)
    inside = combinations.atoms.of_cell >= 0
    np.add.at(totals, combinations.atoms.of_cell[inside], x[inside])
    table = combinations.tables(level)
    fits = assign(there, totals.tolist()).flows is not None
    sets = [sum(int(v) for j, v in enumerate(totals) if a >> j & 1) for a in range(1 << len(totals))]
    assert fits == (
        sets[-1] == table[node, -1] and all(s <= u for s, u in zip(sets, table[node], strict=True))
    )
    return fits


def test_complete_means_complete() -> None:
    """Where the classifier says complete, the enforced constraints accept exactly what splits down to the leaves."""
    kinds: Counter[tuple[str, str]] = Counter()
    rng = np.random.default_rng(21)
    for census in censuses(22, 420):
        if crossing(census) or not disjoint(census) or find_contradiction(*census.parts) is not None:
            continue
        said = verdicts(census.schema, census.invariants, census.geography.level_names)
        for level, verdict in enumerate(said):
            kinds[verdict.kind, verdict.needs] += 1
            if verdict.kind == "not_guaranteed" or level == 2:
                continue
            node = int(rng.integers(len(census.geography.levels[level])))
            if min(node_totals(census, level, node, MOST)) > FEW:
                continue
            reach = node_tables(census, level, node, FEW)
            for total in {sum(x) for x in reach} | {int(rng.integers(FEW + 1))}:
                every = list(compositions(total, census.schema.n_cells))
                for i in rng.permutation(len(every))[:30]:
                    x = every[i]
                    assert (x in reach) == satisfied(census, level, np.array(x), node), (verdict, x)
            for x in list(reach)[:20]:
                assert satisfied(census, level, np.array(x), node)
    assert kinds["complete_integral", "combination_table"] > 60
    assert kinds["complete_integral", "nothing"] > 150
    assert kinds["not_guaranteed", "nothing"] > 10


def test_not_guaranteed_is_needed() -> None:
    """A bound over two groups, one closed at the leaf concerned, is the case the classifier must not call complete."""
    census = replace(
        random_census(np.random.default_rng(0), caps=False),
        geography=from_prefixes(("land", "county", "block"), (1, 2, 3), ("011", "012")),
        invariants=Invariants(
            "tiny",
            "",
            "tiny",
            at_least=(AtLeast("beds", (("kind", ("dorm", "ship")),), "u"),),
            none_where_zero=(NoneWhereZero("no dorm", (("kind", ("dorm",)),), ("v",)),),
        ),
        facts=PublicFacts({"u": np.array([1, 0]), "v": np.array([0, 1])}),
        exact={},
    )
    said = verdicts(census.schema, census.invariants, census.geography.level_names)
    assert [v.kind for v in said] == ["not_guaranteed", "not_guaranteed", "complete_integral"]
    one_in_dorm = (0, 0, 1, 0, 0, 0)
    assert satisfied(census, 0, np.array(one_in_dorm), 0)
    assert one_in_dorm not in node_tables(census, 0, 0, 2)
