"""Whether estimates solve the normal equations of the whole tree: added up by labels, with no code of the lattice.

At every open cell of a leaf, the sum over the leaf and its ancestors of sum over queries of weight times Q'(Q x - y) is
zero, or, where answers are exact at the root, one number for each of them; and children add up to their parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Measured:
    """The queries of one level: labels int64 (n_queries, n_cells), where each one's answers start, weights."""

    labels: Ints
    offsets: Ints
    weights: Floats


@dataclass(frozen=True, eq=False)
class LeafPath:
    """One leaf and its ancestors, root first.

    Args:
        cells: the leaf's open cells.
        estimates: of every cell, (n_cells,), at each of them. below: above the leaf, the sum of the children's.
        answers: noisy, at each of them.
    """

    cells: Ints
    estimates: tuple[Floats, ...]
    below: tuple[Floats, ...]
    answers: tuple[NDArray[Any], ...]


def normal_residual_persons(
    levels: Sequence[Measured], paths: Sequence[LeafPath], exact: Sequence[Ints]
) -> float:
    """Return the largest deviation from the normal equations, or of a parent from its children, in persons.

    A gradient is divided by the leaves' least curvature, than which H over all cells of all leaves has no less: their
    weight of the queries that tell every cell apart; where they have none, the least eigenvalue of all their queries
    together on these leaves' open cells.

    Args:
        levels: root first. paths: of some leaves.
        exact: labels of the queries that are exact at the root, int64 (n_cells,).
    """
    gradients = [_gradient(levels, path) for path in paths]
    if not gradients:
        return 0.0
    found, cells = np.concatenate(gradients), np.concatenate([path.cells for path in paths])
    columns = [labels[cells] == answer for labels in exact for answer in np.unique(labels[cells])]
    if columns:
        design = np.stack(columns, axis=1).astype(np.float64)
        found = found - design @ np.linalg.lstsq(design, found, rcond=None)[0]
    n_cells, leaves = levels[-1].labels.shape[1], levels[-1]
    apart = [w for of, w in zip(leaves.labels, leaves.weights, strict=True) if len(np.unique(of)) == n_cells]
    least = sum(apart) or _least_curvature(leaves, np.unique(cells))
    apart_by = [
        float(np.abs(x - total).max())
        for path in paths
        for x, total in zip(path.estimates, path.below, strict=False)
    ]
    return max([float(np.abs(found).max(initial=0.0) / least), *apart_by])


def _least_curvature(leaves: Measured, cells: Ints) -> float:
    """Return the least eigenvalue of the sum of weight times Q'Q on some cells."""
    gram = np.zeros((len(cells), len(cells)))
    for labels, weight in zip(leaves.labels[:, cells], leaves.weights, strict=True):
        gram += weight * (labels[:, None] == labels[None, :])
    return float(np.linalg.eigvalsh(gram)[0])


def _gradient(levels: Sequence[Measured], path: LeafPath) -> Floats:
    out = np.zeros(len(path.cells))
    for level, x, y in zip(levels, path.estimates, path.answers, strict=True):
        for labels, first, weight in zip(level.labels, level.offsets, level.weights, strict=True):
            sums = np.bincount(labels, weights=x)
            here = labels[path.cells]
            out += weight * (sums[here] - y[first + here])
    return out
