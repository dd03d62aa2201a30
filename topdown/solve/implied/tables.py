"""Which groups of cells each leaf may hold (Census TopDown, Theorem 8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import Invariants
from topdown.model.public import PublicFacts
from topdown.solve.implied.atoms import Atoms


def open_groups(atoms: Atoms, invariants: Invariants, facts: PublicFacts, n_leaves: int) -> NDArray[np.bool_]:
    """Tell which groups each leaf may hold: bool (n_leaves, k)."""
    zero = np.zeros((n_leaves, len(invariants.none_where_zero)), dtype=bool)
    for i, rule in enumerate(invariants.none_where_zero):
        zero[:, i] = np.all([facts.columns[c] == 0 for c in rule.columns], axis=0)
    return ~((zero.astype(np.int64) @ atoms.closed_by.T.astype(np.int64)) > 0)
