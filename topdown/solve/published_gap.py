"""Whether a published table of one problem is an optimum of it too: the closest whole table to the same estimate.

Two machines find two estimates. Each is within TARGET_PERSONS of the optimum (`optimality.py`), so they are at
most twice that apart; a whole table that is the best rounding of one can then cost a little more than the best
rounding of the other. Only answers in which the two tables differ count: each adds |b - v| - |a - v| times its
weight, which changes by at most 2 |v - v'| with the estimate v, and over k entries |v - v'| adds up to at most
sqrt(k) times the distance. To that comes the grid of the flow's whole costs: UNIT a person, values within SNAP of
a whole number taken for whole. Where an integer program rounded, each answer may also be off by the millionth to
which it keeps its rows and its gap. Costs are those the flow minimises, in whole millionths of a person; the
difference of two is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.solve.least_squares import TARGET_PERSONS
from topdown.solve.rounding import UNIT
from topdown.solve.rounding.flow_network import SNAP
from topdown.solve.rounding.rounding import Rounded
from topdown.solve.solved_parts import Node

APART_PERSONS = 2 * TARGET_PERSONS  # between two certified estimates of one problem
GRID = 6  # millionths an answer and weight: on both machines one slope rounded (1/2), one value snapped (2)
NOWHERE = "records where none may be"
SEVERAL = "the least-squares problem has more than one optimum"
FAR = "a count more than one away from its estimate"
SOFT = "rules of the kind no_more_than by another number of records than the fewest"
Optimality = Literal["equal", "optimal", "unjudged", "worse"]
_SEVERITY: tuple[Optimality, ...] = ("equal", "optimal", "unjudged", "worse")


@dataclass(frozen=True)
class GapReport:
    """A published table beside the optimum found here.

    Args:
        n_cells: entries in which they differ.
        broken: the constraint that the published table breaks, in words; empty if none.
        far: why it is no rounding of the estimate at any cost, in words.
        over: rounding cost of the published table above that of the optimum, millionths of a person.
        allowed: by how much that may differ from 0 where both are optimal, millionths of a person.
        unproved: why the optimum here is no measure, in words; empty if it is certified.
        several: why another estimate could be as good as the one here, in words; empty if it is the only one.
    """

    n_cells: int = 0
    broken: str = ""
    far: str = ""
    over: int = 0
    allowed: int = 0
    unproved: str = ""
    several: str = ""

    @property
    def verdict(self) -> Optimality:
        """Whether the published table is the same, another optimum, no optimum, or cannot be told."""
        if not self.n_cells:
            return "equal"
        if self.broken:
            return "worse"
        if self.unproved:
            return "unjudged"
        if not self.far and abs(self.over) <= self.allowed:
            return "optimal"
        return "unjudged" if self.several else "worse"

    @property
    def why(self) -> str:
        """Say in words what decided the verdict."""
        cost = f"its rounding cost differs by {self.over / UNIT:+.6f} persons"
        room = f"{self.allowed / UNIT:.6f} can be due to rounding errors"
        return {
            "equal": "",
            "optimal": f"{cost}, {room}",
            "unjudged": self.unproved or self.several,
            "worse": f"it has {self.broken or self.far}" if self.broken or self.far else f"{cost}, {room}",
        }[self.verdict]

    def also(self, other: GapReport) -> GapReport:
        """Return what is said of two problems that decide one table: the worse verdict, entries added up."""
        worse = max(self, other, key=lambda w: (_SEVERITY.index(w.verdict), abs(w.over) - w.allowed))
        return replace(worse, n_cells=self.n_cells + other.n_cells)


def objective_gap(
    estimate: Floats,
    allowed: NDArray[np.bool_],
    tables: tuple[Ints, ...],
    weights: tuple[int, ...],
    own: Ints,
    published: Ints,
    *,
    by_program: bool = False,
) -> tuple[int, int]:
    """Return the published table's rounding cost above the optimum's, and how much of it may be another estimate's.

    Args:
        estimate: (n, m). allowed: (n, m), where records may be.
        tables: answers of each row, coarse to fine, int64 (n,); the last tells rows apart. weights: of each.
        own, published: int64 (n, m).
        by_program: whether `own` comes from an integer program, which stops at a gap.

    Returns:
        (over, allowance) in millionths of a person.
    """
    over, allowance = 0, 0
    for t, (table, weight) in enumerate(zip(tables, weights, strict=True)):
        answers, answer = np.unique(table, return_inverse=True)
        answer = answer.reshape(-1)
        a, b, size = (_answer_sums(answer, len(answers), values) for values in (own, published, allowed))
        differs = a != b
        allowance += weight * a.size if by_program else 0
        if not weight or not differs.any():
            continue
        value = np.zeros(a.shape)
        np.add.at(value, answer, estimate)
        at = value[differs]
        last = t == len(tables) - 1
        over += int(
            (_flow_cost(at, b[differs], weight, last) - _flow_cost(at, a[differs], weight, last)).sum()
        )
        apart = 2 * APART_PERSONS * np.sqrt(float(size[differs].sum()))
        allowance += int(np.ceil(UNIT * weight * apart)) + GRID * weight * int(differs.sum())
    return over, allowance


def beyond_rounding(estimate: Floats, published: Ints) -> bool:
    """Tell whether some count is more than one from an estimate, however close another machine's estimate is."""
    return bool((np.abs(published - estimate) > 1 + APART_PERSONS).any())


def _flow_cost(value: Floats, count: Ints, weight: int, cell: bool) -> Ints:
    """Return |count - value| as the flow's arcs price it, int64, up to a constant that depends on the value only."""
    goal = np.floor(value + SNAP)
    part = np.clip(value - goal, 0.0, 1.0)
    if cell:
        part[part < SNAP] = 0.0
    step = np.rint(UNIT * weight * (1 - 2 * part)).astype(np.int64)
    above = count - goal.astype(np.int64)
    return np.where(above <= 0, -UNIT * weight * above, step + UNIT * weight * (above - 1))


def _answer_sums(table: Ints, n: int, values: Ints | NDArray[np.bool_]) -> Ints:
    out = np.zeros((n, values.shape[1]), dtype=np.int64)
    np.add.at(out, table, values)
    return out


def unproved_reason(residual: float, rounded: Rounded) -> str:
    """Return in words why a solved problem cannot tell an optimum from another table; empty if it can."""
    if not residual <= TARGET_PERSONS:
        return f"the estimate found here is only proved to be within {residual:.0e} persons of the optimum"
    return "" if rounded.optimal else "the rounding found here is not proved to be the best"


def table_of_nodes(nodes: list[Node], cells: Ints, index: Ints) -> Ints | None:
    """Return tables of nodes as an array (len(cells), len(index)); None if one has records elsewhere.

    Args:
        cells, index: increasing.
    """
    known = {int(node): j for j, node in enumerate(index)}
    out = np.zeros((len(cells), len(index)), dtype=np.int64)
    for node in nodes:
        place = np.searchsorted(cells, node.cells)
        inside = place < len(cells)
        inside[inside] = cells[place[inside]] == node.cells[inside]
        if node.index not in known or not inside.all():
            return None
        out[place, known[node.index]] = node.counts
    return out


def joined_reports(weighed: list[GapReport]) -> GapReport:
    """Return what is said of the problems that decide one split together."""
    return reduce(GapReport.also, weighed, GapReport())
