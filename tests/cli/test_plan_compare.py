"""`topdown plan --compare`: two plans side by side, each number that of its own plan."""

from fractions import Fraction

import pytest

from tests.helpers.policies import inexact_toy
from tests.helpers.schemas import problems
from topdown.formats import document_schema


@pytest.fixture
def two(toy, tmp_path):
    """Write a toy run, and another with four times the budget."""
    one, other = toy(tmp_path / "a"), toy(tmp_path / "b")
    other.write_text(
        other.read_text().replace('rho = "2"', 'rho = "8"').replace("rho_limit = ", 'rho_limit = "9" # ')
    )
    return one, other


def test_each_number_is_that_of_its_own_plan(topdown, two):
    """A table that mixes up its columns would sell the worse plan as the better one."""
    one, other = two
    found = topdown("plan", one, "--compare", other, "--json").document
    assert problems(found, document_schema("plan_summary")) == []
    alone = topdown("plan", other, "--json").document
    there = found["compared"]
    assert (there["plan_hash"], there["loss"], there["needs"]) == (alone["plan_hash"], "8", alone["needs"])
    assert there["certified"] == alone["privacy"]["certified"] != found["privacy"]["certified"]
    mine, others = ({(q["level"], q["query"]): q for q in of["queries"]} for of in (found, alone))
    assert len(there["noise"]) == len(mine)
    for row in there["noise"]:
        at = row["level"], row["query"]
        assert (row["stddev"], row["other"]) == (mine[at]["stddev"], others[at]["stddev"])
        assert Fraction(mine[at]["variance"]) / Fraction(others[at]["variance"]) == 4
    assert there["estimates"] == []


def test_the_screen_names_both_and_leaves_out_what_is_equal(topdown, two):
    """A page of equal rows hides the one that differs."""
    one, other = two
    said = " ".join(topdown("plan", one, "--compare", other).out.split())
    assert "spends \u03c1 2" in said.replace("\u00a0", " ")
    assert "\u03c1 8" in said.replace("\u00a0", " ")
    same = topdown("plan", one, "--compare", one).out
    assert "are equal" in same
    changed = other.read_text().replace('neighbours = "bounded"', 'neighbours = "add_remove"')
    other.write_text(changed.replace('invariants = "toy"', f'invariants = "{other.parent / "free.toml"}"'))
    (other.parent / "free.toml").write_text(inexact_toy())
    assert "their losses do not compare" in " ".join(topdown("plan", one, "--compare", other).out.split())


def test_plans_of_two_schemas_are_not_compared(topdown, two, tmp_path):
    """Queries of one name mean different things in two schemas."""
    assert topdown("synth", "--out", tmp_path / "c", "--people", 60, "--schema", "pl94").code == 0
    assert topdown("plan", two[0], "--compare", tmp_path / "c" / "run.toml", "--json").refusal == "C005"
