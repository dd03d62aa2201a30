"""The public names of pgsr."""

import importlib
import pkgutil
from fractions import Fraction

import numpy as np
import pytest

import pgsr
from pgsr import Budget, Plan, Sizes, tree_of
from pgsr.comparison import Run, compare_runs
from pgsr.level_noise import calibrate
from topdown.errors import ConfigError


def test_no_module_hides_a_public_name() -> None:
    """A module called like a public function takes its place once it is imported."""
    modules = {module.name for module in pkgutil.iter_modules(pgsr.__path__)}
    assert not modules & set(pgsr.__all__)
    for name in modules - {"__main__"}:
        importlib.import_module(f"pgsr.{name}")
    assert all(callable(getattr(pgsr, name)) for name in pgsr.__all__)


@pytest.mark.parametrize("relations", [(), ("move", "swap")])
def test_unknown_neighbour_steps_are_refused(relations: tuple[str, ...]) -> None:
    """A misspelt step would be protected as another one, or not at all."""
    with pytest.raises(ConfigError, match="step"):
        calibrate("tail", tree_of([[-1], [0, 0]]), Sizes(3), Budget("1/2"), relations)
    with pytest.raises(ConfigError, match="step"):
        Plan(Sizes(3), Budget("1/2"), relations=relations)


def test_tail_and_cumulative_comparisons_differ_only_in_what_is_measured() -> None:
    """`compare` must measure what it is told to, at the same claimed and true epsilon."""
    tree = tree_of([[-1], [0, 0]])
    truth = tree.sums(np.array([[5, 2], [1, 0], [0, 3]], dtype=np.int64))
    rows = {
        direction: compare_runs(tree, truth, [Fraction(1)], runs=[Run("tracking")], direction=direction)[0]
        for direction in ("cumulative", "tail")
    }
    assert rows["tail"].true_epsilon == rows["cumulative"].true_epsilon == 1
    assert rows["tail"].l1 != rows["cumulative"].l1
