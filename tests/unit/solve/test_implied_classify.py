"""What the classifier says about the invariants that ship and about hard ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.solved import make_census
from topdown.errors import ConfigError
from topdown.model import (
    AtLeast,
    AtMost,
    Attribute,
    ConstraintSystem,
    Exact,
    Invariants,
    LimitUse,
    NoneWhereZero,
    Schema,
    public_constraints,
)
from topdown.plan import check_supported, load_invariants, load_schema
from topdown.solve import facts_of_release
from topdown.solve.implied import kind_names, plan_verdicts, verdicts, worst_case_facts
from topdown.solve.rounding import NoFlow

TOP = Path(__file__).resolve().parents[3]
LEVELS = ("state", "county", "block")


def pl94() -> tuple[Schema, Invariants]:
    """Read the schema and invariants of the redistricting data."""
    schema = load_schema(TOP / "schemas" / "pl94.toml")
    return schema, load_invariants(TOP / "invariants" / "pl94_2020.toml", schema)


def said(schema: Schema, invariants: Invariants) -> list[tuple[str, str]]:
    """Judge all levels."""
    return [(v.kind, v.needs) for v in verdicts(schema, invariants, LEVELS)]


def test_pl94_2020_is_complete_and_integral() -> None:
    """With state totals only, zeros and bounds add up: the release needs no combination constraints."""
    assert said(*pl94()) == [("complete_integral", "nothing")] * 3


def test_block_totals_need_the_combinations() -> None:
    """The alternative policy keeps block totals; above blocks the naive constraints are not complete."""
    schema, invariants = pl94()
    blocks = replace(invariants, exact=(Exact("block population", "block", "total"),))
    assert said(schema, blocks) == [("complete_integral", "combination_table")] * 2 + [
        ("complete_integral", "nothing")
    ]
    geography, facts = worst_case_facts(blocks, LEVELS)
    rules = ConstraintSystem.from_facts(schema, geography, blocks, facts)
    kinds = public_constraints(schema, blocks, geography, rules).partition
    names = kind_names(schema, kinds)
    assert len(set(names)) == 8
    assert "nursing & 18_plus" in names
    assert (kinds.of_cell < 0).sum() == 126
    full = rules.with_exact(geography, ()).partition()
    assert np.array_equal(full.of_cell, kinds.of_cell)
    assert np.array_equal(full.members, kinds.members)


TWO = Schema(
    "two",
    "",
    "person",
    (Attribute("a", ("0", "1")), Attribute("b", ("0", "1")), Attribute("c", ("x", "y", "z"))),
)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (["a", "b"], "C073"),
        (["a", "c"], "C073"),
        (["a * b", "c"], "C073"),
        (["a * b"], ""),
        (["a", "a * b", "total"], ""),
        (["detailed"], ""),
    ],
)
def test_fixed_tables(tables: list[str], expected: str) -> None:
    """Nested tables are taken whole; those that cross each other are refused, for whether they extend is NP-hard."""
    exact = tuple(Exact(f"exact {t}", "block", t) for t in tables)
    judged = verdicts(TWO, Invariants("t", "", "two", exact), LEVELS)
    assert {v.code for v in judged} == {expected}
    assert {v.kind for v in judged} == {"refused" if expected else "complete_integral"}
    if expected:
        assert "share some cells" in judged[0].sentence


UPPER = (AtMost("cap", (("a", ("0",)),), "u"),)
INNER = (AtLeast("outer", (("a", ("0",)),), "u"), AtLeast("inner", (("a", ("0",)), ("c", ("x",))), "v"))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"at_most": UPPER}, "upper bounds at the leaves"),
        ({"at_least": INNER}, "lower bounds inside each other"),
        ({"exact": (Exact("a", "block", "a"),), "at_least": INNER}, '"a" fixed at every leaf'),
        ({"exact": (Exact("t", "block", "total"),), "at_most": UPPER}, "totals are fixed at level block"),
    ],
)
def test_limits_make_bounds_complete(rules: dict[str, Any], words: str) -> None:
    """Upper and nested bounds are enforced completely by the solver; the verdict must say so, and by what."""
    judged = verdicts(TWO, Invariants("t", "", "two", **rules), LEVELS)
    assert {(v.kind, v.needs) for v in judged} == {("complete_integral", "combination_table")}
    assert words in judged[0].sentence
    assert "Frank 1984" in judged[0].theorems


def test_rules_that_cut_across() -> None:
    """Bounds that share cells without nesting, or cross an exact table, are refused before anything is spent."""
    shared = (AtLeast("p", (("c", ("x",)),), "u"), AtLeast("q", (("a", ("0",)),), "v"))
    judged = verdicts(TWO, Invariants("t", "", "two", at_least=shared), LEVELS)
    assert {(v.kind, v.code) for v in judged} == {("refused", "C073")}
    crossing = Invariants("t", "", "two", (Exact("a", "block", "a"),), at_least=shared[:1])
    assert {v.code for v in verdicts(TWO, crossing, LEVELS)} == {"C073"}


def test_a_table_above_the_leaves_is_what_the_plan_says() -> None:
    """Verdict and plan must come from one check, whatever that check takes."""
    invariants = Invariants("t", "", "two", (Exact("county table", "county", "a * b"),))
    geography, facts = worst_case_facts(invariants, LEVELS)
    rules = ConstraintSystem.from_facts(TWO, geography, invariants, facts)
    try:
        check_supported(invariants, TWO, geography, rules)
        code = ""
    except ConfigError as error:
        code = error.code
    assert {v.code for v in verdicts(TWO, invariants, LEVELS)} == {code}


WIDE = Schema("wide", "", "person", (Attribute("a", tuple(map(str, range(16)))),))
ZEROS = tuple(NoneWhereZero(f"z{i}", (("a", (str(i),)),), ("u",)) for i in range(15))


def test_many_kinds_under_exact_totals_are_refused() -> None:
    """2^16 limits are not kept; without them block totals could not be promised."""
    invariants = Invariants("t", "", "wide", (Exact("total", "block", "total"),), none_where_zero=ZEROS)
    assert {v.code for v in verdicts(WIDE, invariants, LEVELS)} == {"C074"}


def test_many_kinds_in_one_bound_are_not_guaranteed() -> None:
    """The one case left to the failsafe must be named with its bound, and only above the leaves."""
    bound = AtLeast("all of them", (("a", tuple(map(str, range(16)))),), "v")
    invariants = Invariants("t", "", "wide", at_least=(bound,), none_where_zero=ZEROS)
    geography, facts = worst_case_facts(invariants, LEVELS)
    judged = verdicts(WIDE, invariants, LEVELS)
    assert [v.kind for v in judged] == ["not_guaranteed", "not_guaranteed", "complete_integral"]
    assert judged[0].constraints == ["all of them"]
    assert "failsafe" in judged[0].sentence
    polytopes = public_constraints(
        WIDE, invariants, geography, ConstraintSystem.from_facts(WIDE, geography, invariants, facts)
    )
    assert [polytopes.decided(d) for d in range(3)] == [
        LimitUse.TOO_MANY,
        LimitUse.TOO_MANY,
        LimitUse.NOT_NEEDED,
    ]


def test_a_rounding_chain_that_is_no_flow_is_said(tmp_path: Path) -> None:
    """The toy settings have no table of dwellings at the land: the plan must say so, and which bound misses it."""
    context = make_census(tmp_path, 5, n_blocks=30).context
    land, county, block = plan_verdicts(context)
    assert (land.kind, county.kind, block.kind) == ("complete", "complete_integral", "complete_integral")
    assert "at least two people per dormitory" in land.sentence
    assert land.constraints == ["at least two people per dormitory"]
    known = facts_of_release(context, {}, {})
    assert [NoFlow, tuple, tuple] == [type(level.positions) for level in known.levels]
    why, names = known.levels[0].positions.explain(
        tuple(r.table for r in context.plan.levels[0].rounding), context.rules.bound_names, ()
    )
    assert land.sentence.endswith(f"; rounding is an integer program, because {why}")
    assert list(names) == land.constraints


def test_a_set_without_lower_bounds_is_judged() -> None:
    """The smallest set an office can write, one exact total, must not end in a crash."""
    judged = verdicts(TWO, Invariants("t", "", "two", (Exact("population", "state", "total"),)), LEVELS)
    assert [v.kind for v in judged] == ["complete_integral"] * 3


def test_unknown_level() -> None:
    """A verdict about levels that leave out the exact one would be wrong."""
    with pytest.raises(ConfigError, match="names level 'state'"):
        verdicts(*pl94(), ("nation", "county"))
