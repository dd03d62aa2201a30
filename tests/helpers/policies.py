"""Invariants beyond the bundled ones, one of each kind and what happens when they meet, and toy censuses under them."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers import solved
from tests.helpers.rule_texts import rule
from tests.helpers.rule_twins import TWINS, columns_of, example
from topdown.model import Histogram
from topdown.plan import PublicContext
from topdown.solve import Solved

TOY = Path(__file__).resolve().parents[2] / "invariants" / "toy.toml"


def exact(name: str, level: str, query: str) -> str:
    """Return an exact statistic, with no line before it: the run folders of policies are pinned."""
    return rule("exact", name, level=level, query=query).lstrip()


FEW = rule("no_more_than", "few", 'age = ["0_17"]', than='age = ["18_64"]', times=9)
BLOCKS = exact("blocks", "block", "total")
FEWER_WOMEN = rule(
    "no_more_than",
    "no more women than men at home",
    'dwelling = ["home"], sex = ["female"]',
    than='dwelling = ["home"], sex = ["male"]',
)
COUNTIES = BLOCKS.replace("block", "county")
DWELLINGS = BLOCKS.replace('"total"', '"dwelling"')
FULL_BARRACKS = rule(
    "at_most", "at most four in each barracks", 'dwelling = ["barracks"]', column="barracks", per=4
)
OLD_AT_HOME = rule(
    "at_most",
    "at most one old person in each home",
    'dwelling = ["home"], age = ["65_plus"]',
    column="homes",
)
IN_DORMITORIES = 'dwelling = ["dormitory"], sex = ["female"]'
WOMEN = rule("at_least", "at least one woman in each dormitory", IN_DORMITORIES, column="dormitories")
MIXED = rule(
    "none_where_zero", "no women in dormitories without homes near", IN_DORMITORIES, columns=["homes"]
)


def inexact_toy() -> str:
    """Return the bundled toy invariants without their exact statistic, as one must have to add or remove records."""
    text = TOY.read_text(encoding="utf-8")
    first, second = text.index("[[exact]]"), text.index("[[none_where_zero]]")
    return text[:first] + text[second:]


ONE_OF_EACH = {f"one of {kind}": example(kind) for kind in TWINS}
POLICIES = {
    "blocks": BLOCKS,
    "counties": COUNTIES,
    "caps": FULL_BARRACKS,
    "caps inside": OLD_AT_HOME + FULL_BARRACKS,
    "nested": WOMEN,
    "mixed": MIXED,
    "blocks, caps, nested": BLOCKS + FULL_BARRACKS + WOMEN,
    "counties, caps, mixed": COUNTIES + OLD_AT_HOME + MIXED,
    "blocks, mixed": BLOCKS + MIXED,
    "tables": DWELLINGS,
    "tables, nested, caps inside": DWELLINGS + WOMEN + OLD_AT_HOME,
    "land ages": exact("ages", "land", "age"),
    "land ages, caps inside": exact("ages", "land", "age") + OLD_AT_HOME + FULL_BARRACKS,
    "land ages, block totals": exact("ages", "land", "age * sex") + BLOCKS + MIXED,
    "land dwellings": exact("dwellings", "land", "dwelling"),
    "county dwellings": exact("dwellings", "county", "dwelling"),
    "county dwellings, nested": exact("dwellings", "county", "dwelling")
    + WOMEN
    + OLD_AT_HOME
    + FULL_BARRACKS,
    "county dwellings x sex": exact("both", "county", "dwelling * sex") + exact("homes", "land", "dwelling"),
    "county and land cross": exact("both", "county", "dwelling") + exact("ages", "land", "age * sex"),
}


def make_census(
    folder: Path, seed: int, more: str, *, n_blocks: int = 12, run: str | None = None
) -> solved.Census:
    """Write a toy land under the bundled toy invariants and more, and return it with records that meet them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (solved.TOP / "invariants" / "toy.toml").read_text()
    (folder / "own.toml").write_text(text + "\n" + more)
    run = (run or solved.toy_run()).replace('invariants = "toy"', 'invariants = "own.toml"')
    columns = [name for name in columns_of(text + "\n" + more) if name not in solved.TOY_COLUMNS]
    census = solved.make_census(folder, seed, n_blocks=n_blocks, run=run, columns=columns)
    leaves = fit_records(census.context, census.truth[-1])
    return solved.Census(census.context, leaves.at_every_level(census.context.geography))


def fit_records(context: PublicContext, leaves: Histogram) -> Histogram:
    """Move and drop records until every rule of the leaves is met."""
    rules, n_cells = context.rules, leaves.n_cells
    dense = leaves.dense(0, leaves.n_nodes).reshape(-1, *context.plan.schema.shape).copy()
    shut = ~rules.open[-1][:, rules.class_of_cell].reshape(dense.shape)
    women, men = dense[:, 1, 0], dense[:, 1, 1]
    closed = shut[:, 1, 0].any(axis=1)
    men[closed] += women[closed]
    women[closed] = 0
    dense[shut] = 0
    flat = dense.reshape(-1, n_cells)
    for cells, most in zip(rules.cap_cells, rules.caps.T, strict=True):
        for leaf, room in enumerate(most.tolist()):
            for cell in np.flatnonzero(cells):
                flat[leaf, cell] = min(flat[leaf, cell], room)
                room -= flat[leaf, cell]
    for cells, least in zip(rules.bound_cells, rules.lower[-1].T, strict=True):
        for leaf, low in enumerate(least.tolist()):
            usable = np.flatnonzero(cells & rules.open[-1][leaf, rules.class_of_cell])
            short = low - flat[leaf, cells].sum()
            if short > 0:
                flat[leaf, usable[0]] += short
    node, cell = np.nonzero(flat)
    return Histogram.build(len(flat), n_cells, node, cell, flat[node, cell])


def exact_values(census: solved.Census) -> dict[str, np.ndarray]:
    """Return the totals that the census's invariants keep exact, by level name."""
    names = census.context.geography.level_names
    levels = {e.level for e in census.context.plan.invariants.exact}
    return {name: census.truth[names.index(name)].totals() for name in levels}


def exact_tables(census: solved.Census) -> dict[str, np.ndarray]:
    """Return the exact tables other than totals, by name."""
    plan, names = census.context.plan, census.context.geography.level_names
    queries = {e.name: (names.index(e.level), plan.query(e.query)) for e in plan.invariants.exact}
    return {name: census.truth[depth].answers(q) for name, (depth, q) in queries.items() if q.factors}


def solve(census: solved.Census, answers: solved.NoisyAnswers, **how: Any) -> Solved:
    """Solve a census from noisy answers and what is exact of it."""
    exact, tables = exact_values(census), exact_tables(census)
    return solved.solve_answers(census.context, answers, exact, tables=tables, **how)


def check_promises(census: solved.Census, leaves: Histogram) -> None:
    """Fail unless every rule holds at every level and every exact total is met."""
    rules = census.context.rules
    every, names = leaves.at_every_level(census.context.geography), census.context.geography.level_names
    for depth, (table, truth) in enumerate(zip(every, census.truth, strict=True)):
        assert rules.open[depth][table.node, rules.class_of_cell[table.cell]].all()
        dense = table.dense(0, table.n_nodes)
        for b, cells in enumerate(rules.bound_cells):
            assert (dense[:, cells].sum(axis=1) >= rules.lower[depth][:, b]).all()
        up = census.context.geography.ancestors_of_leaves[depth]
        for b, cells in enumerate(rules.cap_cells):
            most = np.zeros(table.n_nodes, dtype=np.int64)
            np.add.at(most, up, rules.caps[:, b])
            assert (dense[:, cells].sum(axis=1) <= most).all()
        if names[depth] in exact_values(census):
            np.testing.assert_array_equal(table.totals(), truth.totals())
    values = exact_tables(census)
    for e in census.context.plan.invariants.exact:
        if e.name in values:
            found = every[names.index(e.level)].answers(census.context.plan.query(e.query))
            np.testing.assert_array_equal(found, values[e.name])
    if census.context.plan.invariants.exact:
        assert leaves.n_records == census.truth[0].n_records


def write_records(folder: Path, census: solved.Census) -> None:
    """Write the true records where the run file expects them."""
    schema, leaves = census.context.plan.schema, census.truth[-1]
    codes = census.context.geography.leaves.codes
    lines = ["geocode," + ",".join(a.name for a in schema.attributes) + ",count"]
    places = schema.coordinates(leaves.cell)
    for i in range(len(leaves.count)):
        labels = [a.labels[int(p[i])] for a, p in zip(schema.attributes, places, strict=True)]
        lines.append(",".join([codes[leaves.node[i]], *labels, str(leaves.count[i])]))
    (folder / "records.csv").write_text("\n".join(lines) + "\n")
