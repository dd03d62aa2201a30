"""Facilities that public columns count (group quarters): how many, how big, where, and who may live there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.model.constraint import AtLeast, Invariants
from topdown.model.schema import Schema
from topdown.synth.profile import Profile, facility_shape
from topdown.synth.stream import Stream

MOST_IN_FACILITIES = 0.2  # of all people, unless nobody may live elsewhere


@dataclass(frozen=True, eq=False)
class Housing:
    """Which cells may hold residents, and which the people of each facility bound.

    Args:
        residents: bool array of shape (n_cells,): cells no facility is needed for.
        bounds: (lower bound, cells that fulfil it and are open where its column is positive).
    """

    residents: NDArray[np.bool_]
    bounds: tuple[tuple[AtLeast, NDArray[np.bool_]], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Public columns that count facilities, each once."""
        return tuple(dict.fromkeys(bound.column for bound, _ in self.bounds))


def housing(schema: Schema, invariants: Invariants) -> Housing:
    """Read from the invariants who may live where; a column with a lower bound counts facilities.

    Raises:
        ConfigError: a lower bound that no single column's facilities can fulfil.
    """
    never = np.zeros(schema.n_cells, dtype=bool)
    for zero in invariants.never:
        never |= schema.select(dict(zero.cells))
    counted = {bound.column for bound in invariants.at_least}
    shuts = [z for z in invariants.none_where_zero if counted >= {*z.columns}]
    closed = [(z.columns, schema.select(dict(z.cells))) for z in shuts]
    residents = ~never
    for _, cells in closed:
        residents &= ~cells
    bounds = []
    for bound in invariants.at_least:
        cells = schema.select(dict(bound.cells)) & ~never
        for columns, shut in closed:
            if bound.column not in columns:
                cells &= ~shut
        if not cells.any():
            raise ConfigError(
                f"made-up people cannot meet {bound.name!r}: other constraints shut its cells",
                code="C063",
                fix="let some cell of the bound be open wherever its column is positive",
            )
        bounds.append((bound, cells))
    return Housing(residents, tuple(bounds))


def sizes(profile: Profile, who: Housing, people: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Draw the people of every facility, by column; each facility meets its lower bounds.

    Raises:
        ConfigError: everybody must live in a facility and there is none.
    """
    out: dict[str, NDArray[np.int64]] = {}
    everybody = not who.residents.any()
    budget = people if everybody else int(people * MOST_IN_FACILITIES)
    left, wished = budget, 0
    for column in who.columns:
        shape = facility_shape(profile, column)
        need = sum(bound.per for bound, _ in who.bounds if bound.column == column)
        n = max(1, round(people * shape.per_million / 1e6)) if shape.per_million else 0
        n = min(n, left // max(need, 1))
        z = Stream(seed, "facility size", column).normal(n)
        out[column] = np.maximum(need, np.rint(shape.size * np.exp(z * shape.spread / 100)).astype(np.int64))
        wished += int(out[column].sum()) - need * n
        left -= need * n
    if wished > left:
        for column, size in out.items():
            need = sum(bound.per for bound, _ in who.bounds if bound.column == column)
            out[column] = need + (size - need) * left // wished
    if everybody:
        full = [column for column, size in out.items() if len(size)]
        if not full:
            raise ConfigError(
                "made-up people have nowhere to live: every cell needs a facility and there is none",
                code="C064",
                fix="raise --people, or leave some cell open",
            )
        out[full[0]][0] += people - sum(int(size.sum()) for size in out.values())
    return out


def place(
    profile: Profile, column: str, size: NDArray[np.int64], n_leaves: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put facilities at leaves, several a site where the profile says so.

    Returns:
        facilities and their people, each of shape (n_leaves,).
    """
    per_site = facility_shape(profile, column).per_site
    n_sites = -(-len(size) // per_site)
    leaf = Stream(seed, "facility site", column).below(n_leaves, n_sites)[np.arange(len(size)) // per_site]
    n_facilities, people = np.zeros(n_leaves, dtype=np.int64), np.zeros(n_leaves, dtype=np.int64)
    np.add.at(n_facilities, leaf, 1)
    np.add.at(people, leaf, size)
    return n_facilities, people
