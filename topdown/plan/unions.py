"""Lists of areas that are counted together: a public table of geocodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topdown.columns import UnreadableError, header_of, shown
from topdown.errors import DataError
from topdown.model.geography import Geography
from topdown.plan.public_tables import read_table

ALL = "all"  # name of the only union of a list without names


@dataclass(frozen=True, eq=False)
class Union:
    """Areas counted together.

    Args:
        name: of the union.
        members: per level, its areas, int64, increasing; none inside another.
    """

    name: str
    members: tuple[NDArray[np.int64], ...]

    @property
    def n_areas(self) -> int:
        """How many areas are listed."""
        return sum(len(at) for at in self.members)

    def leaves(self, geography: Geography) -> NDArray[np.bool_]:
        """Mark the leaves inside, bool (n_leaves,)."""
        out = np.zeros(len(geography.leaves), dtype=bool)
        for up, at in zip(geography.ancestors_of_leaves, self.members, strict=True):
            out |= np.isin(up, at)
        return out


def read_unions(path: Path, geography: Geography) -> tuple[Union, ...]:
    """Read a list of areas: column geocode, of any level, and area, the name of its union, if there are several.

    Args:
        path: CSV(.gz) or Parquet. geography: of the release.

    Raises:
        DataError: as `read_table`; D063 an unknown or repeated geocode, or an area inside another of its union.
    """
    try:
        named = path.is_file() and "area" in header_of(path)
    except UnreadableError:
        named = False  # read_table says what is wrong
    table = read_table(path, ("geocode", "area") if named else ("geocode",))
    codes = table.column("geocode").to_pylist()
    names = table.column("area").to_pylist() if named else [ALL] * len(codes)
    place: dict[str, list[tuple[int, int]]] = {}
    for depth, level in enumerate(geography.levels):
        for i, code in enumerate(level.codes):
            place.setdefault(code, []).append((depth, i))
    found: dict[str, set[tuple[int, int]]] = {name: set() for name in names}
    for row, (code, name) in enumerate(zip(codes, names, strict=True), start=1):
        where = place.get(code, [])
        if len(where) != 1:
            what = "names areas of two levels" if where else "is no area of the release"
            raise _wrong(path, row, f"geocode {shown(code)!r} {what}")
        if where[0] in found[name]:
            raise _wrong(path, row, f"geocode {shown(code)!r} is there twice")
        found[name].add(where[0])
    unions = []
    for name, areas in found.items():
        at = [sorted(i for d, i in areas if d == depth) for depth in range(len(geography.levels))]
        union = Union(name, tuple(np.array(members, dtype=np.int64) for members in at))
        _refuse_nested(path, geography, union)
        unions.append(union)
    return tuple(unions)


def _refuse_nested(path: Path, geography: Geography, union: Union) -> None:
    inside = np.zeros(1, dtype=bool)
    for depth, (level, members) in enumerate(zip(geography.levels, union.members, strict=True)):
        inside = inside[level.parent] if depth else inside
        nested = members[inside[members]]
        if len(nested):
            raise _wrong(
                path, None, f"geocode {shown(level.codes[int(nested[0])])!r} lies inside another area of it"
            )
        inside = inside.copy()
        inside[members] = True


def _wrong(path: Path, row: int | None, text: str) -> DataError:
    where = f"row {row}: " if row else ""
    return DataError(
        f"{path}: {where}{text}",
        code="D063",
        file=str(path),
        fix="list every area once, none inside another (text, leading zeros)",
    )
