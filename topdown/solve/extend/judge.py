"""Weigh a published table of one stage: beside the stage solved again from what is published before it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topdown.solve.groups import Ints
from topdown.solve.rounding import Rounded, broken_constraint
from topdown.solve.rounding_problem import RoundingProblem
from topdown.solve.weigh import FAR, SEVERAL, SOFT, Weighed, beyond_rounding, unproved, weigh


@dataclass(frozen=True, eq=False)
class Decided:
    """What a stage decided, and how.

    Args:
        free: answers of its table that were not known before. least: what is set aside there, int64 (n_free, m).
        residual, unique: of the least squares, in persons, and whether they have one optimum only.
        rounding, rounded: of the estimate.
    """

    free: Ints
    least: Ints
    residual: float
    unique: bool
    rounding: RoundingProblem
    rounded: Rounded


@dataclass(frozen=True, eq=False)
class SolvedStage:
    """The table of a stage, int64 (n_table, m), and what of it was not known before."""

    table: Ints
    decided: Decided | None = None


@dataclass(eq=False)
class Beside:
    """A published table by rows, int64 (n, m), and what was found of its stages so far."""

    table: Ints
    weighed: list[Weighed] = field(default_factory=list)

    def judge(self, solved: SolvedStage, table: Ints, n_table: int) -> Ints:
        """Weigh one stage; return the published table of that stage if the next can start from it, else the solved.

        Args:
            table: answer of each row in the stage's table, 0..n_table-1.
        """
        published = np.zeros((n_table, self.table.shape[1]), dtype=np.int64)
        np.add.at(published, table, self.table)
        found = weigh_stage(solved, published)
        self.weighed.append(found)
        return solved.table if found.broken else published


def weigh_stage(solved: SolvedStage, published: Ints) -> Weighed:
    """Return how the published table of a stage compares with the solved one."""
    n_cells = int((solved.table != published).sum())
    if not n_cells:
        return Weighed()
    made = solved.decided
    known = np.ones(len(published), dtype=bool)
    if made is not None:
        known[made.free] = False
    if made is None or (solved.table != published)[known].any():
        return Weighed(n_cells, "another table than the base release and the stages before leave possible")
    rounding, rest = made.rounding, published[made.free] - made.least
    far = FAR if beyond_rounding(rounding.estimate, rest) else ""
    if rounding.excess(rest) != rounding.excess(made.rounded.counts):
        far = SOFT
    tables = tuple(rounding.chain)
    over, allowed = weigh(
        rounding.estimate, rounding.allowed, tables, rounding.weights, made.rounded.counts, rest,
        by_program=made.rounded.route == "milp",
    )  # fmt: skip
    return Weighed(
        n_cells,
        broken_constraint(rounding, rest),
        far,
        over,
        allowed,
        unproved(made.residual, made.rounded),
        "" if made.unique else SEVERAL,
    )
