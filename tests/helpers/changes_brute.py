"""Every pair of (leaf, cell), one by one: what `find_changes` decides by labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from topdown.model.geography import Geography
from topdown.model.schema import Schema

Record = tuple[int, int]  # leaf, cell


@dataclass(frozen=True)
class Statistic:
    """An exact statistic as a reader sees it: a node for each leaf, an answer for each cell."""

    name: str
    node_of_leaf: np.ndarray
    answer_of_cell: np.ndarray

    def tells_apart(self, one: Record, other: Record) -> bool:
        """Tell whether replacing one record by the other changes an answer."""
        nodes, answers = self.node_of_leaf, self.answer_of_cell
        return (nodes[one[0]], answers[one[1]]) != (nodes[other[0]], answers[other[1]])


def decide(
    schema: Schema, geography: Geography, allowed: np.ndarray, known: list[Statistic], neighbours: str
) -> list[tuple[str, str, str, set[str]]]:
    """Return (kind, of, status, names of statistics that some change alters); names are empty if none is possible.

    Args:
        allowed: bool (n_leaves, n_cells), whether anybody can be there.
    """
    records = [(int(leaf), int(cell)) for leaf, cell in zip(*np.nonzero(allowed), strict=True)]
    everything = list(permutations(records, 2))
    out = [("everything", "", *_judge(iter(everything), known))]
    if neighbours == "add_remove":
        status = "disclosed" if known or not records else "protected"
        names = {k.name for k in known} if records else set()
        out.insert(0, ("presence", "", status, names))
    values = {
        cell: tuple(int(v) for v in schema.coordinates(np.array([cell])) for v in v) for _, cell in records
    }
    for i, attribute in enumerate(schema.attributes):
        changes = (
            (a, b)
            for a, b in everything
            if a[0] == b[0] and _only(values[a[1]], values[b[1]], i) and values[a[1]][i] != values[b[1]][i]
        )
        out.append(("attribute", attribute.name, *_judge(changes, known)))
    for depth, up in enumerate(geography.ancestors_of_leaves[:-1]):
        moves = ((a, b) for a, b in everything if a[1] == b[1] and a[0] != b[0] and up[a[0]] == up[b[0]])
        out.append(("within_level", geography.level_names[depth], *_judge(moves, known)))
    return out


def _only(one: tuple[int, ...], other: tuple[int, ...], axis: int) -> bool:
    return all(a == b for i, (a, b) in enumerate(zip(one, other, strict=True)) if i != axis)


def _judge(changes: Iterator[tuple[Record, Record]], known: list[Statistic]) -> tuple[str, set[str]]:
    agrees = altered = False
    names: set[str] = set()
    for one, other in changes:
        seen = {k.name for k in known if k.tells_apart(one, other)}
        agrees, altered, names = agrees or not seen, altered or bool(seen), names | seen
    return ("disclosed" if not agrees else "conditional" if altered else "protected"), names
