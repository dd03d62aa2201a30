"""What invariants mean for the areas above the leaves, or for one area with its numbers, and why."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from msgspec import UNSET, structs

from topdown.errors import ConfigError
from topdown.formats.plan_documents import Implied, TitledVerdict, Verdict
from topdown.inputs import read_table, text_columns
from topdown.model import Geography, Invariants, PublicFacts, Schema
from topdown.model.constraint_system import ConstraintSystem
from topdown.model.feasibility import find_contradiction
from topdown.model.split_polytopes import public_constraints
from topdown.plan import PublicContext
from topdown.plan.drafts import CENSUS_PREFIXES
from topdown.plan.public_tables import read_public
from topdown.plan.run_file import GeographyTable, load_invariants, load_schema
from topdown.resources import find
from topdown.solve.implied.area_constraints import node_constraints, node_lines
from topdown.solve.implied.level_verdicts import TITLES, VerdictInputs, judge_levels, verdicts

MOST_LIMITS = 20
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
    if levels is None:
        code = str(read_table(path, text_columns("geocode"), ignored=None).text("geocode")[0])
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
    """Return (depth, index) of an area (else C103): the root without a geocode, the highest of several that have it."""
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


def implied_of_plan(context: PublicContext, geocode: str | None) -> Implied:
    """Return what the invariants of a plan mean for an area of it: see `Planned.implied`."""
    plan = context.plan
    if plan.base is not None:
        raise ConfigError(
            "an extension keeps the table of its base, and its own verdicts are those of the plan",
            code="C005",
            fix="see: topdown plan RUN.toml --base RELEASE",
        )
    return _implied_of(plan.schema, plan.invariants, context.geography, context.facts, geocode)


def implied_of_leaves(
    schema: str, invariants: str, leaves: Path, levels: str | None, geocode: str | None
) -> Implied:
    """Return the same for invariants and a public table of leaves, names or files; levels as `read_geography`."""
    attributes, rules = _load(schema, invariants)
    return _implied_of(attributes, rules, *read_geography(leaves, levels, rules.columns), geocode)


def implied_of_levels(schema: str, invariants: str, levels: str | None) -> Implied:
    """Return what invariants mean for every area of a level, whatever its numbers.

    Args:
        levels: all names from the root to the leaves; not needed where no table is kept exact.

    Raises:
        ConfigError: C005 levels are needed.
    """
    attributes, rules = _load(schema, invariants)
    if levels is None:
        exact = dict.fromkeys(e.level for e in rules.exact)
        names = ["levels above", *exact, "levels below"] if exact else ["all levels"]
        table = next((e for e in rules.exact if e.query != "total"), None)
        if table is not None:  # what it means depends on how far down its level is
            raise ConfigError(
                f"{table.name!r} keeps a table exact, so the verdict depends on the levels",
                code="C005",
                fix="add --levels A,B,C, all levels from the root to the leaves",
            )
    else:
        names = [part.strip().partition(":")[0] for part in levels.split(",")]
    judged = verdicts(attributes, rules, names)
    return Implied(
        invariants=rules.name, constraints=node_lines(attributes, rules, judged), verdicts=_titled(judged)
    )


def _load(schema: str, invariants: str) -> tuple[Schema, Invariants]:
    attributes = load_schema(find("schemas", schema, Path.cwd()))
    return attributes, load_invariants(find("invariants", invariants, Path.cwd()), attributes)


def _implied_of(
    schema: Schema, invariants: Invariants, geography: Geography, facts: PublicFacts, geocode: str | None
) -> Implied:
    depth, node = find_node(geography, geocode)
    judged = judge_levels(schema, invariants, geography, facts)
    if any(v.kind == "refused" for v in judged):
        return Implied(invariants=invariants.name, constraints=[], verdicts=_titled(judged), area=UNSET)
    rules = ConstraintSystem.from_facts(schema, geography, invariants, facts)
    found = find_contradiction(schema, geography, invariants, facts, {}, rules=rules)
    if found is not None:
        raise found.error()
    public = public_constraints(schema, invariants, geography, rules)
    ground = VerdictInputs(schema, invariants, rules, public, ())
    area = node_constraints(ground, facts.columns, depth, node, most_limits=MOST_LIMITS)
    return Implied(invariants=invariants.name, constraints=area.lines, verdicts=_titled(judged), area=area)


def _titled(judged: tuple[Verdict, ...]) -> list[TitledVerdict]:
    return [TitledVerdict(**structs.asdict(verdict), title=TITLES[verdict.kind]) for verdict in judged]
