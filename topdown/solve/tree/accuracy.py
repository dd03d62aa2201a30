"""Standard deviations that a plan's estimates will have: from plan and public facts alone, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topdown.plan.plan import Plan
from topdown.plan.prepare import Context
from topdown.solve.tree.covered import LatticeForm, lattice_form
from topdown.solve.tree.gls import LEAVES_AT_ONCE, Covariances, make_tree, open_values
from topdown.solve.tree.lattice import Floats, Ints, Lattice, product_query
from topdown.solve.tree.levels import from_parent
from topdown.solve.tree.root import ExactAtRoot, condition
from topdown.solve.tree.variance import answer_variance


@dataclass(frozen=True)
class Expected:
    """Mean standard deviation of the answers of one query at one level, records, over what public facts leave open."""

    level: str
    query: str
    stddev: float


def expected_deviations(context: Context) -> tuple[Expected, ...]:
    """Return the mean standard deviation of every table's estimates; none where a plan has no lattice form.

    Args:
        context: plan and public facts.

    Cost: two seconds for Rhode Island's 25,181 blocks.
    """
    form = lattice_form(context)
    if isinstance(form, str):
        return ()
    plan, lattice = context.plan, form.lattice
    names = dict.fromkeys(["total"] + [m.query for level in plan.levels for m in level.measurements])
    asked = {name: product_query(lattice, plan.query(name)) for name in names}
    sums = {(depth, name): [0.0, 0] for depth in range(len(plan.levels)) for name in names}
    for depth, values, v in _covariances(context, form):
        for name, query in asked.items():
            chosen = [1 if query.kept >> a & 1 else n for a, n in enumerate(lattice.sizes)]
            n_cells = int(np.prod([n for a, n in enumerate(lattice.sizes) if query.kept >> a & 1]))
            for g in np.unique(query.group[values]):
                member = (query.group[values] == g).astype(np.float64)
                found = np.sqrt(answer_variance(lattice, v, member, chosen))
                sums[depth, name][0] += n_cells * float(found.sum())
                sums[depth, name][1] += n_cells * len(found)
    return tuple(
        Expected(plan.levels[depth].name, name, total / max(n, 1))
        for (depth, name), (total, n) in sums.items()
    )


def _covariances(context: Context, form: LatticeForm) -> Iterator[tuple[int, Ints, Floats]]:
    """Yield level, open dense values and covariances of the nodes of every level, in parts."""
    rules, lattice = context.rules, form.lattice
    is_open = [open_values(lattice, rules.class_of_cell, at) for at in rules.open]
    tree = make_tree(lattice, context.geography, is_open, form.own)
    above = [_root(context.plan, lattice, tree)[None]]
    yield 0, tree.levels[0].shape.values[0], above[0]
    for depth in range(1, len(tree.levels)):
        up, level = tree.levels[depth - 1], tree.levels[depth]
        change = [k @ v @ k - k for k, v in zip(up.beyond, above, strict=True)]
        above, last = [], depth == len(tree.levels) - 1
        for nodes, values, spread in zip(level.shape.nodes, level.shape.values, level.spread, strict=True):
            step = LEAVES_AT_ONCE if last else len(nodes)
            for first in range(0, len(nodes), step):
                here = nodes[first : first + step]
                own = spread if len(spread) == 1 else spread[first : first + step]
                v = own + own @ from_parent(up.shape, change, here, level.shape, square=True) @ own
                v = (v + np.swapaxes(v, -1, -2)) / 2
                yield depth, values, v
                if not last:
                    above.append(v)


def _root(plan: Plan, lattice: Lattice, tree: Covariances) -> Floats:
    """Return the covariance of the root, given what is exact there; answers do not enter it."""
    values = tree.levels[0].shape.values[0]
    nothing = np.zeros((len(values), lattice.n_product))
    known = []
    for exact in plan.invariants.exact:
        query = product_query(lattice, plan.query(exact.query))
        known.append(ExactAtRoot(query, np.zeros((query.n_groups, lattice.n_product))))
    return condition(tree, nothing, nothing, known)[1]
