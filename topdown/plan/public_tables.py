"""Public tables: leaf facts and geography as offices give them and as releases hold them, names and unions of areas.

Errors name file and row. Hashes of geography and facts are what plans name them by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from topdown.arrays import Bools, Ints
from topdown.errors import DataError
from topdown.inputs import (
    PublicTable,
    TableSource,
    codes_from_arrow,
    codes_to_arrow,
    header_if_readable,
    printable,
    read_table,
    text_columns,
    whole_columns,
    write_parquet,
)
from topdown.model import (
    Codes,
    Geography,
    NarrowColumns,
    PublicFacts,
    from_columns,
    from_parents,
    from_prefixes,
    from_release_listing,
    narrow,
)
from topdown.model.geography import CODE_SEPARATOR, joined_codes
from topdown.plan.level_columns import name_column, public_columns
from topdown.plan.run_file import GeographyTable


def read_public(
    leaves_path: TableSource,
    geography: GeographyTable,
    columns: tuple[str, ...],
    beside: Path,
    ignored: tuple[str, ...] | None = (),
    called: Mapping[str, str] | None = None,
) -> tuple[Geography, PublicFacts]:
    """Read leaf facts and build the tree.

    Args:
        leaves_path: table with `geocode` and the named columns; one row a leaf.
        geography: levels, with prefix lengths or the path of a table geocode,parent,level.
        columns: public columns the invariants need.
        beside: folder that paths are relative to.
        ignored: columns of either table that are not read; None allows any.
        called: what columns are called in the table of leaves, where that is another name.

    Raises:
        DataError: see `read_table`, `from_prefixes`, `from_parents`; also a leaf listed twice, or leaves that differ
            between the two tables (D012, D018).
    """
    parts = [[part.strip() for part in name.split("+")] for name in geography.columns]
    above = tuple(dict.fromkeys(part for names in parts for part in names))
    texts = text_columns("geocode", *above, integers=bool(parts))
    table = read_table(leaves_path, (*texts, *whole_columns(*columns)), ignored=ignored, called=called)
    codes = codes_from_arrow(table.text("geocode"))
    _check_once(leaves_path, codes)
    if parts:
        areas = {name: table.texts(name) for name in above}
        tree = from_columns(
            geography.levels, [joined_codes([areas[part] for part in names]) for names in parts], codes
        )
    else:
        tree = _read_tree(geography, codes, beside, ignored)
    facts = _facts_of(table, codes, tree, columns, leaves_path)
    del table
    pa.default_memory_pool().release_unused()
    return tree, facts


def read_facts(leaves: TableSource, tree: Geography, columns: tuple[str, ...]) -> PublicFacts:
    """Read public columns of the leaves of a tree that is known; other columns are not read.

    Raises:
        DataError: see `read_table`; D012 a leaf twice, D018 leaves that are not those of the tree.
    """
    table = read_table(leaves, (*text_columns("geocode"), *whole_columns(*columns)), ignored=None)
    codes = codes_from_arrow(table.text("geocode"))
    _check_once(leaves, codes)
    return _facts_of(table, codes, tree, columns, leaves)


def _facts_of(
    table: PublicTable, codes: Sequence[str], tree: Geography, columns: tuple[str, ...], source: TableSource
) -> PublicFacts:
    order = find_rows(codes, tree.leaves.codes)
    if len(tree.leaves) != len(codes) or (order < 0).any():
        odd = sorted(set(codes) ^ set(tree.leaves.codes))[0]
        raise DataError(
            f"leaf {odd!r} is in only one of the leaf table and the geography table",
            code="D018",
            file=str(source),
            fix="list the same leaves in both",
            node=odd,
        )
    return PublicFacts(NarrowColumns({name: narrow(table.numbers(name)[order]) for name in columns}))


def find_rows(codes: Sequence[str], wanted: Sequence[str]) -> Ints:
    """Return the row of each code that is wanted, -1 where there is none.

    Args:
        codes: of the rows, each once.
    """
    if not (isinstance(codes, Codes) and isinstance(wanted, Codes)):
        row = {code: i for i, code in enumerate(codes)}
        return np.array([row.get(code, -1) for code in wanted], dtype=np.int64)
    by_code = np.argsort(codes.coded, kind="stable")
    held = codes.coded[by_code]
    at = np.minimum(np.searchsorted(held, wanted.coded), len(held) - 1)
    return np.where(held[at] == wanted.coded, by_code[at], -1)


def _check_once(path: TableSource, codes: Sequence[str]) -> None:
    """Refuse a table that gives a leaf twice (DataError D012)."""
    if isinstance(codes, Codes):
        held = np.sort(codes.coded)
        if not (held[1:] == held[:-1]).any():
            return
    first_row: dict[str, int] = {}
    for row, code in enumerate(codes, start=1):
        if code in first_row:
            raise DataError(
                f"{path}, row {row}: leaf {code!r} was already given in row {first_row[code]}",
                code="D012",
                file=str(path),
                fix="keep one row a leaf",
                node=code,
            )
        first_row[code] = row


def _read_tree(
    geography: GeographyTable, codes: Sequence[str], beside: Path, ignored: tuple[str, ...] | None
) -> Geography:
    if geography.prefix_lengths:
        return from_prefixes(geography.levels, geography.prefix_lengths, codes)
    path = beside / geography.table
    tree = _tree_from_rows(path, ignored)
    if tree.level_names != geography.levels:
        raise DataError(
            f"{path} has the levels {', '.join(tree.level_names)}; the run file names {', '.join(geography.levels)}",
            code="D015",
            file=str(path),
            fix="make geography.levels and the table agree",
        )
    return tree


def _tree_from_rows(path: Path, ignored: tuple[str, ...] | None = ()) -> Geography:
    table = read_table(path, text_columns("geocode", "parent", "level"), ignored=ignored)
    rows = zip(table.texts("geocode"), table.texts("parent"), table.texts("level"), strict=True)
    return from_parents(list(rows))


_AT_ONCE = 65_536  # geocodes hashed


def geography_sha256(geography: Geography) -> str:
    """Hash the tree alone, names of levels with it: SHA-256 in hex."""
    return _hash_of_tree(geography).hexdigest()


def _hash_of_tree(geography: Geography) -> hashlib._Hash:
    digest = hashlib.sha256()
    for level in geography.levels:
        digest.update(f"level {level.name} {len(level)}\n".encode())
        for at in range(0, len(level), _AT_ONCE):
            digest.update(("\n" * (at > 0) + "\n".join(level.codes[at : at + _AT_ONCE])).encode())
        digest.update(level.parent.astype("<i8").tobytes())
    return digest


def public_sha256(geography: Geography, facts: PublicFacts) -> str:
    """Hash the tree and the facts (not the files' bytes): SHA-256 in hex."""
    digest = _hash_of_tree(geography)
    for name in sorted(facts.columns):
        digest.update(f"\ncolumn {name}\n".encode())
        digest.update(facts.columns[name].astype("<i8").tobytes())
    return digest.hexdigest()


def write_public(folder: Path, geography: Geography, facts: PublicFacts) -> None:
    """Write `geography.parquet` (level, geocode, parent) and `leaves.parquet` (geocode, columns) for the release."""
    folder.mkdir(parents=True, exist_ok=True)
    code = [codes_to_arrow(level.codes) for level in geography.levels]
    parent = [pa.array([""])]
    parent += [up.take(pa.array(at.parent)) for up, at in zip(code, geography.levels[1:], strict=False)]
    of = np.repeat(np.arange(len(code), dtype=np.int32), [len(level) for level in geography.levels])
    columns = {
        "level": pa.DictionaryArray.from_arrays(of, pa.array(geography.level_names)),
        "geocode": pa.concat_arrays(code),
        "parent": pa.concat_arrays(parent),
    }
    _write_parquet(folder / "geography.parquet", pa.table(columns), "topdown.geography")
    leaf_columns = {"geocode": code[-1]}
    leaf_columns |= {name: pa.array(values) for name, values in facts.columns.items()}
    _write_parquet(folder / "leaves.parquet", pa.table(leaf_columns), "topdown.leaves")


def read_release_public(folder: Path) -> tuple[Geography, PublicFacts]:
    """Read back what `write_public` wrote."""
    path = folder / "geography.parquet"
    tree = _tree_from_listing(path)
    if tree is None:
        tree = _tree_from_rows(path)
    leaves = read_leaves(folder / "leaves.parquet", tree)
    pa.default_memory_pool().release_unused()  # as much as tree and facts, and kept by Arrow otherwise
    return tree, leaves


def _tree_from_listing(path: Path) -> Geography | None:
    """Return the tree of a table that is ordered as `write_public` orders it; None for any other.

    Columns are read one at a time: as texts, all of them at once are more than the tree.
    """
    codes, parent = codes_from_arrow(_read_text_column(path, "geocode")), _read_text_column(path, "parent")
    is_root = not parent[0].as_py()
    parents = codes_from_arrow(parent.slice(1))
    del parent
    if not (is_root and isinstance(codes, Codes) and isinstance(parents, Codes)):
        return None
    level = _read_text_column(path, "level").combine_chunks().dictionary_encode()
    level = level.combine_chunks() if isinstance(level, pa.ChunkedArray) else level
    return from_release_listing(tuple(level.dictionary.to_pylist()), level.indices.to_numpy(), codes, parents)


def _read_text_column(path: Path, name: str, *, of_release: bool = True) -> pa.ChunkedArray:
    return read_table(path, text_columns(name), ignored=None, of_release=of_release).text(name)


def read_leaves(path: Path, geography: Geography, *, of_release: bool = True) -> PublicFacts:
    """Read back the facts that `write_public` wrote; DataError D018 if they are of other leaves.

    Args:
        path, geography: the file, and the areas it is of.
        of_release: whether the release is this one, not one that it extends; see `TableReader`.
    """
    names = tuple(name for name in header_if_readable(path, of_release=of_release) if name != "geocode")
    if codes_from_arrow(_read_text_column(path, "geocode", of_release=of_release)) != geography.leaves.codes:
        raise DataError(
            f"{path} has other leaves than the geography",
            code="D018",
            file=str(path),
            fix="get the release again; do not mix files of two runs",
        )
    facts = {}
    for name in names:  # one at a time: all of them at once are as much as everything else of a nation
        table = read_table(path, whole_columns(name), ignored=None, of_release=of_release)
        facts[name] = narrow(table.numbers(name))
    return PublicFacts(NarrowColumns(facts))


def _write_parquet(path: Path, table: pa.Table, document_type: str) -> None:
    part = path.with_suffix(".parquet.tmp")
    with part.open("wb") as file:
        write_parquet(file, document_type, [table], {})
    part.replace(path)


def read_area_names(path: Path, geography: Geography) -> dict[str, str]:
    """Return names by geocode, from a table geocode, name, or from columns of codes and names in the table of leaves.

    Columns of codes are those whose values are areas of a level; each determines the column of its names.

    Args:
        path: CSV(.gz) or Parquet; other columns are not read. A table geocode, name may name areas of any level, and
            areas that the release lacks; a geocode of two levels gets no name.
        geography: of the release.

    Raises:
        DataError: as `read_table`; D064 a geocode has two names, or none is an area of the release.
    """
    if not {"geocode", "name"} <= set(header_if_readable(path)):
        columns, named, taken = public_columns(path), dict[str, str](), set[str]()
        for level in reversed(geography.levels):
            codes = {code.removeprefix(f"{level.name}{CODE_SEPARATOR}"): code for code in level.codes}
            holding = [c for c in columns.values if c not in taken and set(columns.texts[c]) <= codes.keys()]
            for column in holding:
                names = name_column(columns, column, level.name, {*taken, *holding})
                if names:
                    taken |= {column, names}
                    pairs = columns.names_by_code(column, names).items()
                    named |= {codes[code]: name for code, name in pairs}
                    break
    else:
        table = read_table(path, text_columns("geocode", "name"), ignored=None, of_run=False)
        found: dict[str, str] = {}
        for code, name in zip(table.texts("geocode"), table.texts("name"), strict=True):
            if found.setdefault(code, name) != name:
                raise _area_names_error(path, f"geocode {printable(code)!r} has two names")
        places = _places_by_code(geography)
        named = {
            geography.levels[at[0][0]].codes[at[0][1]]: name
            for code, name in found.items()
            if len(at := places.get(code, [])) == 1
        }
    if not named:
        raise _area_names_error(path, "it names no area of the release")
    return named


def _places_by_code(geography: Geography) -> dict[str, list[tuple[int, int]]]:
    """Return (level, area) by code: as it is published, by level and code, and as the office has it."""
    place: dict[str, list[tuple[int, int]]] = {}
    for depth, level in enumerate(geography.levels):
        start = f"{level.name}{CODE_SEPARATOR}"
        for i, code in enumerate(level.codes):
            bare = code.removeprefix(start)
            for spelling in (bare, start + bare):
                place.setdefault(spelling, []).append((depth, i))
    return place


def _area_names_error(path: Path, text: str) -> DataError:
    return DataError(
        f"{path}: {text}",
        code="D064",
        file=str(path),
        fix="give one row an area, with the geocodes of the release (text, leading zeros)",
    )


UNNAMED_UNION = "all"  # name of the only union of a list without names


@dataclass(frozen=True, eq=False)
class AreaUnion:
    """Areas counted together.

    Args:
        members: per level, its areas, int64, increasing; none inside another.
    """

    name: str
    members: tuple[Ints, ...]

    @property
    def n_areas(self) -> int:
        """How many areas are listed."""
        return sum(len(at) for at in self.members)

    def leaves(self, geography: Geography) -> Bools:
        """Mark the leaves inside, bool (n_leaves,)."""
        out = np.zeros(len(geography.leaves), dtype=bool)
        for up, at in zip(geography.ancestors_of_leaves, self.members, strict=True):
            out |= np.isin(up, at)
        return out

    def along_whole_areas(self, geography: Geography) -> tuple[int, AreaUnion]:
        """Return how many areas above the leaves it cuts, and the union of those of which it has half or more.

        The geography has two levels or more.
        """
        parent, n_areas = geography.leaves.parent, len(geography.levels[-2])
        inside = np.bincount(parent[self.leaves(geography)], minlength=n_areas)
        of_all = np.bincount(parent, minlength=n_areas)
        none = np.zeros(0, dtype=np.int64)
        whole = np.flatnonzero((2 * inside >= of_all) & (inside > 0)).astype(np.int64)
        members = [none] * len(geography.levels)
        members[-2] = whole
        return int(((inside > 0) & (inside < of_all)).sum()), AreaUnion(self.name, tuple(members))


def read_unions(path: TableSource, geography: Geography) -> tuple[AreaUnion, ...]:
    """Read a list of areas: column geocode, of any level.

    A column area names its union, if there are several; a column level its level, if one code is used at two.

    Args:
        path: CSV(.gz) or Parquet. geography: of the release.

    Raises:
        DataError: as `read_table`; D063 an unknown or repeated geocode, one of two levels, or an area inside another
            of its union.
    """
    header = header_if_readable(path)
    more = [name for name in ("area", "level") if name in header]
    table = read_table(path, text_columns("geocode", *more, integers=True), of_run=False)
    codes = table.texts("geocode")
    names = table.texts("area") if "area" in more else [UNNAMED_UNION] * len(codes)
    levels = table.texts("level") if "level" in more else [""] * len(codes)
    place = _places_by_code(geography)
    found: dict[str, set[tuple[int, int]]] = {name: set() for name in names}
    for row, (code, level, name) in enumerate(zip(codes, levels, names, strict=True), start=1):
        if not name.strip():
            raise _union_error(path, row, "area is blank: name the union that the row is in")
        where = [at for at in place.get(code, []) if level in ("", geography.levels[at[0]].name)]
        if len(where) != 1:
            what = "is no area of the release" + (f" at level {printable(level)!r}" if level else "")
            if where:
                of = ", ".join(geography.levels[depth].name for depth, _ in where)
                what = f"is an area of {of}: say which in a column level"
            raise _union_error(path, row, f"geocode {printable(code)!r} {what}")
        if where[0] in found[name]:
            raise _union_error(path, row, f"geocode {printable(code)!r} is there twice")
        found[name].add(where[0])
    unions = []
    for name, areas in found.items():
        at = [sorted(i for d, i in areas if d == depth) for depth in range(len(geography.levels))]
        union = AreaUnion(name, tuple(np.array(members, dtype=np.int64) for members in at))
        _refuse_nested(path, geography, union)
        unions.append(union)
    return tuple(unions)


def _refuse_nested(path: TableSource, geography: Geography, union: AreaUnion) -> None:
    inside = np.zeros(1, dtype=bool)
    for depth, (level, members) in enumerate(zip(geography.levels, union.members, strict=True)):
        inside = inside[level.parent] if depth else inside
        nested = members[inside[members]]
        if len(nested):
            raise _union_error(
                path,
                None,
                f"geocode {printable(level.codes[int(nested[0])])!r} lies inside another area of it",
            )
        inside = inside.copy()
        inside[members] = True


def _union_error(path: TableSource, row: int | None, text: str) -> DataError:
    where = f"row {row}: " if row else ""
    return DataError(
        f"{path}: {where}{text}",
        code="D063",
        file=str(path),
        fix="list every area once, none inside another (text, leading zeros)",
    )
