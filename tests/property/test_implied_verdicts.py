"""The verdict against every small table of random censuses: complete means complete."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH, repeats
from tests.helpers.implied_brute import (
    SmallCensus,
    Vector,
    answers_right,
    compositions,
    crossing,
    keeps_constraints,
    node_tables,
    random_census,
    wanted_totals,
)
from topdown.errors import InfeasibleError
from topdown.formats import Verdict
from topdown.model import (
    AtLeast,
    ConstraintSystem,
    Invariants,
    LimitUse,
    NoneWhereZero,
    PublicFacts,
    SplitConstraints,
    complete_totals,
    exact_margins,
    exact_rows,
    find_contradiction,
    from_prefixes,
    public_constraints,
    split_constraints,
)
from topdown.model import split_polytopes as polytopes_module
from topdown.solve.implied import judge_levels, verdicts
from topdown.solve.rounding import NoFlow, level_bounds

FEW = 4  # people of a node whose tables are all written out
RANK = ("refused", "not_guaranteed", "complete", "complete_integral")


def censuses(seed: int, count: int, *, inner: bool) -> Iterator[SmallCensus]:
    """Make random censuses without crossing bounds, small enough for enumeration; see `random_census`."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        census = random_census(rng, most=1, inner=inner)
        if not crossing(census):
            yield census


def judged(census: SmallCensus) -> tuple[Verdict, ...]:
    """Judge with the census's own facts."""
    return judge_levels(census.schema, census.invariants, census.geography, census.facts)


def solver_regions(census: SmallCensus) -> SplitConstraints:
    """Build what the solver works with, exact statistics included."""
    schema, tree, invariants = census.schema, census.geography, census.invariants
    plain = ConstraintSystem.from_facts(schema, tree, invariants, census.facts)
    rules = plain.with_exact(tree, exact_rows(schema, invariants, census.exact, tree))
    totals = {e.level: census.exact[e.name].sum(axis=1) for e in invariants.exact}
    tables = {e.name: census.exact[e.name] for e in invariants.exact if e.query != "total"}
    margins = exact_margins(schema, invariants, tree, plain, totals, tables)
    kinds = rules.partition(margins.split.of_cell)
    full = complete_totals(tree, rules, kinds, totals, margins)
    return split_constraints(kinds, rules, tree, full, margins)


@pytest.mark.deep
@pytest.mark.parametrize("inner", [False, True])
def test_complete_means_complete(inner: bool) -> None:
    """What is called complete is enforced as what splits down to the leaves, also with tables above the leaves."""
    seen: Counter[object] = Counter()
    rng = np.random.default_rng(21)
    for census in censuses(42 if inner else 22, repeats(150, 1500), inner=inner):
        said = judged(census)
        if said[0].kind == "refused":
            assert {v.code for v in said} == {"C033"}
            seen["refused"] += 1
            continue
        if find_contradiction(*census.parts) is not None:
            continue
        try:
            polytopes = solver_regions(census)
        except InfeasibleError:
            assert inner
            continue
        for level, verdict in enumerate(said):
            # few kinds, and no settings to spoil the rounding; only the root's own table may cross
            assert verdict.kind == "complete_integral" or (inner and (level, verdict.kind) == (0, "complete"))
            node = int(rng.integers(len(census.geography.levels[level])))
            reach = node_tables(census, level, node, FEW)
            if not reach:  # too many people, or the exact table contradicts what is below it
                continue
            compare(census, polytopes, (level, node), reach, rng)
            seen[level, verdict.kind, verdict.needs] += 1
            seen["caps"] += bool(census.invariants.at_most)
            seen["table"] += "table" in census.exact
    if inner:
        assert seen["refused"] > repeats(10, 100)
        assert seen[0, "complete", "combination_table"] + seen[0, "complete", "nothing"] > repeats(0, 4), seen
        assert seen[0, "complete_integral", "combination_table"] > repeats(4, 48), seen
        assert seen[1, "complete_integral", "combination_table"] > repeats(4, 48), seen
    else:
        assert min(seen[0, "complete_integral", need] for need in ("combination_table", "nothing")) > repeats(
            4, 48
        )
        assert min(seen["caps"], seen["table"]) > repeats(4, 80)


def compare(
    census: SmallCensus,
    polytopes: SplitConstraints,
    place: tuple[int, int],
    reach: set[Vector],
    rng: np.random.Generator,
) -> None:
    """Hold the solver's constraints of a node (level, node) against all tables that split, and others near them."""

    def satisfies(x: Vector) -> bool:
        right = answers_right(census, *place, x)
        return right and keeps_constraints(census, polytopes, place[0], np.array(x), place[1])

    for total in {sum(x) for x in reach} | {int(rng.integers(FEW + 1))}:
        if not wanted_totals(census, *place) <= {total}:
            continue
        every = list(compositions(total, census.schema.n_cells))
        for i in rng.permutation(len(every))[:30]:
            assert (every[i] in reach) == satisfies(every[i]), (place, every[i])
    assert all(map(satisfies, list(reach)[:20]))


@pytest.mark.deep
@pytest.mark.parametrize("inner", [False, True])
def test_a_verdict_without_facts_never_promises_more(inner: bool) -> None:
    """`topdown implied` knows no facts; what it promises must hold for all of them."""
    differs = 0
    for census in censuses(43 if inner else 23, 100 * DEPTH if inner else 300, inner=inner):
        if not inner and find_contradiction(*census.parts) is not None:
            continue
        worst = verdicts(census.schema, census.invariants, census.geography.level_names)
        for a, b in zip(worst, judged(census), strict=True):
            assert RANK.index(a.kind) <= RANK.index(b.kind), (a, b)
            assert inner or (a.needs, b.needs) != ("nothing", "combination_table")
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
    said = judged(census)
    assert [v.needs for v in said] == ["combination_table", "combination_table", "nothing"]
    one_in_dorm = np.array((0, 0, 1, 0, 0, 0))
    assert tuple(one_in_dorm) not in node_tables(census, 0, 0, 2)
    assert not keeps_constraints(census, solver_regions(census), 0, one_in_dorm, 0)
    monkeypatch.setattr(polytopes_module, "MAX_KINDS", 0)
    said = judged(census)
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
