"""The chain of tables a level is rounded on, and where an exact table sits in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.solve.flow import refines
from topdown.solve.level import LevelModel
from topdown.solve.problem import Ints


@dataclass(frozen=True, eq=False)
class Chain:
    """The rounding chain of a level.

    Args:
        tables: labels, coarse to fine. weights: of one person of error in each.
        exact_place: which of them is the exact table that rounding keeps as mandatory flow; None if there is none.
        crossed: whether there is an exact table and neither the chain nor the limits on kinds can keep it.
    """

    tables: tuple[Ints, ...]
    weights: tuple[int, ...]
    exact_place: int | None = None
    crossed: bool = False


def chain_of(level: LevelModel) -> Chain:
    """Return the rounding chain, with the total in front where totals are exact or kinds have limits.

    An exact table joins it without weight behind the last table that it refines, if the next one refines it.
    """
    tables, weights = level.chain, level.chain_weights
    if (level.exact is not None or level.limited) and tables[0].any():
        tables = (np.zeros_like(tables[0]), *tables)
        weights = (0 if level.exact is None else weights[0], *weights)
    exact = level.exact_of_cell
    if exact is None or level.exact_told:  # limits keep it
        return Chain(tables, weights)
    place = sum(refines(exact, table) for table in tables)
    if place == len(tables) or not refines(tables[place], exact):
        return Chain(tables, weights, crossed=True)
    return Chain((*tables[:place], exact, *tables[place:]), (*weights[:place], 0, *weights[place:]), place)
