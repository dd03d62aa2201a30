"""The page about production's published output: its numbers, and the arithmetic of the benchmark that makes them."""

import json

import numpy as np
import pytest

from bench import bench_production as bench
from topdown.model import Attribute, Histogram, Query, Schema, from_prefixes, parse_query

SCHEMA = Schema("toy", "toy", "person", (Attribute("sex", ("f", "m")), Attribute("age", ("young", "old"))))
CODES = ("11a1", "11a2", "11b1", "12a1", "12a2", "12b1")  # two tracts, four block groups
TRUE = [[3, 0, 0, 1], [0, 0, 0, 0], [9, 0, 0, 0], [0, 2, 0, 0], [5, 5, 5, 5], [0, 0, 0, 0]]
RELEASED = [[2, 1, 0, 1], [1, 0, 0, 0], [9, 0, 0, 2], [0, 0, 0, 0], [5, 4, 4, 5], [0, 0, 0, 0]]


def leaves_of(dense: list[list[int]]) -> Histogram:
    """Return a leaf table."""
    counts = np.array(dense, dtype=np.int64)
    node, cell = np.nonzero(counts)
    return Histogram.build(*counts.shape, node, cell, counts[node, cell])


def by_loops(query: Query, n_letters: int) -> float:
    """Return the mean L1 error of a table over areas, added up one count at a time."""
    off: dict[tuple[str, int], int] = {}
    for code, true, released in zip(CODES, TRUE, RELEASED, strict=True):
        for cell, answer in enumerate(query.labels.tolist()):
            place = code[:n_letters], answer
            off[place] = off.get(place, 0) + released[cell] - true[cell]
    return sum(map(abs, off.values())) / len({code[:n_letters] for code in CODES})


def test_errors_on_a_toy_are_those_of_loops() -> None:
    """A mean over inhabited areas, or over answers, would be set beside production's mean over all areas."""
    geography = from_prefixes(("county", "tract", "block_group", "block"), (1, 2, 3, 4), CODES)
    queries = [parse_query(SCHEMA, name) for name in ("total", "sex", "sex * age")]
    truth = leaves_of(TRUE).at_every_level(geography)
    found = bench.figures_of(geography, queries, truth, leaves_of(RELEASED))
    for query in queries:
        for n_letters, level in ((2, "tract"), (3, "block_group"), (4, "block")):
            assert by_loops(query, n_letters) == pytest.approx(found[f"{level} {query.name}"])
    assert {"emptied": 1, "filled": 1}.items() <= found.items()
    # sizes 4, 0, 9, 2, 20, 0; released minus true 0, 1, 2, -2, -2, 0
    assert [found[f"bias {size}"] for size in ("0", "1 to 9", "10 to 49", "50 to 99")] == [
        0.5,
        0.0,
        -2.0,
        0.0,
    ]


def test_spread_has_mean_deviation_and_standard_error() -> None:
    """A standard error printed as the deviation of one draw, or the other way round, misleads by a factor of four."""
    found = bench.spread([{"x": 1.0}, {"x": 2.0}, {"x": 6.0}])["x"]
    assert pytest.approx([found[k] for k in ("mean", "deviation", "error")], abs=1e-5) == [
        3.0,
        7.0**0.5,
        (7 / 3) ** 0.5,
    ]


def test_the_numbers_of_the_page_are_those_of_the_result_file() -> None:
    """A table edited by hand, or an older run's, would be read as measured."""
    result = json.loads(bench.RESULT.read_text(encoding="utf-8"))
    page = bench.PAGE.read_text(encoding="utf-8")
    assert page == bench.with_tables(page, bench.page_tables(result))
    assert {"mean", "deviation", "error"} == set(result["settings"]["pl94_tuned"]["block total"])
    assert result["draws"] == 20
