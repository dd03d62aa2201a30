"""Statuses decided by labels are those of every pair of records, one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from tests.helpers.changes_brute import Statistic, decide
from topdown.model.changes import Known, Zero, find_changes
from topdown.model.constraint import Invariants, Never, NoneWhereZero
from topdown.model.geography import Geography, from_prefixes
from topdown.model.public import PublicFacts, derive_rules
from topdown.model.query import parse_query
from topdown.model.reading import Reading, groups_of, read_in, same, then
from topdown.model.schema import Attribute, Recode, Schema
from topdown.model.support import base_labels
from topdown.plan.files import load_invariants, load_schema
from topdown.plan.plan import Plan, ReleaseInfo
from topdown.plan.prepare import Context
from topdown.plan.public_tables import geography_sha256
from topdown.resources import find

LEVELS = ("land", "county", "town", "block")


def _draw_schema(draw: st.DrawFn, name: str, base: Schema | None) -> Schema:
    """Draw a schema that a base, if there is one, can be read in: each of its attributes is split or kept."""
    attributes = []
    for i in range(draw(st.integers(1, 2)) if base is None else 0):
        labels = tuple(f"v{v}" for v in range(draw(st.integers(1, 3))))
        attributes.append(_recoded(draw, Attribute(f"a{i}", labels), name))
    for old in base.attributes if base is not None else ():
        if draw(st.booleans()):
            attributes.append(_recoded(draw, Attribute(old.name, old.labels), name))
            continue
        of = [v for v in range(len(old.labels)) for _ in range(draw(st.integers(1, 2)))]
        of = list(draw(st.permutations(of)))
        labels = tuple(f"{name}{i}" for i in range(len(of)))
        attributes.append(Attribute(f"{name}_{old.name}", labels, (Recode(old.name, old.labels, tuple(of)),)))
    if base is not None and draw(st.booleans()):
        attributes.append(Attribute(f"new_{name}", ("p", "q")))
    return Schema(name, name, "person", tuple(attributes))


def _recoded(draw: st.DrawFn, attribute: Attribute, name: str) -> Attribute:
    n = len(attribute.labels)
    if n < 2 or draw(st.booleans()):
        return attribute
    groups = ("low", "high")
    of = (0, *draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2)), 1)
    return Attribute(attribute.name, attribute.labels, (Recode(f"{name}{attribute.name}r", groups, of),))


def _draw_query(draw: st.DrawFn, schema: Schema) -> str:
    parts = []
    for a in schema.attributes:
        names = [a.name, *(r.name for r in a.recodes), None, None]
        parts.append(draw(st.sampled_from(names)))
    return " * ".join(p for p in parts if p) or "total"


def _draw_cells(draw: st.DrawFn, schema: Schema) -> tuple[tuple[str, tuple[str, ...]], ...]:
    out = []
    for a in schema.attributes:
        labels = draw(st.lists(st.sampled_from(a.labels), unique=True))
        if labels:
            out.append((a.name, tuple(labels)))
    return tuple(out)


def _geography(draw: st.DrawFn) -> Geography:
    codes = {f"0{c}{t}{b}" for c in "01" for t in "01" for b in "01"}
    kept = draw(st.sets(st.sampled_from(sorted(codes)), min_size=1, max_size=4))
    return from_prefixes(LEVELS, (1, 2, 3, 4), tuple(sorted(kept)))


@st.composite
def _cases(draw: st.DrawFn):
    """Draw a chain of one to three releases with exact statistics and zeros each."""
    geography = _geography(draw)
    schemas = [_draw_schema(draw, "s", None)]
    for name in "tu"[: draw(st.integers(0, 2))]:
        schemas.append(_draw_schema(draw, name, schemas[-1]))
    newest = schemas[-1]
    readings: list[Reading] = [same(newest)]
    of_cell = [np.arange(newest.n_cells)]
    for old, new in reversed(list(pairwise(schemas))):
        readings.append(then(read_in(new, old, {}), readings[-1]))
        of_cell.append(base_labels(new, old, {})[of_cell[-1]])
    known, seen, zeros = [], [], []
    n_leaves = len(geography.leaves)
    allowed = np.ones((n_leaves, newest.n_cells), dtype=bool)
    for i, (schema, reading, cells) in enumerate(zip(reversed(schemas), readings, of_cell, strict=True)):
        for k in range(draw(st.integers(0, 2))):
            depth = draw(st.integers(0, 3))
            query = parse_query(schema, _draw_query(draw, schema))
            known.append(Known(f"{i} {k}", depth, groups_of(query, reading)))
            up = geography.ancestors_of_leaves[depth]
            seen.append(Statistic(f"{i} {k}", up, query.labels[cells]))
        if i and draw(st.booleans()):  # what an older release closes everywhere
            chosen = dict(_draw_cells(draw, schema))
            masks = {}
            for attribute, labels in chosen.items():
                here, value = reading[attribute]
                inside = [label in labels for label in schema.attribute(attribute).labels]
                masks[here] = tuple(inside[v] for v in value)
            zeros.append(Zero(f"old {i}", masks, everywhere=True))
            allowed &= ~schema.select(chosen)[cells]
    never = [Never("never", _draw_cells(draw, newest))] if draw(st.booleans()) else []
    where = [
        NoneWhereZero(f"zero {i}", _draw_cells(draw, newest), (f"c{i}",))
        for i in range(draw(st.integers(0, 2)))
    ]
    facts = {z.columns[0]: np.array([draw(st.integers(0, 1)) for _ in range(n_leaves)]) for z in where}
    for rule in (*never, *where):
        inside = newest.select(dict(rule.cells))
        zeros.append(
            Zero(
                rule.name,
                {
                    name: tuple(label in labels for label in newest.attribute(name).labels)
                    for name, labels in rule.cells
                },
            )
        )
        shut = facts[rule.columns[0]] == 0 if isinstance(rule, NoneWhereZero) else np.ones(n_leaves, bool)
        allowed &= ~(shut[:, None] & inside[None, :])
    invariants = Invariants("i", "i", newest.name, never=tuple(never), none_where_zero=tuple(where))
    rules = derive_rules(newest, geography, invariants, PublicFacts(facts))
    return newest, geography, rules, known, zeros, allowed, seen


@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
@given(case=_cases())
@budget(max_examples=300, deadline=None)
def test_statuses_are_those_of_every_pair(case, neighbours: str) -> None:
    """A kind of change that is called protected while one of its changes shows would be a false promise."""
    schema, geography, rules, known, zeros, allowed, seen = case
    found = find_changes(schema, geography, rules, known, zeros, neighbours)
    expected = decide(schema, geography, allowed, seen, neighbours)
    names = {k.name for k in known}
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
