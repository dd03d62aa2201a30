"""The verdict against every small table of random censuses: complete means complete."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import repeats
from tests.helpers.implied_brute import (
    SmallCensus,
    compositions,
    crossing,
    keeps_constraints,
    node_tables,
    node_totals,
    random_census,
    wanted_totals,
)
from topdown.model import (
    AtLeast,
    ConstraintSystem,
    Invariants,
    LimitUse,
    NoneWhereZero,
    PublicFacts,
    SplitConstraints,
    complete_totals,
    exact_rows,
    find_contradiction,
    from_prefixes,
    public_constraints,
    split_constraints,
)
from topdown.model import split_polytopes as polytopes_module
from topdown.solve.implied import judge_levels, verdicts
from topdown.solve.rounding import NoFlow, level_bounds

MOST = 12  # no total of a random census is larger
FEW = 4  # people of a node whose tables are all written out
RANK = ("refused", "not_guaranteed", "complete", "complete_integral")


def censuses(seed: int, count: int) -> Iterator[SmallCensus]:
    """Make random censuses that the engine takes, small enough for enumeration."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        census = random_census(rng, most=1)
        if not crossing(census) and find_contradiction(*census.parts) is None:
            yield census


def solver_regions(census: SmallCensus) -> SplitConstraints:
    """Build what the solver works with, exact statistics included."""
    schema, invariants = census.schema, census.invariants
    rules = ConstraintSystem.from_facts(schema, census.geography, invariants, census.facts)
    rules = rules.with_exact(census.geography, exact_rows(schema, invariants, census.exact, census.geography))
    totals = {e.level: census.exact[e.name].sum(axis=1) for e in invariants.exact}
    kinds = rules.partition()
    return split_constraints(
        kinds, rules, census.geography, complete_totals(census.geography, rules, kinds, totals)
    )


@pytest.mark.deep
def test_complete_means_complete() -> None:
    """Where the verdict says complete, what is enforced and what splits down to the leaves are the same set."""
    kinds: Counter[object] = Counter()
    rng = np.random.default_rng(21)
    for census in censuses(22, repeats(75, 700)):
        said = judge_levels(census.schema, census.invariants, census.geography, census.facts)
        for level, verdict in enumerate(said):
            kinds[verdict.kind, verdict.needs] += 1
            assert verdict.kind == "complete_integral"  # few kinds, and no settings to spoil the rounding
            node = int(rng.integers(len(census.geography.levels[level])))
            if min(node_totals(census, level, node, MOST)) > FEW:
                continue
            compare(census, level, node, rng)
            kinds["caps"] += bool(census.invariants.at_most)
            kinds["table"] += "table" in census.exact
    assert kinds["complete_integral", "combination_table"] > repeats(25, 300)
    assert kinds["complete_integral", "nothing"] > repeats(12, 140)
    assert min(kinds["caps"], kinds["table"]) > repeats(4, 80)


def compare(census: SmallCensus, level: int, node: int, rng: np.random.Generator) -> None:
    """Hold the solver's constraints of a node against all tables that split, and others near them."""
    polytopes = solver_regions(census)
    reach = node_tables(census, level, node, FEW)
    for total in {sum(x) for x in reach} | {int(rng.integers(FEW + 1))}:
        if not wanted_totals(census, level, node) <= {total}:
            continue
        every = list(compositions(total, census.schema.n_cells))
        for i in rng.permutation(len(every))[:30]:
            x = every[i]
            assert (x in reach) == keeps_constraints(census, polytopes, level, np.array(x), node), (level, x)
    for x in list(reach)[:20]:
        assert keeps_constraints(census, polytopes, level, np.array(x), node)


@pytest.mark.deep
def test_a_verdict_without_facts_never_promises_more() -> None:
    """`topdown implied` knows no facts; what it promises must hold for all of them."""
    differs = 0
    for census in censuses(23, 300):
        worst = verdicts(census.schema, census.invariants, census.geography.level_names)
        real = judge_levels(census.schema, census.invariants, census.geography, census.facts)
        for a, b in zip(worst, real, strict=True):
            assert RANK.index(a.kind) <= RANK.index(b.kind)
            assert (a.needs, b.needs) != ("nothing", "combination_table")
            differs += a.needs != b.needs
    assert differs > 0


def test_not_guaranteed_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound over two kinds, one closed at the leaf concerned, must not be called complete without limits."""
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
    said = judge_levels(census.schema, census.invariants, census.geography, census.facts)
    assert [v.needs for v in said] == ["combination_table", "combination_table", "nothing"]
    one_in_dorm = np.array((0, 0, 1, 0, 0, 0))
    assert tuple(one_in_dorm) not in node_tables(census, 0, 0, 2)
    assert not keeps_constraints(census, solver_regions(census), 0, one_in_dorm, 0)
    monkeypatch.setattr(polytopes_module, "MAX_KINDS", 0)
    said = judge_levels(census.schema, census.invariants, census.geography, census.facts)
    assert [v.kind for v in said] == ["not_guaranteed", "not_guaranteed", "complete_integral"]
    assert said[0].constraints == ["beds"]
    assert keeps_constraints(census, solver_regions(census), 0, one_in_dorm, 0)


@given(st.integers(0, 1_000_000))
@settings(max_examples=200, deadline=None)
def test_a_fitting_chain_always_makes_a_flow(seed: int) -> None:
    """Verdicts without settings rest on it."""
    census = random_census(np.random.default_rng(seed), most=1)
    if crossing(census):
        return
    rules = ConstraintSystem.from_facts(census.schema, census.geography, census.invariants, census.facts)
    polytopes = public_constraints(census.schema, census.invariants, census.geography, rules)
    for depth in range(3):
        if polytopes.decided(depth) is not LimitUse.TOO_MANY:
            bounds = level_bounds(polytopes, depth)
            tables = bounds.fitting_tables()
            chain = bounds.chain(tables, (1,) * len(tables))
            assert not isinstance(bounds.positions(chain), NoFlow)
