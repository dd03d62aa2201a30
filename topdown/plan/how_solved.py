"""How a measurement is solved: passes, rounding chain, estimates. Nothing of it changes what is measured."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from topdown.errors import ConfigError
from topdown.model.query import Query, parse_query
from topdown.model.schema import Schema
from topdown.plan.files import EstimatesTable, LevelTable, PassTable
from topdown.plan.plan import Estimates, Pass, Rounding

LEAST_COVERAGE, MOST_COVERAGE = Fraction(1, 2), Fraction(9999, 10_000)  # of intervals


def estimates_of(given: EstimatesTable | None) -> Estimates | None:
    """Return what a plan says of estimates: nothing where they are each area's own and no interval is asked for."""
    if given is None or (given.targets == "own" and given.coverage is None):
        return None
    if given.coverage is not None and not LEAST_COVERAGE <= given.coverage <= MOST_COVERAGE:
        raise ConfigError(
            f"estimates.coverage is {given.coverage}, not between {LEAST_COVERAGE} and {MOST_COVERAGE}",
            code="C210",
            fix='write coverage = "19/20" for intervals of 95 in 100',
            key=("estimates", "coverage"),
        )
    return Estimates(given.targets, given.coverage)


def passes_of(level: LevelTable, schema: Schema, *, is_root: bool) -> tuple[Pass, ...]:
    """Return the passes of a level, those of the root where it has its own; ConfigError C053 or C054."""
    return _passes((is_root and level.root_passes) or level.passes, level, schema)


def _passes(tables: tuple[PassTable, ...], level: LevelTable, schema: Schema) -> tuple[Pass, ...]:
    measured = [parse_query(schema, name).name for name in level.queries]
    passes = []
    for table in tables:
        names = [parse_query(schema, name).name for name in table.queries] or measured
        absent = [name for name in names if name not in measured]
        if absent:
            raise ConfigError(
                f"a pass of level {level.name!r} uses {absent[0]!r}, which is not measured there",
                code="C053",
                fix="use queries listed under [level.queries]",
            )
        passes.append(Pass(parse_query(schema, table.table).name, tuple(names)))
    queries = [parse_query(schema, p.table) for p in passes]
    ordered = all(b.refines(a) for a, b in pairwise(queries))
    if not passes or passes[-1].table != "detailed" or not ordered:
        raise ConfigError(
            f"passes of level {level.name!r} must go from coarse to fine and end with the table 'detailed'",
            code="C054",
            fix="order the passes so that each table refines the one before; end with detailed",
        )
    return tuple(passes)


def chain_of_level(level: LevelTable, schema: Schema) -> tuple[Rounding, ...]:
    """Return the rounding chain of a level; ConfigError C055 or C135."""
    chain = [parse_query(schema, r.table) for r in level.rounding]
    _check_chain(level.name, chain)
    if any(r.weight < 1 for r in level.rounding):
        raise ConfigError(
            f"level {level.name!r}: rounding weights start at 1", code="C055", fix="raise the weight"
        )
    return tuple(Rounding(query.name, r.weight) for query, r in zip(chain, level.rounding, strict=True))


def _check_chain(level: str, chain: list[Query]) -> None:
    """Refuse a rounding chain that does not go from coarse to fine, or ends before `detailed` (ConfigError C135)."""
    backwards = [b.name for i, b in enumerate(chain) for a in chain[:i] if a.refines(b)]
    if backwards or not chain or chain[-1].name != "detailed":
        problem = f"has {backwards[0]!r} after a finer table" if backwards else "does not end with 'detailed'"
        raise ConfigError(
            f"the rounding chain of level {level!r} {problem}",
            code="C135",
            fix="order the tables from coarse to fine, without repeats, and end with detailed",
        )
