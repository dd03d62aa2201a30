"""Statuses decided by labels are those of every pair of records, one by one."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget

from tests.helpers.changes_brute import Statistic, decide
from tests.helpers.depth import repeats
from tests.helpers.drawn_chains import Chain, chains
from topdown.model import (
    Attribute,
    BoundRule,
    ConstraintSystem,
    Exact,
    Geography,
    Invariants,
    KnownStatistic,
    Never,
    NoneWhereZero,
    PublicFacts,
    Schema,
    ZeroRule,
    analyse_neighbours,
    from_prefixes,
    parse_query,
)
from topdown.plan import (
    Base,
    BaseRelease,
    Plan,
    PublicContext,
    ReleaseChain,
    ReleaseInfo,
    geography_sha256,
    load_invariants,
    load_schema,
)
from topdown.privacy import RELATIONS
from topdown.resources import find

WORSE = ("protected", "conditional", "disclosed")


@pytest.mark.deep
@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
@given(case=chains())
@budget(max_examples=repeats(35, 300), deadline=None)
def test_statuses_are_those_of_every_pair(case: Chain, neighbours: str) -> None:
    """A kind of change that is called protected while one of its changes shows would be a false promise."""
    found = analyse_neighbours(
        case.schema, case.geography, case.known, case.zeros, case.bounds, whole=RELATIONS[neighbours].stated
    )
    check(case, found, neighbours)


def check(case: Chain, found, neighbours: str) -> None:
    """Compare with every pair of records; where bounds cross, more may be called disclosed or conditional."""
    expected = decide(case.schema, case.geography, case.allowed, case.seen, case.ruled, neighbours)
    names = {k.name for k in case.known}
    counted = names | {b.name for b in case.bounds}
    for verdict, change in zip(expected, found, strict=True):
        assert (verdict.kind, verdict.of) == (change.kind, change.of)
        assert change.exact or change.status == "protected"
        if case.crossing:
            assert WORSE.index(verdict.status) <= WORSE.index(change.status)
            continue
        assert (verdict.status, verdict) == (change.status, verdict)
        if verdict.names is None:
            assert not names & set(change.exact)
        else:
            assert (verdict.names, verdict) == (frozenset(change.exact) & counted, verdict)


def test_two_rules_that_close_by_place_can_leave_one_answer_two_cells() -> None:
    """The one agreeing pair may be of cells of two classes in one leaf: missing it would refuse a good plan."""
    schema = Schema("s", "s", "person", (Attribute("a", ("p", "q")),))
    geography = from_prefixes(("land", "block"), (0, 1), ("0", "1"))
    known = [KnownStatistic("blocks", 1, {})]
    for open_at, status in (([False, True], "conditional"), ([False, False], "disclosed")):
        zeros = [ZeroRule("no q", {"a": (False, True)}, ~np.array(open_at))]
        assert (
            analyse_neighbours(schema, geography, known, zeros, [], whole=("everything",))[0].status == status
        )


TWO_AXES = Schema("s", "s", "person", (Attribute("a", ("p", "q")), Attribute("b", ("x", "y"))))


@pytest.mark.parametrize(
    ("most", "statuses"),
    [
        # everything, a, b, land; `least` speaks of p, `most` of x: they cross in one cell
        ([4, 4], ["protected"] * 4),  # two of p and one more are below four of x
        ([2, 2], ["disclosed"] * 4),  # all two of p may be of x: every cell of both may be fixed
        ([4, 2], ["conditional", "conditional", "conditional", "disclosed"]),
    ],
)
def test_bounds_that_cross_leave_what_surely_fits(most: list[int], statuses: list[str]) -> None:
    """Crossing bounds are not decided exactly; a number printed where they may leave nothing would be a promise."""
    geography = from_prefixes(("land", "block"), (0, 1), ("0", "1"))
    bounds = [
        BoundRule("least", {"a": (True, False)}, np.array([2, 2]), above=False),
        BoundRule("most", {"b": (True, False)}, np.array(most), above=True),
        BoundRule("rest", {"a": (False, True), "b": (False, True)}, np.array([0, 0]), above=True),
    ]
    found = analyse_neighbours(TWO_AXES, geography, [], [], bounds, whole=("everything",))
    assert statuses == [c.status for c in found]
    assert all({"least", "most"} <= set(c.exact) for c in found if c.status != "protected")


def test_every_statistic_of_a_chain_has_a_name_of_its_own() -> None:
    """Three releases with one name for a statistic, two with one id: one that is forgotten would seem protected."""
    geography = from_prefixes(("land", "block"), (0, 1), ("0", "1"))
    facts, exact = PublicFacts({}), (Exact("people", "land", "total"), Exact("people (r)", "block", "total"))
    plan = _plan(TWO_AXES, Invariants("i", "i", "s", exact=exact), geography)
    above = replace(plan, base=Base("r", "", "", "", (("a", "a"), ("b", "b")), ()))
    policy = ReleaseChain(above, (BaseRelease(plan, facts), BaseRelease(above, facts)), geography, facts)
    names = ("people", "people (r)", "people (r, 2)", "people (r) (r)", "people (r, 3)", "people (r) (r, 2)")
    assert names == policy.conditional_on
    assert [k.depth for k in policy.known] == [0, 1] * 3


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
    rules = ConstraintSystem.from_facts(schema, geography, rules_kept, facts)
    context = PublicContext(_plan(schema, rules_kept, geography), geography, facts)
    allowed = rules.open[-1][:, rules.class_of_cell]
    seen = [
        Statistic(
            e.name,
            geography.ancestors_of_leaves[geography.index(e.level)],
            parse_query(schema, e.query).labels,
        )
        for e in rules_kept.exact
    ]
    expected = decide(schema, geography, allowed, seen, [], "bounded")
    found = context.policy.changes
    names = {e.name for e in rules_kept.exact}
    assert [(v.kind, v.of, v.status, v.names or set()) for v in expected] == [
        (c.kind, c.of, c.status, set(c.exact) & names) for c in found
    ]


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
        ReleaseInfo(id="r", title="r", data_set="d"), schema, invariants, "bounded", "discrete_gaussian", "",
        Fraction(1), (), (), "", geography_sha256(geography),
    )  # fmt: skip
