"""Pages that quote results of benchmarks: their numbers are those of the result files."""

import json
import re
from importlib import import_module
from pathlib import Path

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
    biases = {"0": 0.5, "1 to 9": 0.0, "10 to 49": -2.0, "50 to 99": 0.0}
    assert {size: found[f"bias {size}"] for size in biases} == biases


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


ROOT = Path(__file__).resolve().parents[3]
SETTINGS = ("pl94_2020", "pl94_2020_tree", "pl94_tuned")


def read(name: str) -> dict:
    """Return a result file of the benchmarks."""
    return json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def test_the_cost_row_is_that_of_the_result_file() -> None:
    """A ratio that nobody measured stood there for months: tuned shares were said to cost less than the tree."""
    costs = read("utility")["costs"]
    seconds = {name: np.array([c["cpu_seconds"] for c in of]) for name, of in costs.items()}
    expected = [f"{np.median(seconds['pl94_2020']):.1f} s"]
    for name in list(costs)[1:]:
        ratios = (seconds[name] / seconds["pl94_2020"])[1:]  # kernels are compiled in the first draw
        error = ratios.std(ddof=1) / len(ratios) ** 0.5
        expected.append(f"{ratios.mean():.2f} ({error:.2f})".replace("(0.", "(."))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = next(line for line in readme.splitlines() if line.startswith("| CPU of the solve"))
    assert expected == [cell.strip() for cell in row.split("|")[2:-1]]


def test_the_costs_of_other_states_are_those_of_the_result_file() -> None:
    """A cause that the numbers do not show is a guess: variables and the pass over the answers are counted apart."""
    cost, readme = read("cost"), (ROOT / "README.md").read_text(encoding="utf-8")
    text = " ".join(readme.split())
    said = re.search(r"that of `pl94_2020_tree` was (.*?) times .*? of `pl94_tuned` (.*?) times", text)
    assert said is not None
    for name, numbers in zip(SETTINGS[1:], said.groups(), strict=True):
        found = [f"{cost[state][name]['ratio']:.1f}" for state in ("rhode_island", "guernsey", "made_up")]
        assert found == re.findall(r"\d\.\d", numbers)
    for state in cost.values():
        variables = {name: sum(state[name]["variables"].values()) for name in SETTINGS}
        assert all(variables[name] <= 1.08 * variables[SETTINGS[0]] for name in SETTINGS)
    for name in SETTINGS[1:]:
        of = cost["rhode_island"][name]
        assert of["estimate"] <= 0.06 * of["both"]


@pytest.mark.parametrize("path", sorted(Path(bench.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_measure(path: Path) -> None:
    """A benchmark of a name that was moved fails for whoever repeats a number of ours."""
    assert import_module(f"bench.{path.stem}").__doc__, "says what it measures, and how to run it"
