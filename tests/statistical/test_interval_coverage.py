"""Whether intervals hold the truth as often as they say, on a small land with fixed seeds of simulation.

Seeds are fixed, so nothing here fails by chance. Thresholds: the share of one table and level is within three binomial
standard errors of one value an area and draw; deviations that are a fifth too small must break them.
"""

from fractions import Fraction

import numpy as np
import pytest

from tests.helpers import solved
from tests.helpers.interval_census import asks, numbers, true_rows
from topdown.publish import TableRows, intervals_of

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
