"""The number of groups of every region, whole and consistent: public ones as they are, the others estimated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgsr import kernels
from pgsr.hierarchy import Ints, Tree
from pgsr.relaxed import TreeLeastSquares
from topdown.errors import InternalError

Floats = NDArray[np.float64]
CERTAIN = 1e9
"""Weight of a public number in proportion to a noisy one, in least squares; it is exact by the split all the same."""


def spread_known(tree: Tree, known: Ints) -> Ints:
    """Return the known numbers with those of regions whose parts are all known; -1 where a number is not known.

    Args:
        tree: the regions.
        known: number of groups of every node, -1 where it is not public.
    """
    full = known.copy()
    for g in range(tree.n_inner - 1, -1, -1):
        below = full[tree.first_child[g] : tree.first_child[g + 1]]
        if full[g] < 0 and below.min() >= 0:
            full[g] = below.sum()
    return full


def whole_totals(tree: Tree, measured: Floats, weights: Floats, known: Ints) -> Ints:
    """Return the number of groups of every node: whole, from 0 on, consistent, equal to every known number.

    Weighted least squares on the tree, then split from the root down; a region holds at least what is known
    of its parts, so that every split has a solution if the known numbers are those of some population.

    Args:
        tree: the regions.
        measured: noisy number of every node.
        weights: positive precision of every node.
        known: as `spread_known` takes it; the root's is known.

    Raises:
        InternalError: X147 the known numbers contradict each other.
    """
    known = spread_known(tree, known)
    is_known = known >= 0
    fitted = TreeLeastSquares(tree, np.where(is_known, CERTAIN * weights.max(), weights)).fit(
        np.where(is_known, known.astype(np.float64), measured)[None, :]
    )[0]
    least = np.where(is_known, known, 0)
    for g in range(tree.n_inner - 1, -1, -1):
        if not is_known[g]:
            least[g] = least[tree.first_child[g] : tree.first_child[g + 1]].sum()
    totals = known.copy()
    for g in range(tree.n_inner):
        below = np.arange(tree.first_child[g], tree.first_child[g + 1])
        free = below[~is_known[below]]
        room = int(totals[g] - least[below].sum())
        if room < 0 or (room > 0 and len(free) == 0):
            raise InternalError("public numbers of groups contradict each other", code="X147")
        if len(free):
            more = np.empty(len(free), dtype=np.int64)
            kernels.split(fitted[free] - least[free], room, more)
            totals[free] = least[free] + more
    return totals
