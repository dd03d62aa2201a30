"""The judge of the tree estimate states no less than how far an estimate is off."""

import numpy as np
import pytest

from topdown.solve.tree import LeafPath, Measured, normal_residual_persons

ROWS, COLUMNS = [0, 0, 1, 1], [0, 1, 0, 1]


@pytest.mark.parametrize("with_cells", [False, True])
def test_an_estimate_off_along_the_flattest_direction_shows_in_full(with_cells: bool) -> None:
    """Two margins of three open cells tell them apart with less curvature than either has weight."""
    labels, weights = [ROWS, COLUMNS], [1.0, 1.0]
    if with_cells:
        labels, weights = [*labels, [0, 1, 2, 3]], [*weights, 0.5]
    leaf = Measured(np.array(labels), np.array([0, 2, 4][: len(labels)]), np.array(weights))
    cells, truth = np.array([0, 1, 2]), np.array([5.0, 3.0, 2.0, 0.0])
    curvature = np.zeros((3, 3))
    for of, weight in zip(labels, weights, strict=True):
        curvature += weight * (np.array(of)[cells][:, None] == np.array(of)[cells])
    off = np.zeros(4)
    off[cells] = np.linalg.eigh(curvature)[1][:, 0]
    answers = np.concatenate([np.bincount(of, weights=truth) for of in labels])
    exact, wrong = (LeafPath(cells, (x,), (), (answers,)) for x in (truth, truth + off))
    assert normal_residual_persons([leaf], [exact], []) == pytest.approx(0.0, abs=1e-12)
    assert normal_residual_persons([leaf], [wrong], []) >= np.abs(off).max() * (1 - 1e-12)
