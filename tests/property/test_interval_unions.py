"""Intervals of unions of areas: against one dense matrix, and what is refused."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import solved
from tests.helpers.dense_tree import solve_densely
from tests.helpers.failing import fails_with
from tests.helpers.interval_census import asks, numbers, release
from tests.helpers.tree_census import case_of
from topdown.app import interval
from topdown.cli import main
from topdown.errors import ConfigError, DataError
from topdown.model import Histogram, parse_query
from topdown.plan import load_context
from topdown.practice import open_simulation
from topdown.resources import find


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release whose plan asks for no intervals, once."""
    return Path(release(tmp_path_factory.mktemp("unions"), text="[budget]").release)


def listed(folder: Path, *rows: str, header: str = "geocode") -> Path:
    """Write a list of areas."""
    path = folder / "areas.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def census_of(folder: Path, seed: int, recoded: bool) -> solved.Census:
    """Return a census; with `recoded` no rule closes cells by age, so that a recode of it is no table of the plan."""
    run, text = solved.toy_run(), find("invariants", "toy", folder).read_text(encoding="utf-8")
    if recoded:
        (folder / "own.toml").write_text(text[: text.index("[[never]]")])
        run = run.replace('invariants = "toy"', 'invariants = "own.toml"')
    return asks(solved.make_census(folder, seed, run=run), Fraction(19, 20))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "name", ["total", "dwelling", "dwelling * sex", "detailed", "adult", "home_or_not * sex * adult"]
)
def test_unions_are_those_of_one_dense_matrix(tmp_path: Path, seed: int, name: str) -> None:
    """A union's deviation made from its parts as if they were independent is wrong by a factor."""
    census = census_of(tmp_path, seed, "adult" in name)
    context = census.context
    assert ("age" in numbers(census, seed).statistics.lattice.product) == ("adult" in name)
    total = parse_query(context.plan.schema, "total")
    dense = solve_densely(
        case_of(census, solved.noisy(census, seed)), (total, census.exact["land"].astype(float))
    )
    parents = context.geography.levels[2].parent
    blocks = np.flatnonzero(parents != 0)[::2].astype(np.int64)  # some blocks, and one whole county
    nothing = np.zeros(0, dtype=np.int64)
    members = (nothing, np.zeros(1, dtype=np.int64), blocks)
    found = numbers(census, seed).of_unions([members, (np.zeros(1, np.int64), nothing, nothing)], name)
    labels = parse_query(context.plan.schema, name).labels
    inside = np.isin(dense.leaf, blocks) | (context.geography.ancestors_of_leaves[1][dense.leaf] == 0)
    for area, (estimates, stddevs) in zip((inside, np.ones_like(inside)), found, strict=True):
        for answer in range(len(estimates)):
            estimate, variance = dense.sums(area & (labels[dense.cell] == answer))
            stddev = 1000 * max(variance, 0.0) ** 0.5
            assert 1000 * estimate == pytest.approx(estimates[answer], abs=0.501)
            assert stddev - 0.01 <= stddevs[answer] <= stddev + 1.01
    county = np.zeros(len(found[0][0]), np.int64), np.arange(len(found[0][0]))
    estimates, stddevs = numbers(census, seed).at({(name, 1): county})[name, 1]
    inside = context.geography.ancestors_of_leaves[1][dense.leaf] == 0
    for answer in range(len(estimates)):
        estimate, variance = dense.sums(inside & (labels[dense.cell] == answer))
        assert 1000 * estimate == pytest.approx(estimates[answer], abs=0.501)
        assert stddevs[answer] == pytest.approx(1000 * max(variance, 0.0) ** 0.5, abs=1.01)


def test_a_list_of_all_blocks_of_a_county_is_the_county(made: Path, tmp_path: Path) -> None:
    """The same people asked for by another name must have the same numbers."""
    blocks = [code for code in codes(made) if code.startswith("1")]
    one = interval(made, listed(tmp_path, "1"), "age").unions[0]
    all_of_it = interval(made, listed(tmp_path, *blocks), "age").unions[0]
    assert all_of_it.n_areas == len(blocks)
    assert one.answers == all_of_it.answers
    assert one.n_leaves == len(blocks)


def codes(release: Path) -> list[str]:
    """Return the geocodes of the leaves."""
    import pyarrow.parquet as pq

    return list(pq.read_table(release / "public" / "leaves.parquet")["geocode"].to_pylist())


def test_unions_have_names_and_a_higher_chance_is_wider(made: Path, tmp_path: Path) -> None:
    """A coverage that is not used is a false promise; a union under another's name is another place."""
    blocks = codes(made)
    areas = listed(tmp_path, f"{blocks[0]},a", f"{blocks[1]},a", f"{blocks[2]},b", header="geocode,area")
    usual, wide = (interval(made, areas, "total", coverage=c) for c in (None, "999/1000"))
    assert [union.area for union in usual.unions] == ["a", "b"]
    assert usual.coverage == "19/20"
    for one, other in zip(usual.unions, wide.unions, strict=True):
        assert one.answers[0].low <= one.answers[0].count <= one.answers[0].high
        assert other.answers[0].high - other.answers[0].low >= one.answers[0].high - one.answers[0].low
    assert sum(u.answers[0].high - u.answers[0].low for u in wide.unions) > sum(
        u.answers[0].high - u.answers[0].low for u in usual.unions
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["999"], "is no area of the release"),
        (["1", "1"], "is there twice"),
        (["1", "{leaf}"], "lies inside another area"),
        (["1,"], "area is blank"),
        (["1,one", "2, "], "row 2: area is blank"),
    ],
)
def test_wrong_areas_are_refused_by_name(made: Path, tmp_path: Path, rows: list[str], said: str) -> None:
    """A person counted twice, or not at all, makes a number that looks right."""
    leaf = next(code for code in codes(made) if code.startswith("1"))
    header = "geocode,area" if "," in rows[0] else "geocode"
    areas = listed(tmp_path, *(row.format(leaf=leaf) for row in rows), header=header)
    with fails_with("D063", DataError, match=said):
        interval(made, areas, "total")


def test_wrong_questions_are_refused_by_name(made: Path, tmp_path: Path) -> None:
    """A query or coverage for which there is no interval must not get one."""
    areas = listed(tmp_path, "1")
    with fails_with("C210", ConfigError):
        interval(made, areas, "total", coverage="1")
    with pytest.raises(ConfigError):
        interval(made, areas, "shoe size")
    other = Path(release(tmp_path / "geometric", text="[budget]", mechanism="geometric").release)
    with fails_with("C211", ConfigError, match="not discrete Gaussian"):
        interval(other, areas, "total")


def counted(release: Path, leaves: Histogram, inside: set[str], query: str) -> list[int]:
    """Return the counts of a query over some leaves, one record count at a time."""
    context = load_context(release)
    asked = context.plan.query(query)
    out = [0] * asked.n_answers
    for node, cell, count in zip(leaves.node, leaves.cell, leaves.count, strict=True):
        if context.geography.leaves.codes[int(node)] in inside:
            out[asked.labels[cell]] += int(count)
    return out


def test_expected_errors_are_those_of_the_simulated_releases(made: Path, tmp_path: Path) -> None:
    """An error that is not the simulation's own, or of other areas, is worse than none: it is believed."""
    inside = set(codes(made)[1:6])
    areas = listed(tmp_path, *sorted(inside))
    told = interval(made, areas, "dwelling * sex", replicates=4, workers=2)
    simulation = open_simulation(load_context(made), made)
    true = counted(made, simulation.truth[-1], inside, "dwelling * sex")
    draws = [counted(made, r.leaves, inside, "dwelling * sex") for r in simulation.run(4)]
    expected = [(sum((d[i] - true[i]) ** 2 for d in draws) / 4) ** 0.5 for i in range(len(true))]
    found = [answer.expected_error for answer in told.unions[0].answers]
    assert found == pytest.approx(expected[: len(found)], abs=0.0006)
    assert max(expected) > 0
    assert [answer.count for answer in told.unions[0].answers] == true[: len(found)]
    plain = interval(made, areas, "dwelling * sex")
    assert (plain.simulated, {answer.expected_error for answer in plain.unions[0].answers}) == (None, {None})
    assert [a.low for a in plain.unions[0].answers] == [a.low for a in told.unions[0].answers]
    assert told.simulated is not None
    assert (told.simulated.replicates, told.simulated.truth) == (4, "the released records")
    with fails_with("C005", ConfigError, match="-1 replicates"):
        interval(made, areas, "total", replicates=-1)


def test_a_border_that_cuts_areas_is_set_beside_one_that_does_not(made: Path, tmp_path: Path) -> None:
    """A district's noise comes from the areas its border cuts: advice for the wrong areas costs what it should save."""
    first = [code for code in codes(made) if code.startswith("3")]
    whole = interval(made, listed(tmp_path, "3"), "age").unions[0]
    assert whole.cut is None
    assert interval(made, listed(tmp_path, *first), "age").unions[0].cut is None
    most = interval(made, listed(tmp_path, *first[1:]), "age").unions[0].cut
    assert most is not None
    assert (most.n_cut, most.level) == (1, load_context(made).geography.level_names[-2])
    here = interval(made, listed(tmp_path, *first[1:]), "age").unions[0].answers
    assert most.mean_stddev == pytest.approx(sum(a.stddev for a in here) / len(here), abs=0.0006)
    assert most.mean_stddev_whole == pytest.approx(
        sum(a.stddev for a in whole.answers) / len(whole.answers), abs=0.0006
    )
    few = interval(made, listed(tmp_path, first[0]), "age").unions[0].cut
    assert few is not None
    assert (few.n_cut, few.mean_stddev_whole) == (1, None)


def test_the_command_prints_document_and_table(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What people copy from the screen must say of what it is a chance."""
    areas = str(listed(tmp_path, "1"))
    assert (
        main(["interval", str(made), "--areas", areas, "--query", "age", "--coverage", "9/10", "--json"]) == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["type"] == "topdown.interval"
    assert document["coverage"] == "9/10"
    assert "at least 90 in 100" in document["meaning"]
    assert len(document["unions"][0]["answers"]) == 3
    assert main(["interval", str(made), "--areas", areas, "--query", "total"]) == 0
    shown = capsys.readouterr().out
    assert "one number chosen beforehand" in " ".join(shown.split())
    assert main(["interval", str(made), "--areas", areas, "--query", "no"]) == 2
    leaves = [code for code in codes(made) if code.startswith("3")][1:]
    areas = str(listed(tmp_path, *leaves))
    assert main(["interval", str(made), "--areas", areas, "--query", "total", "--expected-error", "2"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "in 2 simulated releases of this plan, with the released records taken for true" in shown
    assert "cuts 1 area of level" in shown
