"""The root's estimate conditioned on what is exact there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topdown.solve.tree.gls import Covariances
from topdown.solve.tree.lattice import Floats, Lattice, ProductQuery


@dataclass(frozen=True, eq=False)
class ExactAtRoot:
    """Exact answers of one query at the root.

    Args:
        query: in lattice form.
        table: (n_groups, n_product), each answer spread evenly over the product cells it sums up.
    """

    query: ProductQuery
    table: Floats


def condition(
    tree: Covariances, linear: Floats, alone: Floats, known: Sequence[ExactAtRoot]
) -> tuple[Floats, Floats]:
    """Return x (t, n_product) and V (n_components, t, t) of the root.

    In every component the answers known there are F x; V = Sig - Sig F'(F Sig F')^+ F Sig, and x moves along Sig F'.

    Args:
        tree: its covariances. linear, alone: b and e of the root, (t, n_product).
        known: exact answers, which must not contradict each other.
    """
    lattice, root = tree.lattice, tree.levels[0]
    values, spread = root.shape.values[0], root.spread[0][0]
    x, v = alone.copy(), spread.copy()
    for c in range(lattice.n_components):
        here = [k for k in known if c & ~k.query.kept == 0]
        if not here:
            continue
        rows = np.vstack([np.arange(k.query.n_groups)[:, None] == k.query.group[values] for k in here])
        told = np.vstack([k.table for k in here])
        open_rows = rows.any(axis=1)
        rows, told = rows[open_rows].astype(np.float64), told[open_rows]
        half = spread[c] @ rows.T
        gain = half @ np.linalg.pinv(rows @ half, hermitian=True)
        x += gain @ lattice.project(c, told - rows @ alone)
        v[c] = spread[c] - gain @ half.T
    v = (v + np.swapaxes(v, -1, -2)) / 2
    matrices = (root.own.on(values) + root.beyond[0][0])[None]
    x += lattice.apply(v[None], (linear - lattice.apply(matrices, x[None])[0])[None])[
        0
    ]  # one step of refinement
    return x, v


def spread_evenly(lattice: Lattice, query: ProductQuery, by_cell: Floats) -> Floats:
    """Return a `ExactAtRoot.table` from each cell's answer, (n_dense, n_product)."""
    first = np.zeros(query.n_groups, dtype=np.int64)
    first[query.group[::-1]] = np.arange(lattice.n_dense)[::-1]
    dropped = lattice.averaged[(lattice.n_components - 1) & ~query.kept]
    return np.asarray(by_cell[first] / dropped, dtype=np.float64)
