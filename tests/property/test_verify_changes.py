"""What verify says of each kind of change, from plans alone, is what every pair of records says."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from msgspec import convert, structs, to_builtins

from tests.helpers.depth import DEPTH
from tests.helpers.drawn_chains import LEVELS, Chain, chains
from tests.property.test_changes import check
from topdown.formats import Plan, SchemaOfRecords
from topdown.model import (
    Attribute,
    Exact,
    Invariants,
    Schema,
    analyse_neighbours,
    compose_mappings,
    from_prefixes,
    identity_mapping,
    map_attributes,
    parse_query,
)
from topdown.privacy import RELATIONS
from topdown.verify import (
    Facts,
    PlanFile,
    Tree,
    derive_privacy,
    identity_reading,
    query_labels,
    read_below,
    read_schema,
)


def tree_of(case: Chain) -> Tree:
    """Return the geography and public facts as verify reads them."""
    levels = case.geography.levels
    return Tree(
        case.geography.level_names,
        tuple(pa.array(level.codes) for level in levels),
        tuple(level.parent for level in levels),
        Facts(case.releases[0][2]),
    )


def plans_of(case: Chain, neighbours: str, queries: tuple[str, ...] = ("total",)) -> list[PlanFile]:
    """Return the plans of a chain as verify reads them, newest first; every level measures the same queries."""
    out = []
    for i, (schema, invariants, _) in enumerate(case.releases):
        below = case.releases[i + 1][0] if i + 1 < len(case.releases) else None
        none = "0" * 64
        loss = {"share": "1", "loss": "1"}
        noise = {"n_answers": 1, "law": "discrete_gaussian", "parameter": str(i + 2)} | loss
        rows = [{"query": query} | noise for query in queries]
        level = {"n_nodes": 1, "n_measured": 1, "measurements": rows, "passes": [], "rounding": []} | loss
        document = {
            "type": "topdown.plan",
            "version": 2,
            "plan_hash": none,
            "release": {"id": f"r{i}", "title": "t", "data_set": "d", "agency": "a", "contact": "c"},
            "schema": to_builtins(schema),
            "invariants": to_builtins(invariants),
            "neighbours": neighbours,
            "mechanism": "discrete_gaussian",
            "settings": "",
            "budget": "1",
            "levels": [{"name": name} | level for name in LEVELS],
            "unspent": [],
            "public_sha256": none,
            "geography_sha256": none,
        }
        if below is not None:
            hashes = dict.fromkeys(("plan_hash", "manifest_sha256", "table_sha256"), none)
            names = [[a.name, a.name] for a in below.attributes]
            document["base"] = {"release": "b", "map": names, "n_numbers": []} | hashes
        doc = convert(document, Plan)
        out.append(PlanFile(doc, f"hash {i}", read_schema(doc.schema), {}))
    return out


def derive(case: Chain, neighbours: str, queries: tuple[str, ...] = ("total",)):
    """Return what verify derives from the plans of a chain."""
    newest, *older = plans_of(case, neighbours, queries)
    facts = [Facts(facts) for _, _, facts in case.releases[1:]]
    below = {f"plan {i}": both for i, both in enumerate(zip(older, facts, strict=True))}
    return derive_privacy(newest, below, tree_of(case))


@pytest.mark.deep
@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
@given(case=chains())
@budget(max_examples=50 * DEPTH, deadline=None)
def test_own_statuses_are_those_of_every_pair(case: Chain, neighbours: str) -> None:
    """If verify called protected what shows, it would pass a certificate that says so too."""
    own = derive(case, neighbours)
    check(case, own.changes, neighbours)
    assert {k.name for k in case.known} == set(own.conditional_on)
    found = analyse_neighbours(
        case.schema, case.geography, case.known, case.zeros, case.bounds, whole=RELATIONS[neighbours].stated
    )
    assert [(c.status, sorted(c.exact)) for c in found] == [(c.status, sorted(c.exact)) for c in own.changes]


@pytest.mark.deep
@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
@given(case=chains(), data=st.data())
@budget(max_examples=40 * DEPTH, deadline=None)
def test_own_coordinates_are_those_that_records_move(
    case: Chain, data: st.DataObject, neighbours: str
) -> None:
    """A measurement of an older release that a change touches must be counted, whatever its attributes are called."""
    shared = set.intersection(*({a.name for a in schema.attributes} for schema, _, _ in case.releases))
    query = data.draw(st.sampled_from([*sorted(shared), "total", "detailed"]))
    own = derive(case, neighbours, (query,))
    reading, labels = identity_mapping(case.schema), []
    for i, (schema, _, _) in enumerate(case.releases):
        if i:
            reading = compose_mappings(map_attributes(case.releases[i - 1][0], schema, {}), reading)
        labels.append(_labels(case, schema, query, reading))
    for change, loss in zip(own.changes, own.losses, strict=True):
        if loss is not None:
            assert _moved(case, change.kind, change.of, labels) == (loss.rho, loss.counts)


def _labels(case: Chain, schema, query: str, reading) -> np.ndarray:
    """Return the answer of every cell of the newest schema, cell by cell."""
    values = case.schema.coordinates(np.arange(case.schema.n_cells))
    at = {a.name: v for a, v in zip(case.schema.attributes, values, strict=True)}
    below = tuple(np.array(reading[a.name][1])[at[reading[a.name][0]]] for a in schema.attributes)
    return parse_query(schema, query).labels[schema.cells(below)]


def _moved(case: Chain, kind: str, of: str, labels: list[np.ndarray]) -> tuple[Fraction, int]:
    """Return the largest (rho, counts moved) of any change of a kind, agreeing or not, over all cells and leaves."""
    cells = range(case.schema.n_cells)
    values = case.schema.coordinates(np.arange(case.schema.n_cells))
    axis = [a.name for a in case.schema.attributes].index(of) if kind == "attribute" else 0
    rho, counts = Fraction(0), 0
    for step, answers in enumerate(labels):
        for depth in range(len(LEVELS)):
            if kind in ("presence", "everything"):
                touched = True
            elif kind == "attribute":
                touched = any(
                    answers[a] != answers[b]
                    for a in cells
                    for b in cells
                    if all(v[a] == v[b] for i, v in enumerate(values) if i != axis)
                )
            else:
                level = LEVELS.index(of)
                touched = depth > level
            n = (1 if kind == "presence" else 2) * touched
            rho, counts = rho + Fraction(n, 2 * (step + 2)), counts + n
    return rho, counts


def _as_read(schema: Schema) -> query_labels.Schema:
    return read_schema(convert(to_builtins(schema), SchemaOfRecords))


@pytest.mark.parametrize(
    "names", [(("a", "q"), ("b", "q")), (("a", "q"),), (("a", "q"), ("b", "z")), (("a", "q"), ("b", "c"))]
)
def test_a_map_that_does_not_fit_is_refused(names: tuple[tuple[str, str], ...]) -> None:
    """Attributes of the base that are mapped together, left out or given other values would hide what they disclose."""
    below = _as_read(Schema("s", "s", "person", (Attribute("a", ("x", "y")), Attribute("b", ("x", "y")))))
    above = _as_read(Schema("t", "t", "person", (Attribute("q", ("x", "y")), Attribute("c", ("x", "w")))))
    with pytest.raises(ValueError):
        read_below(above, identity_reading(above), below, names)


def test_every_statistic_of_a_chain_has_a_name_of_its_own() -> None:
    """The names are those that a certificate states, however often a name and an id come again."""
    schema = Schema("s", "s", "person", (Attribute("a", ("x", "y")),))
    exact = (Exact("people", "land", "total"), Exact("people (r)", "block", "total"))
    geography = from_prefixes(LEVELS, (1, 2, 3, 4), ("0000",))
    case = Chain(
        schema, geography, [], [], [], np.ones((1, 2), bool), [], [],
        ((schema, Invariants("i", "i", "s", exact=exact), {}),) * 3,
    )  # fmt: skip
    plans = plans_of(case, "bounded")
    plans = [
        replace(p, doc=structs.replace(p.doc, release=structs.replace(p.doc.release, id="r"))) for p in plans
    ]
    own = derive_privacy(plans[0], {str(i): (p, {}) for i, p in enumerate(plans[1:])}, tree_of(case))
    names = ("people", "people (r)", "people (r, 2)", "people (r) (r)", "people (r, 3)", "people (r) (r, 2)")
    assert names == own.conditional_on
