"""Statuses decided by labels are those of every pair of records, one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget

from tests.helpers.changes_brute import Statistic, decide
from tests.helpers.drawn_chains import Chain, chains
from topdown.model.changes import Known, Zero, find_changes
from topdown.model.constraint import Invariants, Never, NoneWhereZero
from topdown.model.geography import Geography, from_prefixes
from topdown.model.public import PublicFacts, derive_rules
from topdown.model.query import parse_query
from topdown.model.schema import Attribute, Schema
from topdown.plan.files import load_invariants, load_schema
from topdown.plan.plan import Plan, ReleaseInfo
from topdown.plan.prepare import Context
from topdown.plan.public_tables import geography_sha256
from topdown.resources import find


@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
@given(case=chains())
@budget(max_examples=300, deadline=None)
def test_statuses_are_those_of_every_pair(case: Chain, neighbours: str) -> None:
    """A kind of change that is called protected while one of its changes shows would be a false promise."""
    found = find_changes(case.schema, case.geography, case.rules, case.known, case.zeros, neighbours)
    expected = decide(case.schema, case.geography, case.allowed, case.seen, neighbours)
    names = {k.name for k in case.known}
    assert expected == [(c.kind, c.of, c.status, set(c.exact) & names) for c in found]
    for (*_, altered), change in zip(expected, found, strict=True):
        assert change.exact or change.status == "protected"
        assert altered or change.status != "conditional"


def test_two_rules_that_close_by_place_can_leave_one_answer_two_cells() -> None:
    """The one agreeing pair may be of cells of two classes in one leaf: missing it would refuse a good plan."""
    schema = Schema("s", "s", "person", (Attribute("a", ("p", "q")),))
    geography = from_prefixes(("land", "block"), (0, 1), ("0", "1"))
    zero = NoneWhereZero("no q", (("a", ("q",)),), ("c",))
    invariants = Invariants("i", "i", "s", none_where_zero=(zero,))
    known = [Known("blocks", 1, {})]
    zeros = [Zero("no q", {"a": (False, True)})]
    for column, status in (([0, 1], "conditional"), ([0, 0], "disclosed")):
        rules = derive_rules(schema, geography, invariants, PublicFacts({"c": np.array(column)}))
        assert find_changes(schema, geography, rules, known, zeros, "bounded")[0].status == status


POLICIES = [
    ("toy", "toy", {}),
    ("pl94", "pl94_2020", {"cenrace": 2}),
    ("pl94", "pl94_block_population", {"cenrace": 2}),
    ("dhc_persons", "dhc_persons_2020", {"relgq": 25, "age": 4, "cenrace": 1, "hispanic": 1}),
]


@pytest.mark.parametrize(("schema_name", "name", "keep"), POLICIES)
def test_shipped_policies_are_those_of_every_pair(schema_name, name, keep, tmp_path) -> None:
    """The statuses that offices will read must be right for the shipped rules, on a small part of their schemas."""
    whole = load_schema(find("schemas", schema_name, tmp_path))
    full = load_invariants(find("invariants", name, tmp_path), whole)
    schema = Schema(whole.name, whole.title, whole.unit, tuple(_first(a, keep) for a in whole.attributes))
    rules_kept = _kept(full, schema)
    levels = ("land", "county", "block") if schema_name == "toy" else ("state", "tract", "block")
    geography = from_prefixes(levels, (1, 2, 3), ("011", "012", "021"))
    rng = np.random.default_rng(5)
    facts = PublicFacts({c: rng.integers(0, 2, 3) for c in rules_kept.columns})
    rules = derive_rules(schema, geography, rules_kept, facts)
    context = Context(_plan(schema, rules_kept, geography), geography, facts)
    allowed = rules.open[-1][:, rules.class_of_cell]
    seen = [
        Statistic(
            e.name,
            geography.ancestors_of_leaves[geography.index(e.level)],
            parse_query(schema, e.query).labels,
        )
        for e in rules_kept.exact
    ]
    expected = decide(schema, geography, allowed, seen, "bounded")
    found = context.policy.changes
    names = {e.name for e in rules_kept.exact}
    assert expected == [(c.kind, c.of, c.status, set(c.exact) & names) for c in found]


def _first(attribute: Attribute, keep: dict[str, int]) -> Attribute:
    """Return an attribute with some of its values only, spread over all of them."""
    n = min(keep.get(attribute.name, len(attribute.labels)), len(attribute.labels))
    return Attribute(attribute.name, attribute.labels[:: max(len(attribute.labels) // n, 1)][:n])


def _kept(full: Invariants, schema: Schema) -> Invariants:
    """Return the zeros and exact statistics of a policy for the values that are left."""
    labels = {a.name: set(a.labels) for a in schema.attributes}

    def cells(rule: Never | NoneWhereZero):
        return tuple((name, tuple(v for v in values if v in labels[name])) for name, values in rule.cells)

    return Invariants(
        full.name,
        full.title,
        schema.name,
        exact=full.exact,
        never=tuple(Never(r.name, cells(r)) for r in full.never),
        none_where_zero=tuple(NoneWhereZero(r.name, cells(r), r.columns) for r in full.none_where_zero),
    )


def _plan(schema: Schema, invariants: Invariants, geography: Geography) -> Plan:
    return Plan(
        ReleaseInfo("r", "r", "d", "a", "c"), schema, invariants, "bounded", "discrete_gaussian", "", Fraction(1),
        (), (), "", geography_sha256(geography),
    )  # fmt: skip
