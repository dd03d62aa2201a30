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
from topdown.synth.together import Crowd

Bools = NDArray[np.bool_]
MOST_IN_FACILITIES = 0.2  # of all people, unless nobody may live elsewhere


@dataclass(frozen=True, eq=False)
class Lodging:
    """One kind of facility: all that a column counts, or those of one sex, say.

    Args:
        columns: public columns that count it, the first of which gives number, size and site.
        share: how many of the first column's facilities are of this kind, relative to its other kinds.
        guests: (name, least people a facility, their cells); each person meets one of these bounds.
    """

    columns: tuple[str, ...]
    share: int
    guests: tuple[tuple[str, int, Bools], ...]

    @property
    def need(self) -> int:
        """People in the smallest facility."""
        return sum(per for _, per, _ in self.guests)


@dataclass(frozen=True, eq=False)
class Housing:
    """Which cells may hold residents, and which kinds of facilities there are.

    Args:
        residents: bool array of shape (n_cells,): cells no facility is needed for.
        lodgings: kinds of facilities by the column that counts all of them.
    """

    residents: Bools
    lodgings: dict[str, tuple[Lodging, ...]]


def housing(schema: Schema, invariants: Invariants, profile: Profile) -> Housing:
    """Read from the invariants who may live where; a column with a lower bound counts facilities.

    Raises:
        ConfigError: a lower bound that no single column's facilities can fulfil.
    """
    kinds = _columns(invariants, profile)
    counted = {column for kind in kinds for column in kind}
    never = np.zeros(schema.n_cells, dtype=bool)
    for rule in invariants.never:
        never |= schema.select(dict(rule.cells))
    shuts = [z for z in invariants.none_where_zero if counted >= {*z.columns}]
    shut_by = np.zeros(schema.n_cells, dtype=np.int16)  # how many of them shut each cell
    for zero in shuts:
        shut_by += schema.select(dict(zero.cells))
    lodgings: dict[str, list[Lodging]] = {}
    for columns, share in kinds.items():
        others, opened = shut_by.copy(), np.zeros(schema.n_cells, dtype=bool)
        for zero in shuts:
            if {*columns} & {*zero.columns}:
                cells = schema.select(dict(zero.cells))
                others -= cells
                opened |= cells
        free = (others == 0) & ~never
        bounds = [
            (bound, schema.select(dict(bound.cells)) & free)
            for bound in invariants.at_least
            if bound.column in columns
        ]
        for bound, cells in bounds:
            if not cells.any():
                raise ConfigError(
                    f"made-up people cannot meet {bound.name!r}: other constraints shut its cells",
                    code="C063",
                    fix="let some cell of the bound be open wherever its column is positive",
                )
        plain = len(columns) == 1
        guests = [(b.name if plain else f"{b.name} ({columns[-1]})", b.per, c) for b, c in _needed(bounds)]
        if not guests and (opened & free).any():
            guests = [(columns[-1], 0, opened & free)]
        lodgings.setdefault(columns[0], []).append(Lodging(columns, share, tuple(guests)))
    return Housing(~never & (shut_by == 0), {name: tuple(found) for name, found in lodgings.items()})


def _columns(invariants: Invariants, profile: Profile) -> dict[tuple[str, ...], int]:
    """Return the columns that count each kind of facility, and its share among those of the first column."""
    read = {*invariants.columns}
    split = {shape.column: shape.kinds for shape in profile.facility if read & {*shape.kinds}}
    all_of = {part: column for column, parts in split.items() for part in parts}
    out: dict[tuple[str, ...], int] = {}
    for column in dict.fromkeys(all_of.get(b.column, b.column) for b in invariants.at_least):
        if column in split:
            out |= {(column, part): share for part, share in split[column].items()}
        else:
            out[column,] = 1
    return out


def _needed(bounds: list[tuple[AtLeast, Bools]]) -> list[tuple[AtLeast, Bools]]:
    """Leave out bounds that another one's people meet by themselves."""

    def meets(a: tuple[AtLeast, Bools], b: tuple[AtLeast, Bools]) -> bool:
        return a[0].per >= b[0].per and not (a[1] & ~b[1]).any()

    return [
        b
        for i, b in enumerate(bounds)
        if not any(meets(a, b) and (j < i or not meets(b, a)) for j, a in enumerate(bounds) if j != i)
    ]


def sizes(profile: Profile, who: Housing, people: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Draw the people of every facility, by column; each facility meets its lower bounds.

    Raises:
        ConfigError: everybody must live in a facility and there is none.
    """
    out: dict[str, NDArray[np.int64]] = {}
    everybody = not who.residents.any()
    budget = people if everybody else int(people * MOST_IN_FACILITIES)
    left, wished = budget, 0
    least = {column: max(lodging.need for lodging in found) for column, found in who.lodgings.items()}
    for column, need in least.items():
        shape = facility_shape(profile, column)
        n = max(1, round(people * shape.per_million / 1e6)) if shape.per_million else 0
        n = min(n, left // max(need, 1))
        z = Stream(seed, "facility size", column).normal(n)
        out[column] = np.maximum(need, np.rint(shape.size * np.exp(z * shape.spread / 100)).astype(np.int64))
        wished += int(out[column].sum()) - need * n
        left -= need * n
    if wished > left:
        for column, size in out.items():
            need = least[column]
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


def settle(
    profile: Profile, who: Housing, size: dict[str, NDArray[np.int64]], n_leaves: int, seed: int
) -> tuple[dict[str, NDArray[np.int32]], list[Crowd]]:
    """Put facilities at leaves, several a site where the profile says so.

    Args:
        size: people of every facility, by column.

    Returns:
        facilities of every column, shape (n_leaves,), and the groups of people who live in them.
    """
    facilities: dict[str, NDArray[np.int32]] = {}
    groups: list[Crowd] = []
    for column, of_each in size.items():
        leaf = sites(profile, column, len(of_each), n_leaves, seed)
        kind = _kinds(who.lodgings[column], column, len(of_each), seed)
        for k, lodging in enumerate(who.lodgings[column]):
            mine = kind == k
            own, which = np.unique(leaf[mine], return_inverse=True)
            n_here = np.bincount(which, minlength=len(own))
            spare = np.zeros(len(own), dtype=np.int64)
            np.add.at(spare, which, of_each[mine])
            spare -= lodging.need * n_here
            for name in lodging.columns:
                column_of = facilities.setdefault(name, np.zeros(n_leaves, dtype=np.int32))
                column_of[own] += n_here.astype(np.int32)
            for i, (name, per, cells) in enumerate(lodging.guests):
                people = per * n_here + (spare if i == 0 else 0)
                groups.append(Crowd(name, own[people > 0], people[people > 0], cells))
    return facilities, groups


def sites(profile: Profile, column: str, n: int, n_leaves: int, seed: int) -> NDArray[np.int64]:
    """Draw the leaf of each of n facilities; those of one site share it."""
    per_site = facility_shape(profile, column).per_site
    n_sites = -(-n // per_site)
    return Stream(seed, "facility site", column).below(n_leaves, n_sites)[np.arange(n) // per_site]


def _kinds(lodgings: tuple[Lodging, ...], column: str, n: int, seed: int) -> NDArray[np.int64]:
    if len(lodgings) == 1:
        return np.zeros(n, dtype=np.int64)
    with np.errstate(divide="ignore"):
        weights = np.log([[float(lodging.share) for lodging in lodgings]])
    return Stream(seed, "facility kind", column).choose(weights, np.zeros(n, dtype=np.int64))
