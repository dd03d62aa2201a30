"""What `topdown implied --leaves` prints for an area, read back and compared with the solver's limits."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import repeats
from tests.helpers.implied_brute import SmallCensus, crossing, random_census
from tests.helpers.polytopes import limit_excess
from topdown.model import (
    ConstraintSystem,
    LimitUse,
    SplitConstraints,
    complete_totals,
    find_contradiction,
    public_constraints,
    split_constraints,
)
from topdown.solve.implied import (
    VerdictInputs,
    kind_names,
    node_constraints,
    selection_text,
)

MOST = 3  # people of a kind in the vectors tried


def ground_of(census: SmallCensus) -> VerdictInputs:
    """Return what the printer reads: no exact statistics."""
    schema, invariants = census.schema, census.invariants
    rules = ConstraintSystem.from_facts(schema, census.geography, invariants, census.facts)
    return VerdictInputs(
        schema, invariants, rules, public_constraints(schema, invariants, census.geography, rules), ()
    )


def symbols(census: SmallCensus, polytopes: SplitConstraints, area, leaves: np.ndarray) -> dict[str, int]:
    """Add up true totals by combination, from the definition."""
    names = kind_names(census.schema, polytopes.partition)
    depth = census.geography.index(area.total_level)
    units = census.geography.ancestors_of_leaves[depth]
    values = dict.fromkeys((c.symbol for c in area.totals if c.symbol), 0)
    for unit in np.unique(units[leaves]):
        is_open = polytopes.system.open[-1][units == unit][:, polytopes.partition.class_of].any(axis=0)
        there = [name for name, o in zip(names, is_open, strict=True) if o]
        if there:
            values[next(c.symbol for c in area.totals if c.kinds == there)] += int(
                polytopes.totals[depth][unit]
            )
    return values


def holds(lines: list[str], names: tuple[str, ...], x: tuple[int, ...], values: dict[str, int]) -> bool:
    """Evaluate printed lines for a vector of kinds."""
    for line in lines:
        inside, relation, right = re.fullmatch(r"x\[(.*)\] (<=|>=|=) (.*)", line).groups()
        left = sum(x[names.index(name)] for name in inside.split(" + "))
        value = eval(right, {}, values)  # noqa: S307
        if not {"<=": left <= value, ">=": left >= value, "=": left == value}[relation]:
            return False
    return True


@pytest.mark.deep
@given(st.integers(0, 1_000_000), st.booleans(), st.sampled_from([0, 1]))
@settings(max_examples=repeats(100, 400), deadline=None)
def test_printed_limits_are_those_of_the_solver(seed: int, caps: bool, depth: int) -> None:
    """An office that checks a table by hand against the printed lines must come to the solver's answer."""
    rng = np.random.default_rng(seed)
    census = random_census(rng, most=3, caps=caps)
    if crossing(census) or "table" in census.exact or find_contradiction(*census.parts) is not None:
        return
    ground = ground_of(census)
    rules, kinds = ground.rules, ground.constraints.partition
    symbolic = depth < ground.constraints.unit_depth
    own_total = depth <= ground.constraints.unit_depth
    if ground.constraints.decided(depth) is not LimitUse.KEPT or kinds.n_kinds == 0 or not kinds.members.size:
        return
    if symbolic and (census.invariants.at_most or rules.nested):
        return
    node = int(rng.integers(len(census.geography.levels[depth])))
    area = node_constraints(ground, census.facts.columns, depth, node, most_limits=10_000)
    totals = {e.level: census.exact[e.name].sum(axis=1) for e in census.invariants.exact}
    assert np.array_equal(rules.partition().of_cell, kinds.of_cell)
    polytopes = split_constraints(
        kinds, rules, census.geography, complete_totals(census.geography, rules, kinds, totals)
    )
    inside = np.arange(len(census.geography.leaves))[polytopes.leaf_range(depth, node)]
    names = kind_names(census.schema, kinds)
    values = symbols(census, polytopes, area, inside) if symbolic else {}
    is_open = rules.open[depth][node][kinds.class_of]
    bounds = {
        selection_text(census.schema, b.cells): b.cells
        for b in (*census.invariants.at_least, *census.invariants.at_most)
    }
    table = polytopes.limits(depth, np.array([node]))
    everybody = int(polytopes.totals[depth][node]) if own_total else None
    for x in product(range(MOST + 1), repeat=kinds.n_kinds):
        if any(n and not o for n, o in zip(x, is_open, strict=True)):
            continue
        if everybody is not None and sum(x) != everybody:
            continue
        said = holds(area.limits, names, x, values)
        for line in area.lines:
            selection, relation, number = re.fullmatch(r"x\[(.*)\] (<=|>=|=) (.*)", line.algebra).groups()
            if selection in bounds and relation != "=":
                cells = census.schema.select(dict(bounds[selection]))
                chosen = np.unique(kinds.of_cell[cells & (kinds.of_cell >= 0)])
                held = sum(x[k] for k in chosen)
                said &= held <= int(number) if relation == "<=" else held >= int(number)
        assert said == (limit_excess(table, np.array(x)[:, None])[0] <= 0), (x, area)
