"""The limits of one area on sets of kinds: numbers where public facts give them, else exact totals as symbols."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.solve.groups import Ints
from topdown.solve.implied.causes import Ground
from topdown.solve.implied.facets import facets
from topdown.solve.polytopes import Marks


@dataclass(frozen=True)
class Combination:
    """Areas in which the same kinds of cells are open.

    Args:
        symbol: of the sum of their exact totals, empty if they have none.
        kinds: names. n_areas: how many areas.
    """

    symbol: str
    kinds: tuple[str, ...]
    n_areas: int


@dataclass(frozen=True, eq=False)
class KindPatterns:
    """Sets of kinds that are open together in some areas, the most frequent first.

    Args:
        is_open: bool (n_patterns, n_kinds). count: areas of each. of_leaf: pattern of each leaf's area.
    """

    is_open: Marks
    count: Ints
    of_leaf: Ints

    @property
    def symbols(self) -> list[str]:
        """Name the sum of the exact totals of each pattern's areas; empty where nobody can be."""
        number = np.cumsum(self.is_open.any(axis=1))
        return [f"N{i}" if row.any() else "" for i, row in zip(number, self.is_open, strict=True)]

    def combinations(self, names: tuple[str, ...], *, symbols: bool) -> tuple[Combination, ...]:
        """Describe the patterns in words."""
        return tuple(
            Combination(
                symbol if symbols else "",
                tuple(n for n, there in zip(names, row, strict=True) if there),
                int(count),
            )
            for symbol, row, count in zip(self.symbols, self.is_open, self.count, strict=True)
        )


def limit_lines(
    ground: Ground, names: tuple[str, ...], patterns: KindPatterns, depth: int, node: int
) -> list[str]:
    """Write the limits that follow from no others, small sets first.

    With exact totals they are those that follow from no others whenever every area has people to spare beyond its
    lower bounds; with upper bounds besides, the numbers depend on the totals and only the formula is written.

    Args:
        ground: rules and polytopes from public facts. names: of the kinds.
        patterns: of the areas below with exact totals.
        depth, node: the area.
    """
    polytopes = ground.polytopes
    top = ground.kept.root.tells_more  # the root's own table does not enter the limits
    at = [d for d in range(depth, len(ground.level_names)) if ground.exact_tables(d)]
    exact_tables = bool(set(at) - ({0} if top else set()))
    if depth >= polytopes.unit_depth and not exact_tables:  # the area's own total only adds one equation
        return _numeric(polytopes.with_totals({}).limits(depth, np.array([node]))[0], names)
    if ground.rules.cap_cells or exact_tables or ground.rules.nested:
        area = ground.level_names[polytopes.unit_depth]
        text = (
            f"x[A] <= the sum over every {area} of min(most people in A, its total - fewest people outside A), for "
            "every set A of kinds; the numbers depend on exact statistics"
        )
        return [text]
    return _symbolic(ground, names, patterns, depth, node)


def _numeric(table: Ints, names: tuple[str, ...]) -> list[str]:
    extra = 1 << len(names)  # the last element of the table is minus everybody
    found = facets(table)
    out = [(part, f"= {table[part]}") for part in found.parts if not part & extra]
    for inside in found.limits:
        part = next(part for part in found.parts if part & inside)
        others, least = part & ~inside, table[part] - table[inside]
        if not inside & extra:
            out.append((inside, f"<= {table[inside]}"))
        elif least or others.bit_count() > 1:  # else: a kind holds no less than nobody
            out.append((others, f">= {least}"))
    return _sorted(names, out)


def _symbolic(
    ground: Ground, names: tuple[str, ...], patterns: KindPatterns, depth: int, node: int
) -> list[str]:
    polytopes = ground.polytopes
    spare = polytopes.kinds.low.sum(axis=1) + polytopes.rules.open[-1].any(axis=1)
    spare = polytopes.geography.upward(spare, len(polytopes.geography.levels) - 1, polytopes.unit_depth)
    table = polytopes.with_totals({polytopes.unit_depth: spare}).limits(depth, np.array([node]))[0]
    found = facets(table)
    low = polytopes.kinds.low[polytopes.leaf_range(depth, node)]
    is_open = polytopes.rules.open[-1][polytopes.leaf_range(depth, node)][:, polytopes.kinds.class_of]

    def most(inside: int) -> tuple[NDArray[np.bool_], int]:
        """Return the patterns whose people a set may hold, and how many of them lower bounds keep out of it."""
        chosen = np.array([bool(inside >> k & 1) for k in range(len(names))])
        meets = (patterns.is_open & chosen).any(axis=1)
        kept_out = 0
        for s, members in enumerate(polytopes.kinds.members):
            avoids = ~(is_open & members & chosen).any(axis=1)
            kept_out += int(low[meets[patterns.of_leaf] & avoids, s].sum())
        return meets, kept_out

    def total(marks: NDArray[np.bool_]) -> list[str]:
        return [symbol for symbol, there in zip(patterns.symbols, marks, strict=True) if there and symbol]

    out = [
        (part, f"= {' + '.join(total(most(part)[0])) or 0}")
        for part in found.parts
        if not table[part]
        or part != max(found.parts, key=int.bit_count)  # the largest follows from the total
    ]
    for inside in found.limits:
        part = next(part for part in found.parts if part & inside)
        meets, kept_out = most(inside)
        if inside.bit_count() <= (part & ~inside).bit_count():
            out.append((inside, f"<= {' + '.join(total(meets))}" + (f" - {kept_out}" if kept_out else "")))
            continue
        only, rest = most(part)[0] & ~meets, part & ~inside
        terms = [*total(only), *([str(kept_out)] if kept_out else [])]
        if terms:  # else: a kind holds no less than nobody
            out.append((rest, f">= {' + '.join(terms)}"))
    return _sorted(names, out)


def _sorted(names: tuple[str, ...], rows: list[tuple[int, str]]) -> list[str]:
    rows.sort(key=lambda row: (row[0].bit_count(), row[0], row[1]))
    return [f"x[{_text(names, chosen)}] {rest}" for chosen, rest in rows]


def _text(names: tuple[str, ...], chosen: int) -> str:
    return " + ".join(name for k, name in enumerate(names) if chosen >> k & 1)
