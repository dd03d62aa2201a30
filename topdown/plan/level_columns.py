"""Which columns of a public table hold the codes and names of each level's areas, by name and by what determines what.

A column determines another if equal values of it always stand beside equal values of the other. The area of a lower
level determines the areas above it; that is checked for every column that is taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.inputs import TableColumn, TableSource, header_if_readable, printable, read_table
from topdown.inputs.table_reader import is_text
from topdown.model.geography import joined_codes

_CODES = (
    "code",
    "cod",
    "cd",
    "id",
    "key",
    "nr",
    "no",
    "num",
    "number",
    "nummer",
    "numero",
    "geocode",
    "geoid",
    "fips",
)
_CODE_WORDS, _NAME_WORDS = frozenset(_CODES), frozenset(("name", "nom", "nome", "nombre", "label"))


@dataclass(frozen=True)
class LevelColumns:
    """Columns of the table of leaves.

    Args:
        key: of the codes of the leaves.
        above: of the levels above the leaves, root first; the root is left out where it is everything. "a + b" joins
            the codes of two columns.
        told: what was found, a sentence a level.
        n_areas: of all levels together.
    """

    key: str
    above: tuple[str, ...]
    told: tuple[str, ...]
    n_areas: int


@dataclass(frozen=True, eq=False)
class PublicColumns:
    """Columns of a public table that can hold codes or names: whole numbers or text, none empty.

    Args:
        values: by column, the number of each row's value, int64 (n_rows,).
        n_rows: of the table.
        texts: by column, the distinct values, as many as there are numbers.
    """

    values: Mapping[str, Ints]
    n_rows: int
    texts: Mapping[str, Sequence[str]]

    def n_distinct(self, column: str) -> int:
        """Return how many values a column has."""
        return len(self.texts[column])

    def determines(self, column: str, other: str) -> bool:
        """Tell whether equal values of one column always stand beside equal values of another."""
        pairs = self.values[column] * self.n_distinct(other) + self.values[other]
        return len(np.unique(pairs)) == self.n_distinct(column)

    def joined(self, column: str, other: str) -> PublicColumns:
        """Return the same columns and "column + other"."""
        pairs = self.values[column] * self.n_distinct(other) + self.values[other]
        held, numbers = np.unique(pairs, return_inverse=True)
        name, by = f"{column} + {other}", self.n_distinct(other)
        both = [
            joined_codes([[self.texts[column][at // by]], [self.texts[other][at % by]]])[0] for at in held
        ]
        return PublicColumns(
            {**self.values, name: numbers.astype(np.int64)}, self.n_rows, {**self.texts, name: both}
        )

    def names_by_code(self, code: str, name: str) -> dict[str, str]:
        """Return the value of a column by that of another, which determines it."""
        pairs = np.unique(np.stack([self.values[code], self.values[name]]), axis=1)
        return {self.texts[code][at]: self.texts[name][of] for at, of in pairs.T}


def public_columns(source: TableSource) -> PublicColumns:
    """Read the columns of a public table that can hold codes or names; errors as `read_table`."""
    header = list(dict.fromkeys(header_if_readable(source))) or ["geocode"]  # reading it says what is wrong
    table = read_table(source, [TableColumn(name, "any") for name in header])
    values, distinct, n_rows = dict[str, Ints](), dict[str, list[str]](), 0
    for name in header:
        column = table.text(name)
        n_rows = len(column)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if column.null_count or not (is_text(kind) or pa.types.is_integer(kind)):
            continue
        texts = column.cast(pa.string()).combine_chunks().dictionary_encode()
        found = texts.dictionary.to_pylist()
        if "" not in found:
            values[name], distinct[name] = texts.indices.to_numpy().astype(np.int64), found
    return PublicColumns(values, n_rows, distinct)


def find_level_columns(
    source: TableSource, levels: Sequence[str], given: Mapping[str, str] | None = None
) -> LevelColumns:
    """Find the column of each level in the table of leaves.

    A level's column is the one that is given, else one that is called like it, codes before names; else the only one
    that lies between the levels below and above it. Each must determine the one above, alone or joined with it. Nothing
    is taken from the digits of a code.

    Args:
        source: public table, one row a leaf.
        levels: root first, two or more.
        given: columns by level, where somebody said so.

    Raises:
        ConfigError: C338 a level has no column, several, or one that does not lie inside the level above.
        DataError: as `read_table`.
    """
    table, given = public_columns(source), dict(given or {})
    absent = [column for column in given.values() if column not in table.values]
    if absent:
        raise _level_error(
            source, f"has no column {absent[0]!r} with a text or whole number in every row", table
        )
    named = {level: given.get(level) or _called_like(table, level) for level in levels}
    key = _leaf_column(source, table, levels[-1], given.get(levels[-1]))
    told = [f"{levels[-1]}: column {key}, another value in each of {table.n_rows:,} rows"]
    above, below, n_areas = list[str](), key, table.n_rows
    for depth in range(len(levels) - 2, -1, -1):
        level = levels[depth]
        column = named[level] or (
            depth and _only_one_between(source, table, level, below, {*named.values(), below})
        )
        if not column:
            told.append(f"{level}: one area that holds all others")
            n_areas += 1
            break
        up = next((named[name] for name in reversed(levels[:depth]) if named[name]), None)
        anew = bool(up) and not table.determines(column, up or "")
        if up and anew:
            table, column = table.joined(up, column), f"{up} + {column}"
        joined = f"; codes begin anew in each {levels[depth - 1]}" if anew else ""
        told.append(f"{level}: column {column}, {table.n_distinct(column):,} areas{joined}")
        if not depth and table.n_distinct(column) > 1:
            raise _level_error(
                source,
                f"has {table.n_distinct(column):,} areas of {level}, and the first level must be a single one",
                table,
                fix=f"name a level in front of it: --levels country,{','.join(levels)}",
            )
        above.insert(0, column)
        below, n_areas = column, n_areas + table.n_distinct(column)
    return LevelColumns(key, tuple(above), tuple(reversed(told)), n_areas)


def name_column(table: PublicColumns, code: str, level: str, above: Collection[str] = ()) -> str:
    """Return the column of the names of a level's areas, "" if there is none.

    It is determined by the codes, called like the level or like a name, and not the code itself.

    Args:
        table: with the column `code` of the level `level`. above: columns of codes and names of other levels.
    """
    able = [c for c in table.values if c != code and c not in above and table.determines(code, c)]
    like = [c for c in able if (_words(level) <= _words(c)) and not (_words(c) & _CODE_WORDS)]
    bare = [c for c in able if _words(c) <= _NAME_WORDS]
    return next(iter([*sorted(like, key=lambda c: not _words(c) & _NAME_WORDS), *bare]), "")


def _called_like(table: PublicColumns, level: str) -> str:
    """Return the column that is called like a level: as a code, exactly, or with other words; "" if there is none."""
    like = [c for c in table.values if _words(level) <= _words(c) and not _words(c) & _NAME_WORDS]
    codes = [c for c in like if _words(c) <= _words(level) | _CODE_WORDS and _words(c) & _CODE_WORDS]
    exact = [c for c in like if _words(c) == _words(level)]
    return next(iter([*codes, *exact, *(like if len(like) == 1 else ())]), "")


def _leaf_column(source: TableSource, table: PublicColumns, level: str, given: str | None) -> str:
    unique = [c for c in table.values if table.n_distinct(c) == table.n_rows]
    if given is not None:
        if given not in unique:
            raise _level_error(
                source, f"has several rows with one value of {given!r}, the codes of {level}", table
            )
        return given
    like = _called_like(table, level)
    able: list[str] = [c for c in ("geocode", like) if c in unique] or (unique if len(unique) == 1 else [])
    if able:
        return able[0]
    problem = (
        f"has several rows with one value of {like!r}" if like else f"has no column called like {level!r}"
    )
    raise _level_error(source, f"{problem}, and each row must be one {level}", table)


def _only_one_between(
    source: TableSource, table: PublicColumns, level: str, below: str, taken: set[str]
) -> str:
    """Return the only column that can hold the areas of a level that no column is called like."""
    able = [
        column
        for column in table.values
        if column not in taken
        and table.n_distinct(column) < table.n_distinct(below)
        and table.n_distinct(column) > 1
        and table.determines(below, column)
        and not _words(column) & _NAME_WORDS
    ]
    if len(able) != 1 or below not in table.values or table.n_distinct(below) == table.n_rows:
        shown = f"; {', '.join(map(repr, map(printable, able[:8])))} could be it" if able else ""
        raise _level_error(
            source, f"has no column called like the level {level!r}{shown}", table, level=level
        )
    return able[0]


def _level_error(
    source: TableSource, problem: str, table: PublicColumns, *, level: str = "LEVEL", fix: str = ""
) -> ConfigError:
    columns = ", ".join(map(printable, list(table.values)[:12]))
    return ConfigError(
        f"{source} {problem}",
        code="C338",
        file=str(source),
        fix=fix
        or f"name the column: --levels ...,{level}=COLUMN,... (or how many characters of the geocode name it: "
        f"{level}=5); it has: {columns}",
    )


def _words(name: str) -> set[str]:
    """Return the words of a name, without accents, capitals and signs."""
    plain = unicodedata.normalize("NFKD", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    letters = "".join(c for c in plain if not unicodedata.combining(c))
    return set(re.findall(r"\w+", letters.replace("_", " ").casefold()))
