"""Readable names for sets of cells: the labels they have in common."""

from __future__ import annotations

import numpy as np

from topdown.model.constraint import Selection
from topdown.model.kinds import Kinds
from topdown.model.schema import Schema
from topdown.solve.problem import Ints

SHOWN = 3  # labels of a value list that are named one by one


def selection_text(selection: Selection) -> str:
    """Write chosen cells as `hhgq=nursing & votingage=under_18`."""
    return " & ".join(f"{name}={'|'.join(labels)}" for name, labels in selection) or "everyone"


def cells_name(schema: Schema, cells: Ints) -> str:
    """Name a set of cells, `part of ...` if it is no product of values."""
    parts, n_product = [], 1
    for attribute, values in zip(schema.attributes, schema.coordinates(cells), strict=True):
        used = np.unique(values)
        n_product *= len(used)
        if len(used) < len(attribute.labels):
            few = len(used) <= SHOWN
            parts.append(
                "|".join(attribute.labels[v] for v in used)
                if few
                else f"{len(used)} values of {attribute.name}"
            )
    name = " & ".join(parts) or "everyone"
    return name if n_product == len(cells) else f"part of {name}"


def kind_names(schema: Schema, kinds: Kinds) -> tuple[str, ...]:
    """Name the kinds of cells of a release, each differently."""
    names: list[str] = []
    for k in range(kinds.n_kinds):
        name = cells_name(schema, np.flatnonzero(kinds.of_cell == k))
        again = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({again + 1})" if again else name)
    return tuple(names)
