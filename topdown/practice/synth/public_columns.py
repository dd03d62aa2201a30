"""Public columns that count facilities (group quarters) and dwellings, made to agree with the people.

Facilities: how many, how big, where, and who may live there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools
from topdown.errors import ConfigError
from topdown.model import ColumnBound, Histogram, Invariants, LeafRule, Schema
from topdown.practice.synth.made_up_people import Crowd
from topdown.practice.synth.profile import Profile, facility_shape
from topdown.practice.synth.repeatable_random import RepeatableRandom

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


def housing_of_schema(schema: Schema, invariants: Invariants, profile: Profile) -> Housing:
    """Read from the invariants who may live where; a column with a lower bound counts facilities.

    Raises:
        ConfigError: a lower bound that no single column's facilities can fulfil.
    """
    kinds = _facility_columns(invariants, profile)
    counted = {column for kind in kinds for column in kind}
    never = np.zeros(schema.n_cells, dtype=bool)
    shuts = []
    for rule in invariants.closing:
        if rule.closes_everywhere:
            never |= schema.select(dict(rule.cells))
        elif counted >= {*rule.read_columns}:
            shuts.append(rule)
    shut_by = np.zeros(schema.n_cells, dtype=np.int16)  # how many of them shut each cell
    for zero in shuts:
        shut_by += schema.select(dict(zero.cells))
    lodgings: dict[str, list[Lodging]] = {}
    for columns, share in kinds.items():
        others, opened = shut_by.copy(), np.zeros(schema.n_cells, dtype=bool)
        for zero in shuts:
            if {*columns} & {*zero.read_columns}:
                cells = schema.select(dict(zero.cells))
                others -= cells
                opened |= cells
        free = (others == 0) & ~never
        bounds = [
            (bound, schema.select(dict(bound.cells)) & free)
            for bound in facility_bounds(invariants)
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
        guests = [
            (b.name if plain else f"{b.name} ({columns[-1]})", b.per, c)
            for b, c in _needed_facilities(bounds)
        ]
        if not guests and (opened & free).any():
            guests = [(columns[-1], 0, opened & free)]
        lodgings.setdefault(columns[0], []).append(Lodging(columns, share, tuple(guests)))
    return Housing(~never & (shut_by == 0), {name: tuple(found) for name, found in lodgings.items()})


def facility_bounds(invariants: Invariants) -> list[ColumnBound]:
    """Return the rules that ask for people wherever a column counts facilities, and do not limit them.

    Raises:
        ConfigError: C063 a rule asks for people in another way.
    """
    out = []
    for rule in invariants.lower_bounds:
        if isinstance(rule, ColumnBound) and not rule.is_upper:
            out.append(rule)
        elif not rule.is_upper:
            raise ConfigError(
                f"made-up people cannot meet {rule.name!r}: nothing says how to make them for rules of its kind",
                code="C063",
                fix="leave the rule out",
            )
    return out


def _facility_columns(invariants: Invariants, profile: Profile) -> dict[tuple[str, ...], int]:
    """Return the columns that count each kind of facility, and its share among those of the first column."""
    read = {*invariants.columns}
    split = {shape.column: shape.kinds for shape in profile.facility if read & {*shape.kinds}}
    all_of = {part: column for column, parts in split.items() for part in parts}
    out: dict[tuple[str, ...], int] = {}
    for column in dict.fromkeys(all_of.get(b.column, b.column) for b in facility_bounds(invariants)):
        if column in split:
            out |= {(column, part): share for part, share in split[column].items()}
        else:
            out[column,] = 1
    return out


def _needed_facilities(bounds: list[tuple[ColumnBound, Bools]]) -> list[tuple[ColumnBound, Bools]]:
    """Leave out bounds that another one's people meet by themselves."""

    def meets(a: tuple[ColumnBound, Bools], b: tuple[ColumnBound, Bools]) -> bool:
        return a[0].per >= b[0].per and not (a[1] & ~b[1]).any()

    return [
        b
        for i, b in enumerate(bounds)
        if not any(meets(a, b) and (j < i or not meets(b, a)) for j, a in enumerate(bounds) if j != i)
    ]


def facility_sizes(profile: Profile, who: Housing, people: int, seed: int) -> dict[str, NDArray[np.int64]]:
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
        z = RepeatableRandom(seed, "facility size", column).normal(n)
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


def settle_facilities(
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
        n = len(of_each)
        per_site = facility_shape(profile, column).per_site
        n_sites = -(-n // per_site)
        leaf = RepeatableRandom(seed, "facility site", column).below(n_leaves, n_sites)[
            np.arange(n) // per_site
        ]
        kind = _facility_kinds(who.lodgings[column], column, len(of_each), seed)
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


def _facility_kinds(lodgings: tuple[Lodging, ...], column: str, n: int, seed: int) -> NDArray[np.int64]:
    if len(lodgings) == 1:
        return np.zeros(n, dtype=np.int64)
    with np.errstate(divide="ignore"):
        weights = np.log([[float(lodging.share) for lodging in lodgings]])
    return RepeatableRandom(seed, "facility kind", column).choose(weights, np.zeros(n, dtype=np.int64))


Counts = NDArray[np.signedinteger[Any]]


class PeopleIn:
    """The people in the cells of every constraint that a column of dwellings may follow, at every leaf."""

    def __init__(self, schema: Schema, invariants: Invariants, n_leaves: int) -> None:
        rules = [r for r in (*invariants.closing, *invariants.upper_bounds) if not r.closes_everywhere]
        self._cells = {rule.cells: schema.select(dict(rule.cells)) for rule in rules}
        self._people = {cells: np.zeros(n_leaves, dtype=np.int32) for cells in self._cells}

    def add(self, people: Histogram) -> None:
        """Count people of some leaves in."""
        for cells, members in self._cells.items():
            inside = members[people.cell]
            np.add.at(self._people[cells], people.node[inside], people.count[inside].astype(np.int32))

    def of(self, rule: LeafRule) -> NDArray[np.int32]:
        """Return the people in a constraint's cells at every leaf."""
        return self._people[rule.cells]


def dwellings(
    invariants: Invariants, profile: Profile, people: PeopleIn, facilities: Mapping[str, Counts], seed: int
) -> dict[str, Counts]:
    """Return every public column of the invariants, in their order.

    A column that is no facility count holds dwellings: people of the cells it opens divided by people a
    dwelling, at least one where there are people; some empty leaves have vacant ones. Where an upper bound
    counts on a column of dwellings, there are as many as its people need.

    Raises:
        ConfigError: C063 more people than an upper bound on a facility count allows, or rules that share a column.
    """
    columns: dict[str, Counts] = dict(facilities)
    after = {rule: rule.made_columns(people.of(rule).astype(np.int64)) for rule in invariants.upper_bounds}
    for rule, made in after.items():
        if rule.is_lower:  # the columns give the number of people, no more and no less
            columns = dict(made) | columns
    fixed = frozenset(columns)
    for zero in (rule for rule in invariants.closing if not rule.closes_everywhere):
        n_people = people.of(zero)
        for column in zero.read_columns:
            if column not in columns:
                columns[column] = _units(profile, n_people, RepeatableRandom(seed, "dwellings", column))
        short = (n_people > 0) & ~np.any([columns[c] > 0 for c in zero.read_columns], axis=0)
        if short.any():
            free = [column for column in zero.read_columns if column not in fixed]
            if not free:
                raise _unmet_error(zero)
            columns[free[0]] = columns[free[0]] + short
    for rule, made in after.items():
        for column, least in made.items():
            if column not in columns:
                rate = RepeatableRandom(seed, "dwellings", column)
                columns[column] = _units(profile, people.of(rule), rate)
            if column not in fixed:
                columns[column] = np.maximum(columns[column], least)
    for rule in after:
        n_people = people.of(rule)
        held = {name: np.asarray(columns[name], dtype=np.int64) for name in rule.read_columns}
        limit = rule.numbers(held, len(n_people))
        if (n_people > limit).any() or (rule.is_lower and (n_people < limit).any()):
            raise _unmet_error(rule)
    return {name: columns[name] for name in invariants.columns}


def _unmet_error(rule: LeafRule) -> ConfigError:
    return ConfigError(
        f"made-up people cannot meet {rule.name!r}: other rules decide what its columns count",
        code="C063",
        fix="leave the rule out, or give it columns of its own",
    )


def _units(profile: Profile, n_people: NDArray[np.int32], stream: RepeatableRandom) -> NDArray[np.int32]:
    n = len(n_people)
    rate = profile.people_per_dwelling / 100 * np.exp(0.12 * stream.normal(n))
    lived = np.rint(n_people / rate).astype(np.int64)
    has_vacant = stream.uniform(n) < profile.vacant / 100
    n_vacant = 1 + (-5 * np.log1p(-stream.uniform(n))).astype(np.int64)
    return np.where(n_people > 0, lived, has_vacant * n_vacant).astype(np.int32)
