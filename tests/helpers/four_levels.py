"""Toy lands of four levels, so that a county solved for itself has tracts that may need limits."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.helpers import policies, solved
from topdown.model import Geography, Histogram
from topdown.plan import PublicContext, prepare

Facts = tuple[int, int, int]  # homes, dormitories, barracks
CODES = (
    *("111", "112", "113", "121", "122", "123"),
    *("211", "212", "213", "221", "222", "231", "232"),
    *("311", "312", "313", "321", "322", "331", "332", "333"),
)


def run_text() -> str:
    """Return a run file whose tracts are measured and rounded like counties."""
    text = solved.toy_run().replace('"land", "county", "block"', '"land", "county", "tract", "block"')
    text = text.replace("[0, 1, 3]", "[0, 1, 2, 3]").replace('share = "1/2"\npasses', 'share = "1/4"\npasses')
    first, last = text.index('[[level]]\nname = "county"'), text.index('[[level]]\nname = "block"')
    county = text[first:last]
    return text[:last] + county.replace('"county"', '"tract"') + text[last:]


def make_land(
    more: str, facts: Callable[[str], Facts], run: str | None = None, codes: Sequence[str] = CODES
) -> solved.Census:
    """Return a land with random people, under the toy invariants and more.

    Args:
        more: text of an invariants file.
        facts: of the block with a geocode.
        run: text of the run file, if not `run_text`.
        codes: of the blocks: county, tract, block, a digit each.
    """
    rng = np.random.default_rng(1)
    rows = [",".join([code, *map(str, facts(code))]) for code in codes]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "leaves.csv").write_text("geocode,homes,dormitories,barracks\n" + "\n".join(rows) + "\n")
        (folder / "own.toml").write_text((solved.TOP / "invariants" / "toy.toml").read_text() + "\n" + more)
        text = (run or run_text()).replace('invariants = "toy"', 'invariants = "own.toml"')
        (folder / "run.toml").write_text(text)
        context = prepare(folder / "run.toml").context
    is_open = context.rules.open[-1][:, context.rules.class_of_cell]
    dense = rng.poisson(1.5, is_open.shape) * is_open
    node, cell = np.nonzero(dense)
    drawn = Histogram.build(*dense.shape, node, cell, dense[node, cell])
    leaves = policies.fit_records(context, drawn)
    return solved.Census(context, leaves.at_every_level(context.geography))


def county_alone(census: solved.Census, county: int) -> solved.Census:
    """Return a county as if it were all there is: its places, its facts, and only its people."""
    context, leaves = census.context, census.truth[-1]
    ranges = context.geography.ranges(1, county, county + 1)
    first, last = ranges[-1].start, ranges[-1].stop
    geography: Geography = context.geography.part(ranges)
    mine = (leaves.node >= first) & (leaves.node < last)
    people = Histogram(
        last - first, leaves.n_cells, leaves.node[mine] - first, leaves.cell[mine], leaves.count[mine]
    )
    alone: PublicContext = replace(context, geography=geography, facts=context.facts.at(ranges[-1]))
    return solved.Census(alone, people.at_every_level(geography))
