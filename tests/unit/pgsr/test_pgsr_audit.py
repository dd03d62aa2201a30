"""The audit: exact output law of the published chain, and an enumerator that can disagree."""

from fractions import Fraction

import numpy as np
import pytest

from pgsr import chain_optimum, tree_of
from pgsr.sensitivity_audit import (
    ChainOutputLaw,
    chain_leaks,
    confirm_by_enumeration,
    naive_vector,
    published_chain_epsilon,
    sensitivity_table,
)
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import KINDS, measure_exactly


def test_published_chain_leaks_what_the_specification_states():
    """The proof that the final output violates the claim: at least 0.6437, 1.3637, 2.8437 at 1/2, 1, 2."""
    found = [leak.epsilon for leak in chain_leaks()]
    assert pytest.approx([0.6437668, 1.3637153, 2.843790], abs=1e-5) == found
    assert all(low < leak for low, leak in zip((0.643, 1.363, 2.843), found, strict=True))


def test_no_pair_of_data_sets_exceeds_the_bound():
    """|R| eps / L bounds every pair; the worst pair is a little beyond the reference pair."""
    worst = published_chain_epsilon(Fraction(1), pair=None)
    assert 1.364 < worst.epsilon < worst.bound
    assert worst.epsilon == pytest.approx(1.37912, abs=1e-5)


def output_probability(data, output):
    """Return the probability of one output (c1, c2, c3) of the chain as published, at claim 1."""
    base = sum(data) + 1
    law = ChainOutputLaw(Fraction(1), sum(data)).law(data[0], data[0] + data[2], sum(data[:3]))
    return law[(output[0] * base + output[1]) * base + output[2]]


def test_one_output_probability():
    """An absolute probability, so that a wrong law cannot hide in a ratio."""
    assert pytest.approx(output_probability((1, 3, 0, 2), (3, 6, 6)), rel=1e-4) == 9.649e-4
    assert pytest.approx(output_probability((0, 4, 0, 2), (3, 6, 6)), rel=1e-3) == 2.467e-4


def test_output_law_is_that_of_the_chain_optimum():
    """The auditor's closed form must be the mechanism's post-processing, entry by entry."""
    law = ChainOutputLaw(Fraction(2))
    rng = np.random.default_rng(0)
    tied = [False, True, False, False, True, False]
    for y1, y2, y3, y4 in rng.integers(-12, 18, size=(300, 4)):
        values, _ = chain_optimum([y1, y2, y3, y4, 0, 0], tied, 6)
        code = int(law._outputs(int(y1), np.array(y2 + y3), np.array(y4)))
        assert (values[0] * 7 + values[1]) * 7 + values[3] == code


def test_output_law_is_a_law():
    """Mass lost in the truncation would shift every ratio."""
    assert pytest.approx(ChainOutputLaw(Fraction(1)).law(1, 3, 5).sum(), abs=1e-10) == 1.0


def test_derived_sensitivities_are_attained():
    """Every formula is reached by some data set and exceeded by none."""
    assert all(found.ok and found.n_pairs > 400 for found in confirm_by_enumeration())


@pytest.mark.slow
def test_table_of_the_census_tree():
    """The numbers an auditor quotes."""
    rows = {row.vector: row for row in sensitivity_table(synthesize("census").hierarchy.tree, 1000)}
    moved = {"histogram": 6, "cumulative": 3, "tail": 3, "chain": 3197}
    assert {kind: rows[kind].move_l1 for kind in moved} == moved
    assert tuple(rows[kind].new_l1 for kind in ("cumulative", "tail", "chain")) == (3000, 3, 3_197_000)
    assert rows["chain"].true_epsilon_of_published_noise_at_1 == "3197/3"


@pytest.mark.parametrize("kind", KINDS)
def test_measured_vectors_are_the_defined_ones(kind):
    """What is measured must be what the sensitivity was derived for."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    leaves = np.random.default_rng(1).integers(0, 5, size=(4, 3))
    measured = measure_exactly(kind, tree, tree.sums(leaves))
    for level, entries in enumerate(naive_vector(kind, tree, leaves)):
        assert sorted(entries) == sorted(measured[:, tree.columns(level)].reshape(-1).tolist())
