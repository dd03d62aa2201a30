"""The classifier and the contradiction check against every small population of random censuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.implied_brute import SmallCensus, compositions, node_tables, node_totals, random_census
from topdown.errors import ConfigError, InfeasibleError
from topdown.model.constraint import AtLeast, Invariants, NoneWhereZero
from topdown.model.geography import from_prefixes
from topdown.model.kinds import find_kinds
from topdown.model.public import PublicFacts, derive_rules
from topdown.solve.exact import complete_totals
from topdown.solve.implied.atoms import find_atoms
from topdown.solve.implied.classify import verdicts
from topdown.solve.implied.contradiction import Contradiction, find_contradiction
from topdown.solve.regions import Regions, excess

MOST = 12  # no total of a random census is larger
FEW = 4  # people of a node whose tables are all written out


def censuses(seed: int, count: int) -> list[SmallCensus]:
    """Make random censuses, small enough for enumeration."""
    rng = np.random.default_rng(seed)
    return [random_census(rng, most=1) for _ in range(count)]


def disjoint(census: SmallCensus) -> bool:
    """Tell whether the lower bounds are disjoint, the only case the engine takes."""
    return find_atoms(census.schema, census.invariants).shared is None


def without(census: SmallCensus, name: str) -> SmallCensus:
    """Leave one constraint out."""
    old = census.invariants
    rules = {
        kind: tuple(r for r in getattr(old, kind) if r.name != name)
        for kind in ("exact", "at_least", "none_where_zero", "never")
    }
    exact = {e.level: census.exact[e.level] for e in rules["exact"]}
    return replace(census, invariants=replace(old, **rules), exact=exact)


def feasible(census: SmallCensus, level: int = 0, node: int = 0) -> bool:
    """Decide by enumeration whether a population exists below a node."""
    return bool(node_totals(census, level, node, MOST))


def test_contradictions_are_all_found_and_irreducible() -> None:
    """A missed one wastes the budget; a false one refuses a good census; a fat one hides the cause."""
    seen: Counter[str] = Counter()
    for census in censuses(20, 1200):
        if not disjoint(census):
            with pytest.raises(ConfigError, match="shares cells"):
                find_contradiction(*census.parts)
            continue
        found = find_contradiction(*census.parts)
        assert feasible(census) == (found is None)
        seen["none" if found is None else f"{min(len(found.names), 3)} names"] += 1
        if found is None:
            continue
        level = census.geography.index(found.level)
        node = census.geography.levels[level].codes.index(found.node)
        assert not feasible(census, level, node)
        others = [
            r.name
            for k in ("exact", "at_least", "none_where_zero", "never")
            for r in getattr(census.invariants, k)
        ]
        smaller = census
        for name in set(others) - set(found.names):
            smaller = without(smaller, name)
        assert not feasible(smaller, level, node)
        for name in found.names:
            assert feasible(without(smaller, name), level, node), (name, found)
    assert min(seen[k] for k in ("none", "2 names", "3 names")) >= 20, seen


def satisfied(census: SmallCensus, level: int, x: np.ndarray, node: int) -> bool:
    """Check a node's histogram against what the engine enforces there: zeros, bounds, totals, limits."""
    rules = derive_rules(census.schema, census.geography, census.invariants, census.facts)
    if x[~rules.open[level][node][rules.class_of_cell]].any():
        return False
    if any(x[cells].sum() < rules.lower[level][node, b] for b, cells in enumerate(rules.bound_cells)):
        return False
    name = census.geography.levels[level].name
    if name in census.exact and x.sum() != census.exact[name][node]:
        return False
    kinds = find_kinds(rules)
    totals = complete_totals(census.geography, rules, kinds, census.exact)
    regions = Regions(kinds, rules, census.geography, totals)
    if level in totals and x.sum() != totals[level][node]:
        return False
    if not regions.limited(level):
        return True
    held = np.zeros((kinds.n_kinds, 1), dtype=np.int64)
    inside = kinds.of_cell >= 0
    np.add.at(held[:, 0], kinds.of_cell[inside], x[inside])
    return bool(excess(regions.limits(level, np.array([node])), held)[0] <= 0)


def test_complete_means_complete() -> None:
    """Where the classifier says complete, the enforced constraints accept exactly what splits down to the leaves."""
    kinds: Counter[tuple[str, str]] = Counter()
    rng = np.random.default_rng(21)
    for census in censuses(22, 420):
        if not disjoint(census) or find_contradiction(*census.parts) is not None:
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
    """A bound over two groups, one closed at the leaf concerned, is not complete by sums alone; limits say more."""
    census = replace(
        random_census(np.random.default_rng(0)),
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
    rules = derive_rules(census.schema, census.geography, census.invariants, census.facts)
    assert np.array(one_in_dorm)[rules.bound_cells[0]].sum() >= rules.lower[0][0, 0]
    assert one_in_dorm not in node_tables(census, 0, 0, 2)
    assert not satisfied(census, 0, np.array(one_in_dorm), 0)


def test_refusal_names_constraints_and_node() -> None:
    """The message must say what and where, and never an exact statistic's value."""
    error = Contradiction("county", "012", "", ("exact county", "least 0")).error()
    assert isinstance(error, InfeasibleError)
    assert error.code == "I002"
    assert error.node == "012"
    assert error.text == "2 constraints exclude each other at county 012"
    assert [value for _, value in error.details] == ["exact county", "least 0"]
