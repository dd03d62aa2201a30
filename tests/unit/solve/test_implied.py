"""What the classifier says of invariants, the worked examples of the paper, and contradictions of a whole plan."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.polytopes import limit_excess
from tests.helpers.schemas import problems
from tests.helpers.solved import Census, make_census
from topdown.cli import main
from topdown.errors import ConfigError, InfeasibleError
from topdown.formats import document_schema
from topdown.model import (
    AtLeast,
    AtMost,
    Attribute,
    ConstraintSystem,
    Contradiction,
    Exact,
    Invariants,
    LimitUse,
    NoneWhereZero,
    Schema,
    complete_totals,
    find_contradiction,
    public_constraints,
    split_constraints,
)
from topdown.plan import check_supported, load_invariants, load_schema
from topdown.solve import facts_of_release
from topdown.solve.implied import (
    EXAMPLES,
    Row,
    System,
    eliminate,
    equivalent,
    kind_names,
    plan_verdicts,
    row_text,
    system_lines,
    verdicts,
    worst_case_facts,
)
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


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command; return code and output."""
    code = main(["implied", *arguments])
    return code, capsys.readouterr().out


def test_example_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """The paper's first example is what a reader types first."""
    code, out = run(capsys, "--example", "college-town")
    assert code == 0
    assert "  F + C >= 98\n  C + M >= 98\n" in out
    assert "Refused: (48, 49, 99) breaks F + C >= 98." in out
    assert out.endswith("Elimination of the leaves gives the same constraints.\n")


def test_bundled_invariants(capsys: pytest.CaptureFixture[str]) -> None:
    """Constraints read as algebra over public columns, with a verdict a level."""
    code, out = run(capsys, "pl94_2020", "--schema", "pl94", "--levels", "state,county,block")
    assert code == 0
    assert "x[hhgq=college] >= sum gq_college" in out
    assert "x[hhgq=nursing & votingage=under_18] = 0" in out
    assert "pl94_2020: complete and integral at every level" in out
    code, out = run(capsys, "pl94_2020", "--schema", "pl94", "--json")
    document = json.loads(out)
    assert problems(document, document_schema("implied")) == []
    assert [v["needs"] for v in document["verdicts"]] == ["combination_table", "nothing", "nothing"]


@pytest.mark.parametrize(
    "arguments",
    [(), ("toy",), ("toy", "--example", "appendix"), ("toy", "--schema", "toy", "--levels", "a,b")],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """A user error ends with code 2 and a fix, never a traceback."""
    assert run(capsys, *arguments)[0] == 2


LINES = {
    "college-town": ["F + C + M = 196", "F >= 0", "C >= 0", "M >= 0", "F + C >= 98", "C + M >= 98"],
    "two-by-two": ["h00 = 1 + h11", "h01 = 20 - h11", "h10 = 21 - h11", "0 <= h11 <= 10"],
    "appendix": ["h00 = h11", "h01 = 20 - h11", "h10 = 20 - h11", "0 <= h11 <= 10"],
    "seven-counties": ["A + B + C = 611", "A >= 16", "B >= 4", "C >= 223", "A + B >= 50", "A + C >= 577"],
}


@pytest.mark.parametrize("name", LINES)
def test_examples_come_out_exactly(name: str) -> None:
    """The theorem must print the paper's constraints, and elimination of all leaf cells must agree."""
    example = EXAMPLES[name]
    assert LINES[name] == system_lines(example.implied, solved=example.solved)
    assert equivalent(example.implied, eliminate(*example.definition))


def test_appendix_refuses_the_naive_table() -> None:
    """(11, 9; 9, 11) has the right margins; every h[0,0] from 0 to 10 extends, 11 does not."""
    implied = EXAMPLES["appendix"].implied
    for h00 in range(12):
        assert (implied.broken((h00, 20 - h00, 20 - h00, h00)) is None) == (h00 <= 10)


def test_seven_counties_say_what_their_groups_do() -> None:
    """Dormitories, nursing homes and households must go to counties that have them, above their least."""
    node = EXAMPLES["seven-counties"].leaves
    combinations = {"+".join(node.combinations.members(mask)) for mask in node.combinations.people}
    assert combinations == {"A", "B", "A+C", "A+B", "C"}
    for a, b in product(range(14, 400, 42), range(2, 40)):
        x = (a, b, 611 - a - b)
        most = [
            sum(n for j, n in enumerate(x) if groups >> j & 1) <= node.combinations.most(groups)
            for groups in range(1, 8)
        ]
        assert (EXAMPLES["seven-counties"].implied.broken(x) is None) == all(most)


def test_algebra() -> None:
    """Signs, ones and zeros must read as people write them."""
    assert row_text(Row((0, 0), "<=", -1), "xy") == "0 >= 1"
    assert row_text(Row((2, -3), "=", 0), "xy") == "2 x - 3 y = 0"
    assert row_text(Row((2, -1), "=", 4), "xy", solved=True) == "y = -4 + 2 x"
    assert row_text(Row((-1, 1), "<=", 4), "xy") == "-x + y <= 4"
    system = System.of("xy", [({"x": -1, "y": 1}, ">=", 2), ({"x": 1, "y": -1}, ">=", -5)])
    assert system_lines(system) == ["-5 <= x - y <= -2"]


@pytest.fixture
def census(tmp_path: Path) -> Census:
    """Make a toy land with records that keep its invariants."""
    return make_census(tmp_path, 5, n_blocks=30)


def totals(census: Census, *levels: str) -> dict[str, np.ndarray]:
    """Return the true totals of some levels."""
    return {name: census.truth[census.context.geography.index(name)].totals() for name in levels}


def test_true_statistics_are_no_contradiction(census: Census) -> None:
    """A refusal of a real census would stop every release."""
    assert found(census, {}) is None
    assert found(census, totals(census, "land", "county", "block")) is None


def found(census: Census, exact: dict[str, np.ndarray]) -> Contradiction | None:
    """Look for a contradiction with exact totals of some levels."""
    context, plan = census.context, census.context.plan
    invariants = replace(plan.invariants, exact=tuple(Exact(name, name, "total") for name in exact))
    values = {name: total[:, None] for name, total in exact.items()}
    return find_contradiction(plan.schema, context.geography, invariants, context.facts, values)


def test_an_impossible_block_is_named(census: Census) -> None:
    """People where there is neither home, dormitory nor barracks: the leaf and the rules in the way are named."""
    exact, facts = totals(census, "block"), census.context.facts.columns
    empty = int(np.flatnonzero(facts["homes"] + facts["dormitories"] + facts["barracks"] == 0)[0])
    exact["block"][empty] = 3
    said = found(census, exact)
    assert said is not None
    assert said.leaf == census.context.geography.leaves.codes[empty]
    assert set(said.names) == {
        "block",
        *(rule.name for rule in census.context.plan.invariants.none_where_zero),
    }


def test_truth_lies_in_every_table(census: Census) -> None:
    """The solver's limits must never cut off the confidential table itself; a person more must be cut off."""
    geography, rules = census.context.geography, census.context.rules
    exact, kinds = totals(census, "block"), rules.partition()
    polytopes = split_constraints(kinds, rules, geography, complete_totals(geography, rules, kinds, exact))
    for level in (0, 1):
        assert polytopes.decided(level) is LimitUse.KEPT
        truth = census.truth[level]
        held = np.zeros((kinds.n_kinds, truth.n_nodes), dtype=np.int64)
        dense, inside = truth.dense(0, truth.n_nodes), kinds.of_cell >= 0
        np.add.at(held, kinds.of_cell[inside], dense[:, inside].T)
        limits = polytopes.limits(level, np.arange(truth.n_nodes))
        assert (limit_excess(limits, held) <= 0).all()
        assert (limit_excess(limits, held + 1) > 0).all()
    with pytest.raises(InfeasibleError, match="contradicts the public facts"):
        complete_totals(geography, rules, kinds, {"block": np.zeros_like(exact["block"])})
