"""`topdown implied --geography`: the constraints of one concrete area, with its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown.errors import ConfigError
from topdown.screen.console import Screen
from topdown.screen.layout import Column
from topdown.screen.look import Chunk

if TYPE_CHECKING:
    from topdown.documents.implied import AlgebraLine, Area
    from topdown.model.geography import Geography
    from topdown.model.public import PublicFacts
    from topdown.solve.implied.classify import Verdict
    from topdown.solve.implied.node import NodeConstraints
    from topdown.solve.implied.node_limits import Combination

MOST_LIMITS = 20
MOST_ROWS = 12
LEVELS_FIX = "give every level with the characters of its geocodes: --levels land:1,county:2,block:4"


def read_geography(path: Path, levels: str | None, columns: tuple[str, ...]) -> tuple[Geography, PublicFacts]:
    """Read a public leaf table and build the tree.

    Args:
        path: as input.leaves of a run file.
        levels: `name:characters` from the root to the leaves, without characters for census names; if None, those of
            the census spine that fit geocodes of 15 characters.
        columns: public columns the invariants need.

    Raises:
        ConfigError: C102 levels that are not understood. DataError: see `plan.public_tables.read_public`.
    """
    from topdown.plan.init import CENSUS_PREFIXES
    from topdown.plan.public_tables import read_public, read_table
    from topdown.plan.runfile import GeographyTable

    if levels is None:
        code = str(read_table(path, ("geocode",), ignored=None).column("geocode")[0])
        if len(code) != CENSUS_PREFIXES["block"]:
            raise ConfigError(
                f"the geocodes of {path} are not those of census blocks, so the levels are unknown",
                code="C102",
                fix=LEVELS_FIX,
            )
        names = tuple(name for name in CENSUS_PREFIXES if name != "us")
        lengths = tuple(CENSUS_PREFIXES[name] for name in names)
    else:
        parts = [part.strip().partition(":") for part in levels.split(",")]
        names = tuple(name for name, _, _ in parts)
        known = [length or str(CENSUS_PREFIXES.get(name, "")) for name, _, length in parts]
        wrong = next((n for n, length in zip(names, known, strict=True) if not length.isdigit()), None)
        if wrong is not None:
            raise ConfigError(
                f"--levels does not say how many characters of the geocode name a {wrong}",
                code="C102",
                fix=LEVELS_FIX,
            )
        lengths = tuple(int(length) for length in known)
    if list(lengths) != sorted(set(lengths)) or len(set(names)) != len(names):
        raise ConfigError("--levels must go from the root to the leaves", code="C102", fix=LEVELS_FIX)
    table = GeographyTable(levels=names, prefix_lengths=lengths)
    return read_public(path, table, columns, Path.cwd(), ignored=None)


def find_node(geography: Geography, geocode: str | None) -> tuple[int, int]:
    """Return (depth, index) of an area, the root if no geocode is given; the highest if several have the code.

    Raises:
        ConfigError: C103 no area has it.
    """
    if geocode is None:
        return 0, 0
    for depth, level in enumerate(geography.levels):
        if geocode in level.codes:
            return depth, level.codes.index(geocode)
    known = [code for level in geography.levels for code in level.codes]
    near = get_close_matches(geocode, known, n=3) or known[:3]
    raise ConfigError(
        f"no area has the geocode {geocode!r}", code="C103", fix=f"for example: {', '.join(near)}"
    )


def judge_area(
    schema_name: str, invariants_name: str, path: Path, levels: str | None, geocode: str | None
) -> tuple[str, tuple[Verdict, ...], NodeConstraints | None]:
    """Read everything; return the invariants' name, the verdicts, and the area's constraints unless refused.

    Raises:
        TopdownError: a file, level or geocode is wrong, or public facts exclude each other (I014).
    """
    from topdown.model.contradiction import find_contradiction
    from topdown.model.public import derive_rules
    from topdown.plan.files import load_schema
    from topdown.plan.invariants_file import load_invariants
    from topdown.resources import find
    from topdown.solve.implied.causes import Ground, public_regions
    from topdown.solve.implied.classify import judge
    from topdown.solve.implied.node import node_constraints

    schema = load_schema(find("schemas", schema_name, Path.cwd()))
    invariants = load_invariants(find("invariants", invariants_name, Path.cwd()), schema)
    geography, facts = read_geography(path, levels, invariants.columns)
    depth, node = find_node(geography, geocode)
    judged = judge(schema, invariants, geography, facts)
    if any(v.kind == "refused" for v in judged):
        return invariants.name, judged, None
    found = find_contradiction(schema, geography, invariants, facts, {})
    if found is not None:
        raise found.error()
    rules = derive_rules(schema, geography, invariants, facts)
    ground = Ground(schema, invariants, rules, public_regions(schema, invariants, geography, rules), ())
    area = node_constraints(ground, facts.columns, depth, node, most_limits=MOST_LIMITS)
    return invariants.name, judged, area


def algebra_lines(lines: Iterable[tuple[str, str]]) -> list[AlgebraLine]:
    """Return constraints and their reasons as they stand in the document."""
    from topdown.documents.implied import AlgebraLine

    return [AlgebraLine(algebra=algebra, reason=reason) for algebra, reason in lines]


def area_document(area: NodeConstraints) -> Area:
    """Return the constraints of an area as they stand in the document."""
    from msgspec import convert

    from topdown.documents.implied import Area

    return convert(vars(area) | {"lines": algebra_lines(area.lines)}, Area, from_attributes=True)


def show_area(screen: Screen, area: NodeConstraints) -> None:
    """Write the constraints of an area."""
    below = (
        "" if area.level == area.leaf_level else f", {area.n_leaves:,} of level {area.leaf_level} below it"
    )
    screen.heading("Area", f" {area.level} {area.node}{below}")
    screen.heading("Kinds of cells", f", which no constraint tells apart ({len(area.kinds)})")
    kinds = [(k.name, f"{k.n_cells:,}", f"{k.n_leaves:,}") for k in area.kinds]
    columns = [Column("kind", wraps=True), Column("cells", right=True), Column("open at", right=True)]
    screen.table(columns, _shown(screen, kinds))
    _rest(screen, len(kinds), "kinds")
    screen.heading("Constraints", " of its table")
    for algebra, reason in area.lines:
        screen.say(algebra, indent=2, hang=4)
        if screen.verbose:
            screen.say(reason, indent=6, hang=6)
    screen.say("x >= 0, whole; the children add up to x", indent=2, hang=4)
    if area.limits:
        n = len(area.limits) + area.n_more
        screen.heading("Limits", f" on sets of kinds that follow from no others ({n})")
        for line in area.limits:
            screen.say(line, indent=2, hang=4)
        if area.n_more:
            screen.say(f"and {area.n_more:,} more", indent=2)
    if area.totals:
        said = f" of open kinds at level {area.total_level}, and the sum of their exact totals"
        _combinations(screen, said, area.totals)
    if area.leaf_level not in (area.level, area.total_level):
        _combinations(screen, f" of open kinds among the leaves, level {area.leaf_level}", area.leaves)


def _combinations(screen: Screen, said: str, combinations: tuple[Combination, ...]) -> None:
    screen.heading("Combinations", said)
    symbols = any(c.symbol for c in combinations)
    rows: list[tuple[Chunk, ...]] = [
        (
            *((c.symbol or "-",) if symbols else ()),
            f"{c.n_areas:,}",
            "; ".join(c.kinds) or "nothing: nobody can be there",
        )
        for c in combinations
    ]
    columns = [*([Column("sum")] if symbols else []), Column("areas", right=True), Column("open", wraps=True)]
    screen.table(columns, _shown(screen, rows))
    _rest(screen, len(rows), "combinations")


def _shown(screen: Screen, rows: list[Any]) -> list[Any]:
    return rows if screen.verbose else rows[:MOST_ROWS]


def _rest(screen: Screen, n: int, what: str) -> None:
    if n > MOST_ROWS and not screen.verbose:
        screen.say(f"and {n - MOST_ROWS:,} more {what} (-v shows all)", indent=2)
