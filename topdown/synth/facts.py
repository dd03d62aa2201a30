"""Public columns that count dwellings, made to agree with the people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import Invariants
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
    dwelling, at least one where there are people; some empty leaves have vacant ones.
    """
    columns = dict(facilities)
    for zero in invariants.none_where_zero:
        inside = schema.select(dict(zero.cells))[people.cell]
        n_people = np.zeros(people.n_nodes, dtype=np.int64)
        np.add.at(n_people, people.node[inside], people.count[inside])
        for column in zero.columns:
            if column not in columns:
                columns[column] = _units(profile, n_people, Stream(seed, "dwellings", column))
        short = (n_people > 0) & (sum(columns[c] for c in zero.columns) == 0)
        if short.any():
            column = next(c for c in zero.columns if c not in facilities)
            columns[column] = columns[column] + short
    return {name: columns[name] for name in invariants.columns}


def _units(profile: Profile, n_people: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
    n = len(n_people)
    rate = profile.people_per_dwelling / 100 * np.exp(0.12 * stream.normal(n))
    lived = np.rint(n_people / rate).astype(np.int64)
    has_vacant = stream.uniform(n) < profile.vacant / 100
    n_vacant = 1 + (-5 * np.log1p(-stream.uniform(n))).astype(np.int64)
    return np.where(n_people > 0, lived, has_vacant * n_vacant)
