"""Censuses that no made-up people stand for: of nobody, one person, one area, closed cells, an empty county."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import policies, solved
from tests.helpers.depth import DEPTH
from topdown.errors import ConfigError, TopdownError
from topdown.model import Histogram
from topdown.plan import prepare
from topdown.solve import solve_answers, try_exact_statistics


@dataclass(frozen=True)
class Shape:
    """A small land and where its people are.

    Args:
        leaves: (geocode, homes, dormitories, barracks).
        people: (leaf, dwelling, sex, age, count), by index.
    """

    leaves: tuple[tuple[str, int, int, int], ...]
    people: tuple[tuple[int, ...], ...] = ()


HOMES = (("101", 3, 0, 0), ("102", 2, 0, 0), ("201", 1, 0, 0), ("202", 0, 0, 0))
SHAPES = {
    "nobody": Shape(HOMES),
    "nobody in the only area": Shape((("101", 1, 0, 0),)),
    "one person": Shape(HOMES, ((1, 0, 1, 2, 1),)),
    "one area": Shape((("101", 1, 1, 1),), ((0, 0, 0, 0, 5), (0, 1, 1, 1, 3))),
    "everybody in one cell": Shape(HOMES, ((0, 0, 0, 1, 9), (2, 0, 0, 1, 4))),
    "homes closed everywhere": Shape((("101", 0, 1, 0), ("201", 0, 1, 1)), ((0, 1, 1, 1, 2),)),
    "every cell of a county closed": Shape((*HOMES[:2], ("201", 0, 0, 0)), ((0, 0, 0, 1, 7),)),
    "an empty county": Shape(HOMES, ((0, 0, 1, 0, 3), (1, 0, 0, 2, 4))),
}


def make_census(folder: Path, policy: str, shape: Shape, run: str) -> solved.Census:
    """Write a land of a shape under a policy; return it with people who keep its rules."""
    rows = "".join(",".join(map(str, leaf)) + "\n" for leaf in shape.leaves)
    (folder / "leaves.csv").write_text("geocode,homes,dormitories,barracks\n" + rows)
    toy = (solved.TOP / "invariants" / "toy.toml").read_text()
    (folder / "own.toml").write_text(f"{toy}\n{policies.POLICIES[policy]}")
    (folder / "run.toml").write_text(run.replace('invariants = "toy"', 'invariants = "own.toml"'))
    context = prepare(folder / "run.toml").context
    table = np.zeros((len(shape.leaves), *context.plan.schema.shape), dtype=np.int64)
    for *place, count in shape.people:
        table[tuple(place)] += count
    flat = table.reshape(len(table), -1)
    node, cell = np.nonzero(flat)
    truth = Histogram.build(len(flat), flat.shape[1], node, cell, flat[node, cell])
    truth = policies.fit_records(context, truth)
    return solved.Census(context, truth.at_every_level(context.geography))


@pytest.mark.deep
@pytest.mark.parametrize("policy", policies.POLICIES)
def test_every_degenerate_census_is_refused_by_its_plan_or_solved(tmp_path: Path, policy: str) -> None:
    """A census of nobody with an exact table was charged, and no solve of it ever ended."""
    turn, n_solved = list(policies.POLICIES).index(policy) % 3, 0
    for number, shape in enumerate(SHAPES):
        if number not in (0, 3) and number % 3 != turn and DEPTH == 1:
            continue
        try:
            census = make_census(tmp_path, policy, SHAPES[shape], solved.toy_run())
        except ConfigError as error:
            if error.code != "C120":  # no two data sets are neighbours under it
                raise
            continue
        n_solved += 1
        totals, tables = policies.exact_values(census), policies.exact_tables(census)
        values = {
            e.name: tables[e.name] if e.name in tables else totals[e.level][:, None]
            for e in census.context.plan.invariants.exact
        }
        try_exact_statistics(census.context, values)
        for seed in range(DEPTH):
            result = solve_answers(
                census.context, solved.noisy(census, seed, size=3.0), totals, tables=tables
            )
            policies.check_promises(census, result.leaves.whole())
            assert result.document.failsafe == [], shape
    assert n_solved


def test_what_fails_of_exact_statistics_names_them_only(tmp_path: Path) -> None:
    """An exact table of other people than the total counts must be refused where nothing is charged yet."""
    census = make_census(tmp_path, "land ages", SHAPES["one person"], solved.toy_run())
    totals, tables = policies.exact_values(census), policies.exact_tables(census)
    wrong = {name: table + 1 for name, table in tables.items()}
    values = wrong | {
        e.name: totals[e.level][:, None] for e in census.context.plan.invariants.exact if e.name not in wrong
    }
    with pytest.raises(TopdownError) as caught:
        try_exact_statistics(census.context, values)
    assert caught.value.code.startswith("I")
