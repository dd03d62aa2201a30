"""Whether intervals hold the truth as often as they say, listed or not, by a known law and on made-up blocks."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from bench import bench_listed
from tests.helpers import solved
from tests.helpers.interval_census import asks, numbers, true_rows
from tests.helpers.interval_census import held as answers_held
from topdown.arrays import Ints
from topdown.formats import LISTED_ROWS
from topdown.plan import prepare
from topdown.practice import open_simulation
from topdown.practice.synth import synth
from topdown.publish import TableRows, interval_ends, intervals_of, listed_ends, rows_of, table_intervals
from topdown.solve import AnswersInMemory
from topdown.solve.tree import exact_at_root, tree_estimates

COVERAGE = Fraction(19, 20)
DRAWS = 120


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> solved.Census:
    """Make a land of 12 blocks."""
    return asks(solved.make_census(tmp_path_factory.mktemp("land"), 3), COVERAGE)


@pytest.fixture(scope="module")
def errors(census: solved.Census) -> dict[tuple[str, int], np.ndarray]:
    """Return (estimate - truth) / deviation of every row of every table with a deviation, (draws, rows)."""
    rows = true_rows(census)
    found: dict[tuple[str, int], list[np.ndarray]] = {place: [] for place in rows}
    for seed in range(DRAWS):
        told = numbers(census, 1000 + seed).at({place: (at.node, at.answer) for place, at in rows.items()})
        for place, (estimate, stddev) in told.items():
            free = stddev > 1
            found[place].append((estimate - 1000 * rows[place].count)[free] / stddev[free])
    return {place: np.array(at) for place, at in found.items() if at[0].size}


def outside_threshold(
    census: solved.Census, errors: dict[tuple[str, int], np.ndarray], size: float
) -> list[str]:
    """Name the tables whose intervals, of deviations times `size`, hold the truth too seldom or too often."""
    wrong = []
    for (name, depth), at in errors.items():
        n = DRAWS * int(census.context.rules.inhabited[depth].sum())
        share = float((np.abs(at) <= 1.959964 * size).mean())
        if abs(share - 0.95) > 3 * (0.95 * 0.05 / n) ** 0.5:
            wrong.append(f"{name} at {depth}: {share:.3f}")
    return wrong


def test_intervals_hold_the_truth_as_often_as_they_say(census, errors) -> None:
    """Deviations that are too small promise a chance that is not there; too large ones hide what is known."""
    assert outside_threshold(census, errors, 1.0) == []


@pytest.mark.parametrize("size", [0.8, 1.3])
def test_wrong_deviations_are_rejected(census, errors, size: float) -> None:
    """A test that any deviation passes would prove nothing."""
    assert len(outside_threshold(census, errors, size)) > len(errors) / 2


def test_estimates_are_unbiased(errors) -> None:
    """An estimate that is off on average puts every interval in the wrong place, as the released counts would."""
    for at in errors.values():
        means = at.mean(axis=1)  # answers of one draw are not independent, draws are
        assert abs(means.mean()) <= 4.5 * means.std(ddof=1) / DRAWS**0.5


def test_upper_ends_shortened_by_areas_above_hold_the_truth(census) -> None:
    """Three bounds that share a tail must together miss no more often than one."""
    rows, inside, n = true_rows(census), 0, 0
    nothing = {
        place: TableRows(at.listed, at.node, at.answer, np.zeros_like(at.count)) for place, at in rows.items()
    }
    place = ("detailed", 2)
    for seed in range(40):
        found = intervals_of(census.context, nothing, numbers(census, 2000 + seed))[place]
        inside += int((rows[place].count <= found.high).sum())
        n += len(found.high)
    assert 0.965 <= inside / n <= 0.999


def exactly_noisy(census: solved.Census, seed: int) -> solved.NoisyAnswers:
    """Add discrete Gaussian noise of the planned variances, drawn from its own weights."""
    rng, values = np.random.default_rng(seed), []
    for level, table in zip(census.context.plan.levels, census.truth, strict=True):
        parts = []
        for measurement, query in zip(level.measurements, census.context.queries(level.name), strict=True):
            answers, variance = table.answers(query), float(measurement.variance)
            noise = np.arange(-40, 41)
            weights = np.exp(-(noise**2) / (2 * variance))
            parts.append(answers + rng.choice(noise, size=answers.shape, p=weights / weights.sum()))
        values.append(np.concatenate(parts, axis=1))
    return solved.NoisyAnswers(census.context, tuple(values))


@pytest.mark.slow
def test_intervals_of_unions_hold_as_often_as_they_say(census: solved.Census) -> None:
    """Exact noise, not normal: a district that cuts counties, one that is some of their blocks, and the land.

    By exact binomial bounds, of every answer by itself; deviations of three quarters must fail them.
    """
    context, draws = census.context, 200
    parents, nothing = context.geography.levels[2].parent, np.zeros(0, dtype=np.int64)
    land = county = np.zeros(1, dtype=np.int64)
    some = np.flatnonzero(parents != 0)[::2].astype(np.int64)
    unions = [(nothing, county, some), (nothing, nothing, np.arange(3)), (land, nothing, nothing)]
    inside = [np.union1d(np.flatnonzero(parents == 0), some), np.arange(3), np.arange(len(parents))]
    held: dict[tuple[float, str, int], list[np.ndarray]] = {}
    for seed in range(draws):
        exact = exact_at_root(context.plan, census.exact, {})
        told = tree_estimates(context, answers_held(census, exactly_noisy(census, 3000 + seed)), exact)
        for name in ("total", "dwelling", "sex * age", "detailed"):
            truth = census.truth[-1].answers(context.plan.query(name))
            for i, (estimate, stddev) in enumerate(told.of_unions(unions, name)):
                free, true = stddev > 1, truth[inside[i]].sum(axis=0)
                for size in (1.0, 0.75):
                    low, high = interval_ends(estimate, (size * stddev).astype(np.int64), TAILS, [])
                    at = ((low <= true) & (true <= high))[free]
                    held.setdefault((size, name, i), []).append(at)
    worst = {
        size: min(
            float(binom.cdf(np.sum(at, axis=0), draws, 0.95).min())
            for key, at in held.items()
            if key[0] == size and at[0].size
        )
        for size in (1.0, 0.75)
    }
    assert worst[1.0] > 1e-4
    assert worst[0.75] < 1e-9


TAILS = Fraction(1, 20)
LISTED_DRAWS, UNIT = 20_000, 1_000  # people of a standard deviation: rounding does not matter


def true_count(border: float) -> int:
    """Return a count for which released counts are about their estimates."""
    return max(0, round(-border * UNIT))


def listed_draws(border: float, seed: int) -> tuple[Ints, Ints, Ints]:
    """Return estimate, deviation and count of draws that pass a border, in deviations from the true count."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(40 * LISTED_DRAWS)
    z = z[z > border][:LISTED_DRAWS]
    count = np.maximum(1, np.rint(UNIT * (z - border) + 0.85)).astype(np.int64)
    estimate = np.rint(1000 * (true_count(border) + UNIT * z)).astype(np.int64)
    return estimate, np.full(len(z), 1000 * UNIT), count


def share_held(border: float, low: Ints, high: Ints) -> float:
    """Return how often intervals of those draws hold."""
    return float(((low <= true_count(border)) & (true_count(border) <= high)).mean())


@pytest.mark.parametrize("border", [-3.0, -1.0, 0.5, 1.0, 1.7])
def test_where_the_law_is_the_model_the_chance_is_the_stated_one(border: float) -> None:
    """Conditional on being listed, whatever the border: that is what the correction is for."""
    estimate, stddev, count = listed_draws(border, 1)
    error = (0.95 * 0.05 / len(count)) ** 0.5
    assert abs(share_held(border, *listed_ends(estimate, stddev, count, TAILS)) - 0.95) <= 4 * error
    plain = share_held(border, *interval_ends(estimate, stddev, TAILS, []))
    assert border < 0 or plain < 0.95 - 8 * error


def test_listed_rows_of_made_up_blocks_hold_as_often_as_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of listing must fit what the solver does: rows listed by real solves, not by a border."""
    monkeypatch.setattr(table_intervals, "MOST_ROWS", 0)
    synth(tmp_path, people=10_000, schema="pl94", seed=7)
    run = tmp_path / "run.toml"
    asked = '[estimates]\ntargets = "tree"\ncoverage = "19/20"\n\n[budget]'
    run.write_text(run.read_text().replace("[budget]", asked, 1))
    simulation = open_simulation(prepare(run), tmp_path / "persons.csv.gz")
    context = simulation.context
    nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in context.inhabited)
    root = context.plan.levels[0].name
    exact = exact_at_root(context.plan, {root: simulation.truth[0].totals()}, {})
    query, shares = context.plan.query("detailed"), []
    for replicate in simulation.run(4):
        levels = replicate.leaves.at_every_level(context.geography)
        rows = {
            ("detailed", depth): rows_of(context, query, depth, table.sparse_answers(query))
            for depth, table in enumerate(levels)
        }
        found = intervals_of(
            context, rows, tree_estimates(context, AnswersInMemory(nodes, replicate.noisy), exact)
        )
        place = "detailed", len(levels) - 1
        at, leaves = found[place], rows[place]
        true = simulation.truth[-1].dense(0, len(levels[-1].totals()))[leaves.node, leaves.answer]
        assert at.listed is not None
        pairs = (at.listed, (at.low, at.high))
        shares.append([float(((low <= true) & (true <= high))[~at.exact].mean()) for low, high in pairs])
    corrected, plain = np.mean(shares, axis=0)
    assert 0.94 <= corrected <= 0.97
    assert plain < 0.93


def test_what_is_said_of_listed_rows_was_measured() -> None:
    """The stamp of a table and the page quote a result file; other numbers would be somebody's memory."""
    result = json.loads(bench_listed.RESULT.read_text(encoding="utf-8"))
    page = bench_listed.PAGE.read_text(encoding="utf-8")
    assert page == bench_listed.with_tables(page, bench_listed.page_table(result), "bench_listed")
    held = {key: [100 * of[key][0] for of in result["tables"].values()] for key in ("plain", "corrected")}
    said = {key: f"{min(found):.0f} to {max(found):.0f} in 100" for key, found in held.items()}
    assert said == {"plain": "88 to 94 in 100", "corrected": "95 to 96 in 100"}
    before, after = LISTED_ROWS.split("listed_low and listed_high", 1)
    assert said["plain"].removesuffix(" in 100") in before
    assert said["corrected"] in after
    assert all(0.94 <= of["corrected"][0] <= 0.965 for of in result["tables"].values())
