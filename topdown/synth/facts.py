"""Public columns that count dwellings, made to agree with the people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.model.constraint import AtMost, Invariants, NoneWhereZero
from topdown.model.histogram import Histogram
from topdown.model.schema import Schema
from topdown.synth.profile import Profile
from topdown.synth.stream import Stream


def dwellings(
    schema: Schema,
    invariants: Invariants,
    profile: Profile,
    people: Histogram,
    facilities: dict[str, NDArray[np.int64]],
    seed: int,
) -> dict[str, NDArray[np.int64]]:
    """Return every public column of the invariants, in their order.

    A column that is no facility count holds dwellings: people of the cells it opens divided by people a
    dwelling, at least one where there are people; some empty leaves have vacant ones. Where an upper bound
    counts on a column of dwellings, there are as many as its people need.

    Raises:
        ConfigError: more people than an upper bound on a facility count allows.
    """
    columns = dict(facilities)
    for zero in invariants.none_where_zero:
        n_people = _people(schema, zero, people)
        for column in zero.columns:
            if column not in columns:
                columns[column] = _units(profile, n_people, Stream(seed, "dwellings", column))
        short = (n_people > 0) & (sum(columns[c] for c in zero.columns) == 0)
        if short.any():
            column = next(c for c in zero.columns if c not in facilities)
            columns[column] = columns[column] + short
    for cap in invariants.at_most:
        n_people = _people(schema, cap, people)
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


def _people(schema: Schema, rule: NoneWhereZero | AtMost, people: Histogram) -> NDArray[np.int64]:
    """Count the people in a constraint's cells at every leaf."""
    inside = schema.select(dict(rule.cells))[people.cell]
    out = np.zeros(people.n_nodes, dtype=np.int64)
    np.add.at(out, people.node[inside], people.count[inside])
    return out


def _units(profile: Profile, n_people: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
    n = len(n_people)
    rate = profile.people_per_dwelling / 100 * np.exp(0.12 * stream.normal(n))
    lived = np.rint(n_people / rate).astype(np.int64)
    has_vacant = stream.uniform(n) < profile.vacant / 100
    n_vacant = 1 + (-5 * np.log1p(-stream.uniform(n))).astype(np.int64)
    return np.where(n_people > 0, lived, has_vacant * n_vacant)
