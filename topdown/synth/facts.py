"""Public columns that count dwellings, made to agree with the people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.model.constraint import AtMost, Invariants, NoneWhereZero
from topdown.model.histogram import Histogram
from topdown.model.schema import Schema
from topdown.synth.profile import Profile
from topdown.synth.stream import Stream

Counts = NDArray[np.signedinteger[Any]]


class PeopleIn:
    """The people in the cells of every constraint that a column of dwellings may follow, at every leaf.

    Args:
        schema: of the cells.
        invariants: whose constraints.
        n_leaves: of the tree.
    """

    def __init__(self, schema: Schema, invariants: Invariants, n_leaves: int) -> None:
        rules: tuple[NoneWhereZero | AtMost, ...] = (*invariants.none_where_zero, *invariants.at_most)
        self._cells = {rule.cells: schema.select(dict(rule.cells)) for rule in rules}
        self._people = {cells: np.zeros(n_leaves, dtype=np.int32) for cells in self._cells}

    def add(self, people: Histogram) -> None:
        """Count people of some leaves in."""
        for cells, members in self._cells.items():
            inside = members[people.cell]
            np.add.at(self._people[cells], people.node[inside], people.count[inside].astype(np.int32))

    def of(self, rule: NoneWhereZero | AtMost) -> NDArray[np.int32]:
        """Return the people in a constraint's cells at every leaf."""
        return self._people[rule.cells]


def dwellings(
    invariants: Invariants,
    profile: Profile,
    people: PeopleIn,
    facilities: Mapping[str, Counts],
    seed: int,
) -> dict[str, Counts]:
    """Return every public column of the invariants, in their order.

    A column that is no facility count holds dwellings: people of the cells it opens divided by people a
    dwelling, at least one where there are people; some empty leaves have vacant ones. Where an upper bound
    counts on a column of dwellings, there are as many as its people need.

    Raises:
        ConfigError: C063 more people than an upper bound on a facility count allows.
    """
    columns: dict[str, Counts] = dict(facilities)
    for zero in invariants.none_where_zero:
        n_people = people.of(zero)
        for column in zero.columns:
            if column not in columns:
                columns[column] = _units(profile, n_people, Stream(seed, "dwellings", column))
        short = (n_people > 0) & ~np.any([columns[c] > 0 for c in zero.columns], axis=0)
        if short.any():
            column = next(c for c in zero.columns if c not in facilities)
            columns[column] = columns[column] + short
    for cap in invariants.at_most:
        n_people = people.of(cap)
        least = -(-n_people // cap.per)
        if cap.column not in columns:
            columns[cap.column] = _units(profile, n_people, Stream(seed, "dwellings", cap.column))
        if cap.column not in facilities:
            columns[cap.column] = np.maximum(columns[cap.column], least)
        elif (columns[cap.column] < least).any():
            raise ConfigError(
                f"made-up people cannot meet {cap.name!r}: its column counts facilities with more people in them",
                code="C063",
                fix="leave the upper bound out, or let its column count dwellings",
            )
    return {name: columns[name] for name in invariants.columns}


def _units(profile: Profile, n_people: NDArray[np.int32], stream: Stream) -> NDArray[np.int32]:
    n = len(n_people)
    rate = profile.people_per_dwelling / 100 * np.exp(0.12 * stream.normal(n))
    lived = np.rint(n_people / rate).astype(np.int64)
    has_vacant = stream.uniform(n) < profile.vacant / 100
    n_vacant = 1 + (-5 * np.log1p(-stream.uniform(n))).astype(np.int64)
    return np.where(n_people > 0, lived, has_vacant * n_vacant).astype(np.int32)
