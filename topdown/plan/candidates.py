"""Candidates of a choice and what they cover: public tables in, pairs of candidate and leaf out.

Tables are files or data frames.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topdown.arrays import Floats, Ints
from topdown.errors import ConfigError, DataError
from topdown.inputs import TableSource, header_if_readable, printable, read_table, text_columns
from topdown.model import Geography

EARTH_KM = 6371.0088
MOST_PAIRS = 200_000_000
_DEGREES = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,12})?")
_PLACE = ("latitude", "longitude")


@dataclass(frozen=True, eq=False)
class Candidates:
    """Public candidates, in the order of their file.

    Args:
        names: each once.
        candidate, leaf: pairs; a candidate covers a leaf. Sorted, each pair once.
        districts: of each candidate; None where no column or level was asked for.
        places: latitude and longitude of each, as written; None for candidates that list what they cover.
    """

    names: tuple[str, ...]
    candidate: Ints
    leaf: Ints
    districts: tuple[str, ...] | None
    places: tuple[tuple[str, str], ...] | None


@dataclass(frozen=True)
class Within:
    """Candidates cover the leaves whose public centre lies at most so many kilometres away."""

    kilometres: float
    centres: TableSource


def read_candidates(
    path: TableSource,
    geography: Geography,
    per: str | None,
    within: Within | None,
    ignored: tuple[str, ...] = (),
) -> Candidates:
    """Read a table of candidates.

    Args:
        path: columns `candidate` and `geocode`, an area of any level that it covers, one row a pair; or `candidate`,
            `latitude`, `longitude`, one row each, with `within`. A file's columns are text; those of a data frame may
            have places as numbers.
        geography: of the run.
        per: a column of the table, or a level that the candidates lie in; None without districts.
        within: radius, and a table geocode, latitude, longitude of the leaves.
        ignored: columns that are there and not read, as the run file names them.

    Raises:
        ConfigError: lists with a radius, or coordinates without one (C194); no such column or level (C195).
        DataError: as `read_table`; an unknown geocode, a name twice, a place that is none (D062).
    """
    header = header_if_readable(path)
    listed = "geocode" in header or "latitude" not in header
    if listed == (within is not None) and header:
        raise ConfigError(
            f"{path} {'lists what candidates cover' if listed else 'says where candidates lie'}",
            code="C194",
            file=str(path),
            fix="leave --radius and --centres out" if listed else "give --radius KM and --centres FILE too",
        )
    column = (
        (per,) if per is not None and per in header and per not in ("candidate", "geocode", *_PLACE) else ()
    )
    if per is not None and not column and per not in geography.level_names:
        raise ConfigError(
            f"--per {per} is no column of {path} and no level of the geography",
            code="C195",
            fix=f"name a column that says each candidate's district, or one of: {', '.join(geography.level_names)}",
        )
    values = _read_texts(path, ("candidate", *(("geocode",) if listed else _PLACE), *column), ignored)
    names = tuple(dict.fromkeys(values["candidate"]))
    if listed or within is None:
        pairs = _pairs_from_lists(path, values, names, geography)
        places = None
    else:
        if len(names) < len(values["candidate"]):
            raise _candidates_error(path, "a candidate has two rows", "give each candidate one place")
        places = tuple(zip(values["latitude"], values["longitude"], strict=True))
        pairs = _pairs_within_radius(_parse_degrees(path, values), geography, within, ignored)
    districts = None
    if column:
        districts = _districts_from_column(path, values["candidate"], values[column[0]], names)
    elif per is not None:
        districts = _districts_from_level(path, names, pairs, geography, per)
    return Candidates(names, *pairs, districts, places)


def _read_texts(path: TableSource, names: tuple[str, ...], ignored: tuple[str, ...]) -> dict[str, list[str]]:
    columns = (column for name in names for column in text_columns(name, numbers=name in _PLACE))
    table = read_table(path, tuple(columns), ignored=ignored)
    return {name: table.texts(name) for name in names}


def _pairs_from_lists(
    path: TableSource, values: Mapping[str, list[str]], names: tuple[str, ...], geography: Geography
) -> tuple[Ints, Ints]:
    place: dict[str, tuple[int, int]] = {}
    for depth, level in enumerate(geography.levels):
        for i, code in enumerate(level.codes):
            if code in place and not _is_same_area(geography, place[code], (depth, i)):
                place[code] = (-1, -1)
            elif code not in place:
                place[code] = (depth, i)
    above = geography.ancestors_of_leaves
    leaves: dict[str, Ints] = {}
    for code in dict.fromkeys(values["geocode"]):
        depth, i = place.get(code, (-1, -1))
        if depth < 0:
            known = "names areas of two levels" if code in place else "is no area of the geography"
            raise _candidates_error(
                path, f"geocode {printable(code)!r} {known}", "correct the geocode (text, leading zeros)"
            )
        leaves[code] = np.flatnonzero(above[depth] == i)
    index = {name: i for i, name in enumerate(names)}
    rows = [(index[c], leaves[g]) for c, g in zip(values["candidate"], values["geocode"], strict=True)]
    lengths = [len(found) for _, found in rows]
    if sum(lengths) > MOST_PAIRS:
        raise _candidates_error(
            path, f"it covers more than {MOST_PAIRS:,} pairs", "choose among fewer candidates"
        )
    covering = np.repeat(np.array([i for i, _ in rows], dtype=np.int64), lengths)
    key = np.unique(covering * len(geography.leaves) + np.concatenate([found for _, found in rows]))
    return key // len(geography.leaves), key % len(geography.leaves)


def _is_same_area(geography: Geography, one: tuple[int, int], other: tuple[int, int]) -> bool:
    above = geography.ancestors_of_leaves
    return one[0] >= 0 and bool(np.array_equal(above[one[0]] == one[1], above[other[0]] == other[1]))


def _pairs_within_radius(
    at: Floats, geography: Geography, within: Within, ignored: tuple[str, ...]
) -> tuple[Ints, Ints]:
    """Return pairs of candidate and leaf with a great circle of at most the radius between them."""
    values = _read_texts(within.centres, ("geocode", *_PLACE), ignored)
    index = {code: i for i, code in enumerate(geography.leaves.codes)}
    if len(set(values["geocode"])) < len(values["geocode"]) or set(values["geocode"]) != set(index):
        raise _candidates_error(
            within.centres, "its geocodes are not the leaves, each once", "give each leaf one centre"
        )
    leaf = np.array([index[code] for code in values["geocode"]], dtype=np.int64)
    centres = np.empty((len(leaf), 2))
    centres[leaf] = _parse_degrees(within.centres, values)
    found: list[tuple[Ints, Ints]] = []
    for i, (latitude, longitude) in enumerate(at):
        near = np.flatnonzero(_great_circle_km(centres, latitude, longitude) <= within.kilometres)
        found.append((np.full(len(near), i, dtype=np.int64), near))
    return np.concatenate([i for i, _ in found]), np.concatenate([leaves for _, leaves in found])


def _great_circle_km(at: Floats, latitude: float, longitude: float) -> Floats:
    """Return lengths of great circles, by the haversine formula."""
    north, east = np.radians(at[:, 0]), np.radians(at[:, 1])
    up, over = (north - np.radians(latitude)) / 2, (east - np.radians(longitude)) / 2
    half = np.sin(up) ** 2 + np.cos(north) * np.cos(np.radians(latitude)) * np.sin(over) ** 2
    return np.asarray(2 * EARTH_KM * np.arcsin(np.minimum(1, np.sqrt(half))))


def _parse_degrees(path: TableSource, values: Mapping[str, list[str]]) -> Floats:
    for name, most in zip(_PLACE, (90, 180), strict=True):
        for text in values[name]:
            if not _DEGREES.fullmatch(text) or abs(float(text)) > most:
                raise _candidates_error(
                    path, f"{name} {printable(text)!r} is none", f"give degrees from -{most} to {most}"
                )
    return np.array([values[name] for name in _PLACE], dtype=np.float64).T


def _districts_from_column(
    path: TableSource, rows: list[str], districts: list[str], names: tuple[str, ...]
) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for name, district in zip(rows, districts, strict=True):
        if found.setdefault(name, district) != district:
            raise _candidates_error(
                path, f"candidate {printable(name)!r} has two districts", "give each candidate one"
            )
    return tuple(found[name] for name in names)


def _districts_from_level(
    path: TableSource, names: tuple[str, ...], pairs: tuple[Ints, Ints], geography: Geography, level: str
) -> tuple[str, ...]:
    """Return the area of a level that all leaves of a candidate lie in."""
    depth = geography.index(level)
    codes = geography.levels[depth].codes
    over = geography.ancestors_of_leaves[depth][pairs[1]]
    found = []
    for i, name in enumerate(names):
        areas = np.unique(over[pairs[0] == i])
        if len(areas) != 1:
            text = f"candidate {printable(name)!r} covers places in {len(areas)} areas of level {level}"
            raise ConfigError(
                text, code="C195", file=str(path), fix="give the table a column of districts, and name it"
            )
        found.append(codes[areas[0]])
    return tuple(found)


def _candidates_error(path: TableSource, text: str, fix: str) -> DataError:
    return DataError(f"{path}: {text}", code="D062", file=str(path), fix=fix)
