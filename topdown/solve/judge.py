"""Solve one split of a published table again, from the published parent, and weigh the published children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topdown.errors import InfeasibleError
from topdown.solve.groups import Ints
from topdown.solve.node import Node
from topdown.solve.passes import Fit
from topdown.solve.rounding import Rounded, broken_constraint
from topdown.solve.rounding_problem import RoundingProblem
from topdown.solve.tally import Tally
from topdown.solve.weigh import (
    FAR,
    NOWHERE,
    SEVERAL,
    SOFT,
    Weighed,
    beyond_rounding,
    table_of,
    unproved,
    weigh,
)

if TYPE_CHECKING:
    from topdown.solve.descend import Descent


def judge_split(descent: Descent, depth: int, parent: Node | None, published: list[Node]) -> Weighed:
    """Return how the published children of a node compare with the split of the node's published table.

    Args:
        descent: the solver of the release.
        depth: level of the parent.
        parent: its published table; None to judge the top node itself, then `published` holds just that.
        published: the published tables of its children.
    """
    if parent is not None and len(index := descent.open_children(depth, parent)) < 2:
        strange = any(node.index not in index for node in published)
        return Weighed(sum(len(node.cells) for node in published), NOWHERE) if strange else Weighed()
    try:
        split, index = descent.open_root() if parent is None else descent.open_split(depth, parent)
        level = 0 if parent is None else depth + 1
        problem, rounded, fit = descent.solve_split(level, split, index, Tally())
    except InfeasibleError as error:
        return Weighed(sum(len(node.cells) for node in published), str(error))
    table = table_of(published, split.cells, index)
    if table is None:
        return Weighed(sum(len(node.cells) for node in published), NOWHERE)
    return _weighed(problem, rounded, fit, table)


def _weighed(problem: RoundingProblem, rounded: Rounded, fit: Fit, published: Ints) -> Weighed:
    n_cells = int((rounded.counts != published).sum())
    if not n_cells:
        return Weighed()
    far = FAR if beyond_rounding(problem.estimate, published) else ""
    if problem.excess(published) != problem.excess(rounded.counts):
        far = SOFT
    tables = tuple(problem.chain)
    over, allowed = weigh(
        problem.estimate, problem.allowed, tables, problem.weights, rounded.counts, published,
        by_program=rounded.route == "milp",
    )  # fmt: skip
    broken, several = broken_constraint(problem, published), "" if fit.unique else SEVERAL
    return Weighed(n_cells, broken, far, over, allowed, unproved(fit.residual_persons, rounded), several)
