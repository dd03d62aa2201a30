"""Exact tables above the leaves: verdicts and the contradiction check against all small tables written out."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from tests.helpers.depth import DEPTH, repeats
from tests.helpers.implied_brute import (
    SmallCensus,
    answers_right,
    compositions,
    crossing,
    keeps_constraints,
    node_tables,
    node_totals,
    only,
    random_census,
)
from topdown.errors import InfeasibleError
from topdown.formats import Verdict
from topdown.model import (
    ConstraintSystem,
    SplitConstraints,
    complete_totals,
    exact_margins,
    exact_rows,
    find_contradiction,
    split_constraints,
)
from topdown.solve.implied import judge_levels, verdicts

FEW = 4  # people of a node whose tables are all written out
MOST = 7  # the same, where only their existence is asked
RANK = ("refused", "not_guaranteed", "complete", "complete_integral")


def censuses(seed: int, count: int) -> Iterator[SmallCensus]:
    """Make random censuses with an exact table above the leaves, without crossing bounds."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        census = random_census(rng, most=1, inner=True)
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


def satisfied(census: SmallCensus, polytopes: SplitConstraints, level: int, x: np.ndarray, node: int) -> bool:
    """Check a histogram against what the solver enforces at a node: zeros, exact answers, limits or bounds."""
    right = answers_right(census, level, node, tuple(x.tolist()))
    return right and keeps_constraints(census, polytopes, level, x, node)


@pytest.mark.deep
def test_complete_means_complete_with_exact_tables_above_the_leaves() -> None:
    """What is not refused is called complete at every level, and enumeration agrees."""
    rng = np.random.default_rng(41)
    seen: Counter[object] = Counter()
    for census in censuses(42, repeats(150, 1500)):
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
            continue
        for level, verdict in enumerate(said):
            assert verdict.kind in ("complete", "complete_integral")
            assert level == 0 or verdict.kind == "complete_integral"  # only the root's own table may cross
            node = int(rng.integers(len(census.geography.levels[level])))
            reach = node_tables(census, level, node, FEW)
            if not reach:  # too many people, or the exact table contradicts what is below it
                continue
            seen[level, verdict.kind, verdict.needs] += 1
            for total in {sum(x) for x in reach}:
                every = list(compositions(total, census.schema.n_cells))
                for i in rng.permutation(len(every))[:30]:
                    x = every[i]
                    assert (x in reach) == satisfied(census, polytopes, level, np.array(x), node), (level, x)
            for x in list(reach)[:20]:
                assert satisfied(census, polytopes, level, np.array(x), node)
    assert seen["refused"] > repeats(10, 100)
    assert seen[0, "complete", "combination_table"] + seen[0, "complete", "nothing"] > repeats(0, 4), seen
    assert seen[0, "complete_integral", "combination_table"] > repeats(4, 48), seen
    assert seen[1, "complete_integral", "combination_table"] > repeats(4, 48), seen


def test_a_verdict_without_facts_never_promises_more() -> None:
    """`topdown implied` knows no facts: an exact table may be refused there and taken with facts, never otherwise."""
    for census in censuses(43, 100 * DEPTH):
        worst = verdicts(census.schema, census.invariants, census.geography.level_names)
        for a, b in zip(worst, judged(census), strict=True):
            assert RANK.index(a.kind) <= RANK.index(b.kind), (a, b)


@pytest.mark.deep
def test_no_census_with_people_is_refused() -> None:
    """The check of answers is necessary only, but what it refuses must really be impossible, named sets included."""
    seen: Counter[object] = Counter()
    for census in censuses(44, repeats(75, 700)):
        found = find_contradiction(*census.parts)
        if found is None:
            seen["none"] += 1
            continue
        level = census.geography.index(found.level)
        node = census.geography.levels[level].codes.index(found.node)
        smaller = only(census, found.names)
        if "inner" in found.names:
            n = max(int(v.sum()) for v in smaller.exact.values())
            if n <= MOST:
                seen["inner"] += 1
                seen["inner alone"] += len(found.names) == 2
                assert not node_tables(smaller, level, node, n), found
        else:
            assert not node_totals(smaller, level, node, 12)
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
