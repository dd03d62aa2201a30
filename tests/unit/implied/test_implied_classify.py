"""What the classifier says about the invariants that ship and about hard ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from topdown.errors import ConfigError
from topdown.model.constraint import AtLeast, Exact, Invariants, Never, NoneWhereZero
from topdown.model.schema import Attribute, Schema
from topdown.plan.files import load_invariants, load_schema
from topdown.solve.implied.atoms import find_atoms
from topdown.solve.implied.classify import verdicts

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
    atoms = find_atoms(schema, invariants)
    assert len(atoms) == 8
    assert atoms.names[3] == "nursing & 18_plus"
    assert (atoms.of_cell < 0).sum() == 126


TWO = Schema(
    "two",
    "",
    "person",
    (Attribute("a", ("0", "1")), Attribute("b", ("0", "1")), Attribute("c", ("x", "y", "z"))),
)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (["a", "b"], ("complete_integral", "margin_bounds")),
        (["a", "c"], ("not_guaranteed", "nothing")),
        (["a * b", "c"], ("not_guaranteed", "nothing")),
        (["a * b"], ("complete_integral", "nothing")),
        (["a", "a * b", "total"], ("complete_integral", "nothing")),
        (["a", "b", "c"], ("not_guaranteed", "nothing")),
    ],
)
def test_fixed_tables(tables: list[str], expected: tuple[str, str]) -> None:
    """Two margins of 3 or more values are NP-complete; only 2 x 2 and nested tables may be promised."""
    exact = tuple(Exact(f"exact {t}", "block", t) for t in tables)
    judged = verdicts(TWO, Invariants("t", "", "two", exact), LEVELS)
    assert (judged[0].kind, judged[0].needs) == expected
    leaf = (
        "complete"
        if len([t for t in tables if t != "total"]) > 1 and "a * b" not in tables[1:]
        else "complete_integral"
    )
    assert judged[2].kind == leaf


def test_np_complete_is_said() -> None:
    """The reason must be the reason: an office can then choose other tables."""
    big = Schema("big", "", "person", (Attribute("a", ("0", "1", "2")), Attribute("b", ("0", "1", "2"))))
    exact = (Exact("a", "block", "a"), Exact("b", "block", "b"))
    assert "NP-complete" in verdicts(big, Invariants("t", "", "big", exact), LEVELS)[0].sentence


def test_rules_that_cut_across() -> None:
    """Margins with zeros, shared bounds, and bounds that cross a table must not be promised."""
    exact = (Exact("a", "block", "a"), Exact("b", "block", "b"))
    zero = (NoneWhereZero("z", (("c", ("x",)),), ("u",)),)
    never = (Never("n", (("a", ("0",)), ("b", ("0",)))),)
    assert said(TWO, Invariants("t", "", "two", exact, none_where_zero=zero))[0][0] == "not_guaranteed"
    assert said(TWO, Invariants("t", "", "two", exact, never=never))[0][0] == "not_guaranteed"
    shared = (AtLeast("p", (("c", ("x",)),), "u"), AtLeast("q", (("a", ("0",)),), "v"))
    assert said(TWO, Invariants("t", "", "two", at_least=shared)) == [("not_guaranteed", "nothing")] * 3
    crossing = Invariants("t", "", "two", exact[:1], at_least=shared[:1])
    assert said(TWO, crossing) == [("not_guaranteed", "nothing")] * 2 + [("complete", "nothing")]


def test_a_coarse_table_further_down_still_counts() -> None:
    """A table at county level does not fix block totals; dropping them would promise too much."""
    exact = (Exact("county table", "county", "a * b"), Exact("block total", "block", "total"))
    assert [kind for kind, _ in said(TWO, Invariants("t", "", "two", exact))] == [
        "not_guaranteed",
        "complete",
        "complete_integral",
    ]


def test_many_groups_need_flow_variables() -> None:
    """2^15 subsets are refused; the verdict must send the reader to the flows instead."""
    wide = Schema("wide", "", "person", (Attribute("a", tuple(map(str, range(16)))),))
    zeros = tuple(NoneWhereZero(f"z{i}", (("a", (str(i),)),), ("u",)) for i in range(15))
    exact = (Exact("total", "block", "total"),)
    assert said(wide, Invariants("t", "", "wide", exact, none_where_zero=zeros))[0] == (
        "complete_integral",
        "combination_flows",
    )


def test_unknown_level() -> None:
    """A verdict about levels that leave out the exact one would be wrong."""
    with pytest.raises(ConfigError, match="names level 'state'"):
        verdicts(*pl94(), ("nation", "county"))
