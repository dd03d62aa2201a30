"""Rows for large groups: one person moves one answer of a level by one, whatever was drawn above."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import Budget, Sizes, tree_of
from pgsr.estimators import (
    COVERAGES,
    ColumnsAndRows,
    RowsDesign,
    choose_columns_and_rows,
    estimate,
    exact_answers,
    mechanism_named,
    rows_answers,
    steady_tails,
)
from pgsr.group_checks import _steady_tails, choice_of
from pgsr.level_noise import calibrate
from pgsr.vectors import measure_exactly
from tests.helpers.failing import fails_with
from topdown.errors import ConfigError

TREES = ([[-1]], [[-1], [0]], [[-1], [0, 0, 0]], [[-1], [0, 0], [0, 0, 1]], [[-1], [0], [0, 0], [0, 1, 1]])


def young(sizes, n):
    """Return the tail counts 1..n of groups of these sizes."""
    return [sum(1 for size in sizes if size > c) for c in range(n)]


def sideways(sizes, n, columns, rows):
    """Return columns, rows and corners of a region, written from their definition only."""
    long = sorted((max(size - columns, 0) for size in sizes), reverse=True)
    corners = [max(t - rows, 0) for t in young(sizes, n)[columns : n - rows]]
    return young(sizes, n)[:columns] + (long + [0] * n)[:rows] + corners


def pairs(n, most):
    """Yield every data set of up to `most` groups of sizes 1 to n, with all that one person who joins makes of it."""
    for total in range(most + 1):
        for sizes in combinations_with_replacement(range(1, n + 1), total):
            yield sizes, [(*sizes, 1)]
            yield sizes, [(*sizes[:i], min(size + 1, n), *sizes[i + 1 :]) for i, size in enumerate(sizes)]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_one_person_is_one_cell(n):
    """Two neighbours differ by one in one answer of a region at most, whatever its columns and rows."""
    apart = set()
    for columns in range(1, n + 1):
        for rows in range(n - columns + 1):
            for sizes, others in pairs(n, 4):
                here = sideways(sizes, n, columns, rows)
                for other in others:
                    there = sideways(other, n, columns, rows)
                    apart.add(sum(abs(a - b) for a, b in zip(here, there, strict=True)))
    assert {0, 1} == apart | {0}


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_exact_answers_are_their_definition(data):
    """The answers that get noise are tail counts, lengths of the largest groups and corners, and nothing else."""
    n = data.draw(st.integers(1, 7))
    columns = data.draw(st.integers(1, n))
    rows = data.draw(st.integers(0, n - columns))
    sizes = data.draw(st.lists(st.integers(1, n), max_size=9))
    tails = np.array([young(sizes, n)], dtype=np.int64).T
    choice = ColumnsAndRows(np.array([columns]), np.array([rows]))
    assert sideways(sizes, n, columns, rows) == exact_answers(tails, choice, slice(0, 1))[:, 0].tolist()


def adversarial(answers, n):
    """Return a choice that depends on every answer of the level above."""
    columns = 1 + sum(answers) % n
    return columns, (3 * answers[0] + answers[-1]) % (n - columns + 1)


@pytest.mark.parametrize("rule", ["of the product", "adversarial"])
def test_the_transcript_tells_no_more_than_its_levels(rule):
    """The likelihood ratio of whole transcripts is exactly exp(2 / b) at most: three sizes, two groups, two levels.

    A choice made from the truth, or an answer counted twice, would raise it.
    """
    n, scale = 3, Fraction(1, 20)

    def choice(answers, part, total):
        if rule == "adversarial":
            return adversarial(answers, n)
        steady = np.empty(n + 1, dtype=np.int64)
        steady_tails(np.array(answers), n, 0, total, steady)
        return choose_columns_and_rows(steady, part, total, float(2 * scale * scale))

    shapes, worst = set(), 0
    for (sizes, others), first in product(pairs(n, 2), range(3)):
        for other in others:
            if len(sizes) != len(other) or not 0 < first <= len(sizes):
                continue
            leaf, rest = (sizes[:first], other[:first]), (sizes[first:], other[first:])
            up = young(sizes, n), young(other, n)
            for root in product(range(-2, 5), repeat=n):
                # In units of 1 / b, exactly: the law of an answer a is in proportion to exp(-|a - exact| / b).
                ratio = sum(abs(a - x) - abs(a - y) for a, x, y in zip(root, *up, strict=True))
                for (x, y), part in ((leaf, first), (rest, len(sizes) - first)):
                    columns, rows = choice(root, part, len(sizes))
                    shapes.add((columns, rows))
                    ends = sideways(x, n, columns, rows), sideways(y, n, columns, rows)
                    ratio += sum(
                        abs(a - b) for a, b in zip(*ends, strict=True)
                    )  # the largest over its answers
                worst = max(worst, ratio)
    assert worst == 2
    assert len(shapes) > 1


@st.composite
def measured(draw):
    """Return noisy answers of a region of sparse large groups, its columns, rows and number of groups."""
    n = draw(st.integers(1, 60))
    columns = draw(st.integers(1, n))
    rows = draw(st.integers(0, n - columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups = rng.integers(0, n + 1, draw(st.integers(0, 40)))
    exact = sideways(groups.tolist(), n, columns, rows)
    noise = rng.integers(-draw(st.integers(0, 9)) - 1, 9, n)
    return np.array(exact) + noise, columns, rows, len(groups)


@given(measured(), st.integers(0, 50), st.fractions(Fraction(1, 50), 60))
@settings(deadline=None, max_examples=40)
def test_the_choice_is_what_verify_makes_of_the_same_answers(answers, part, scale):
    """Kernels and the checker's own code choose alike, to the last bit; a choice always fits its region."""
    noisy, columns, rows, total = answers
    steady = np.empty(len(noisy) + 1, dtype=np.int64)
    steady_tails(noisy, columns, rows, total, steady)
    assert _steady_tails(noisy.tolist(), columns, rows, total) == steady.tolist()
    part = min(part, total)
    found = choose_columns_and_rows(steady, part, total, float(2 * scale * scale))
    assert choice_of(steady.tolist(), part, total, float(2 * scale * scale)) == found
    assert 1 <= found[0] <= len(noisy)
    assert 0 <= found[1] <= min(len(noisy) - found[0], part)


def test_choices_are_alike_where_rows_and_columns_are_near():
    """Sparse large groups under much and little noise: a constant of the rule that is a little off changes some."""
    rng, n_rows, n_cases = np.random.default_rng(5), 0, 400
    for _ in range(n_cases):
        n, total, spread = (
            int(rng.integers(30, 200)),
            int(rng.integers(2, 1200)),
            float(rng.uniform(0.05, 20)),
        )
        sizes = np.minimum(1 + rng.pareto(rng.uniform(0.3, 3), total) * 3, n).astype(np.int64)
        steady = (sizes[:, None] > np.arange(n + 1)).sum(axis=0)
        part = int(rng.integers(1, total + 1))
        found = choose_columns_and_rows(steady, part, total, spread)
        assert choice_of(steady.tolist(), part, total, spread) == found
        n_rows += found[1] > 0
    assert n_cases / 4 < n_rows < n_cases * 3 / 4


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_answers_below_change_no_choice(seed):
    """How a level is measured is read off the levels above it alone: its own and lower answers do not count."""
    rng = np.random.default_rng(seed)
    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    totals = np.array([30, 20, 10, 12, 8, 10])
    answers = np.sort(rng.integers(0, 30, (25, 6)), axis=0)[::-1].copy()
    public = RowsDesign(tree, totals, (0.02, 0.02, 0.02))
    for level, first in ((1, 1), (2, 3)):
        before = public.choice(answers, level + 1)
        other = answers.copy()
        other[:, first:] = rng.integers(-9, 40, (25, 6 - first))
        after = public.choice(other, level + 1)
        assert before.columns.tolist() == after.columns.tolist()
        assert before.rows.tolist() == after.rows.tolist()


@given(st.sampled_from(TREES), st.integers(1, 40), st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 7.0]))
@settings(deadline=None, max_examples=60)
def test_estimates_keep_every_number_and_bounds_no_wider_than_noise(levels, n_sizes, seed, scale):
    """Empty regions, single children and one size among them: counts add up, none is below 0."""
    tree, rng = tree_of(levels), np.random.default_rng(seed)
    leaves = rng.integers(0, 3, (n_sizes, tree.n_leaves)) * (rng.random((n_sizes, tree.n_leaves)) < 0.2)
    leaves[:, rng.random(tree.n_leaves) < 0.2] = 0
    truth = tree.sums(leaves)
    totals = truth.sum(axis=0)
    plan = calibrate("tail_rows", tree, Sizes(n_sizes), Budget(Fraction(tree.n_levels) / Fraction(scale)))
    public = RowsDesign(tree, totals, tuple(map(float, plan.relative_variance)))
    noisy = rows_answers(
        lambda _, shape: np.rint(rng.laplace(0, scale, shape)).astype(np.int64),
        measure_exactly("tail_rows", tree, truth),
        public,
    )
    found = estimate(mechanism_named("posterior"), tree, noisy, int(totals[0]), "tail_rows", plan, totals)
    assert tree.sums(found.counts[:, tree.n_inner :]).tolist() == found.counts.tolist()
    assert found.counts.min() >= 0
    assert totals.tolist() == found.counts.sum(axis=0).tolist()
    inside = found.counts, found.counts
    for coverage, sds in zip(COVERAGES, (0.6057, 1.6234, 2.0199, 2.9184), strict=True):
        lower, upper = found.posterior.bounds(found.counts, coverage)
        most = sds * np.sqrt(4 * scale * scale * (tree.level_of + 1)) + 0.5 + 1e-3
        assert (np.maximum(found.counts - lower, upper - found.counts) <= most).all()
        assert (lower >= 0).all()
        assert ((lower <= inside[0]) & (upper >= inside[1])).all()
        inside = lower, upper


@pytest.mark.parametrize("step", ["household", "dropped"])
def test_rows_cover_steps_of_one_person_only(step):
    """A group that changes by several persons moves a row by as many."""
    steps = ("household",) if step == "household" else ("move", "dropped")
    with fails_with("C184", ConfigError):
        calibrate("tail_rows", tree_of([[-1]]), Sizes(5), Budget(1), steps)
