"""Readable names for sets of cells: the labels they have in common."""

from __future__ import annotations

import numpy as np

from topdown.model.constraint import Selection
from topdown.model.kinds import Kinds
from topdown.model.schema import Schema
from topdown.solve.groups import Ints

SHOWN = 3  # labels, or runs of labels, that are named one by one


def selection_text(schema: Schema, selection: Selection) -> str:
    """Write chosen cells as `hhgq=nursing & votingage=under_18`; neighbouring values as `age=0..14`."""
    labels = {attribute.name: attribute.labels for attribute in schema.attributes}
    parts = [
        f"{name}={'|'.join(_runs(labels[name], [labels[name].index(v) for v in values]))}"
        for name, values in selection
    ]
    return " & ".join(parts) or "everyone"


def cells_name(schema: Schema, cells: Ints) -> str:
    """Name a set of cells, `part of ...` if it is no product of values."""
    parts, n_product = [], 1
    for attribute, values in zip(schema.attributes, schema.coordinates(cells), strict=True):
        used = np.unique(values)
        n_product *= len(used)
        if len(used) < len(attribute.labels):
            shown = _runs(attribute.labels, used.tolist())
            few = len(shown) <= SHOWN
            parts.append("|".join(shown) if few else f"{len(used)} values of {attribute.name}")
    name = " & ".join(parts) or "everyone"
    return name if n_product == len(cells) else f"part of {name}"


def _runs(labels: tuple[str, ...], chosen: list[int]) -> list[str]:
    """Write values; four or more that follow each other as `first..last`."""
    out: list[str] = []
    chosen = sorted(chosen)
    start = 0
    for i in range(1, len(chosen) + 1):
        if i < len(chosen) and chosen[i] == chosen[i - 1] + 1:
            continue
        run = [labels[v] for v in chosen[start:i]]
        out += [f"{run[0]}..{run[-1]}"] if len(run) > SHOWN else run
        start = i
    return out


def kind_names(schema: Schema, kinds: Kinds) -> tuple[str, ...]:
    """Name the kinds of cells of a release, each differently."""
    names: list[str] = []
    for k in range(kinds.n_kinds):
        name = cells_name(schema, np.flatnonzero(kinds.of_cell == k))
        again = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({again + 1})" if again else name)
    return tuple(names)
