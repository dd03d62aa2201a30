"""Small random limits on kinds of cells."""

import numpy as np

from topdown.arrays import Ints
from topdown.model import ConstraintSystem, SplitConstraints, from_prefixes, split_constraints
from topdown.solve import project_base


def make_polytopes(
    seed: int, *, n_leaves: int = 4, exact: int | None = 2, caps: bool = False
) -> SplitConstraints:
    """Draw a tree of leaves in pairs, with bounds on nested sets of four cells that some population meets.

    Args:
        exact: depth whose totals are exact (0 root, 1 pairs, 2 leaves), None for no exact total.
        caps: with upper bounds.
    """
    rng = np.random.default_rng(seed)
    tree = from_prefixes(("land", "pair", "leaf"), (0, 1, 2), tuple(f"{i // 2}{i}" for i in range(n_leaves)))
    is_open = rng.random((n_leaves, 4)) < 0.65
    people = rng.integers(0, 3, (n_leaves, 4)) * is_open
    groups = [np.array(g, dtype=bool) for g in ([1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0])]
    chosen = [g for g in groups if rng.random() < 0.8]
    held = np.stack([people[:, g].sum(axis=1) for g in chosen] or [np.zeros(n_leaves, int)], axis=1)
    low = (held * rng.integers(0, 2, held.shape))[:, : len(chosen)]
    high = held + rng.integers(0, 2, held.shape)
    up = lambda leaf, depth: np.array(  # noqa: E731
        [leaf[tree.ancestors_of_leaves[depth] == i].sum(axis=0) for i in range(len(tree.levels[depth]))]
    )
    rules = ConstraintSystem(
        class_of_cell=np.arange(4),
        open=tuple(np.asarray(up(is_open, d) > 0) for d in range(3)),
        bound_cells=tuple(chosen),
        lower=tuple(up(low, d).astype(np.int64).reshape(len(tree.levels[d]), len(chosen)) for d in range(3)),
        cap_cells=tuple(chosen) if caps else (),
        caps=high[:, : len(chosen)] if caps else np.zeros((n_leaves, 0), dtype=np.int64),
    )
    totals = {} if exact is None else {d: up(people.sum(axis=1), d) for d in range(exact + 1)}
    return split_constraints(rules.partition(), rules, tree, totals)


def project(limits: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Project one point with the solver's kernel."""
    k, table = len(point), limits.astype(np.float64)
    out, places = np.zeros(k + 1), np.zeros((3, k + 2), dtype=np.int64)
    project_base(point, table, out, np.zeros(len(table)), np.zeros(len(table), dtype=np.int64), places)
    return out[:k]


def limit_excess(limits: Ints, held: Ints) -> Ints:
    """Return how far each column of kind counts is outside its limits, int64 (m,); 0 or less is inside.

    Args:
        limits: as from `SplitConstraints.limits`, (m, 2^k). held: int64 (n_kinds, m).
    """
    if limits.shape[1] > 1 << len(held):  # nobody's kind: minus all others
        held = np.vstack([held, -held.sum(axis=0, keepdims=True)])
    members = [[j for j in range(len(held)) if subset >> j & 1] for subset in range(limits.shape[1])]
    sums = np.stack([held[kinds].sum(axis=0) for kinds in members], axis=1)
    return np.asarray((sums - limits).max(axis=1), dtype=np.int64)
