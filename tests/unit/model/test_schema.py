"""Schemas, labels and queries: every cell counted once, every mistake refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topdown.errors import ConfigError
from topdown.model import Attribute, Histogram, Recode, Schema, parse_query, refines
from topdown.plan import load_invariants, load_schema
from topdown.privacy import Relation
from topdown.resources import bundled_names, bundled_root, find

PL94 = load_schema(bundled_root() / "schemas" / "pl94.toml")
QUERIES = ("total", "hhgq", "hhinstlevels", "hispanic * cenrace", "votingage * race7", "detailed")


def test_pl94_has_the_production_shape() -> None:
    """The schema is the Bureau's: 8 x 2 x 2 x 63 = 2,016 cells, 2,603 numbers a node below the root."""
    assert PL94.shape == (8, 2, 2, 63)
    assert PL94.n_cells == 2016
    workload = ["total", "cenrace", "hispanic", "votingage", "hhinstlevels", "hhgq", "hispanic * cenrace"]
    workload += ["votingage * cenrace", "votingage * hispanic", "votingage * hispanic * cenrace", "detailed"]
    assert sum(parse_query(PL94, name).n_answers for name in workload) == 2603


@pytest.mark.parametrize("name", QUERIES)
def test_query_labels_equal_the_kronecker_product(name: str) -> None:
    """Labels must be the query the paper defines: a Kronecker product of 0/1 groupings."""
    query = parse_query(PL94, name)
    matrix = np.ones((1, 1), dtype=np.int64)
    for attribute in PL94.attributes:
        factor = next((f for f in query.factors if f.attribute == attribute.name), None)
        if factor is None:
            part = np.ones((1, len(attribute.labels)), dtype=np.int64)
        else:
            part = (
                np.arange(len(factor.group_labels))[:, None] == np.array(factor.group_of)[None, :]
            ).astype(int)
        matrix = np.kron(matrix, part)
    histogram = np.random.default_rng(1).integers(0, 9, PL94.n_cells)
    np.testing.assert_array_equal(query.sum(histogram), matrix @ histogram)


@pytest.mark.parametrize("name", QUERIES)
def test_sensitivities_equal_brute_force_over_neighbours(name: str) -> None:
    """Noise is scaled by these numbers: they must be the largest change over all neighbouring tables of a level."""
    query = parse_query(PL94, name)
    rng = np.random.default_rng(2)
    cells = rng.integers(0, PL94.n_cells, size=(400, 2))
    unit = np.eye(query.n_answers, dtype=np.int64)
    answers = unit[query.labels[cells]]
    n_nodes = 2
    worst = {"bounded": (0, 0), "add_remove": (0, 0)}
    for old, new in answers:
        add = np.zeros((n_nodes, query.n_answers), dtype=np.int64)
        add[0] += new
        worst["add_remove"] = max(worst["add_remove"], (int(np.abs(add).sum()), int((add**2).sum())))
        for node in range(n_nodes):  # replaced in place, or moved to another node
            change = np.zeros((n_nodes, query.n_answers), dtype=np.int64)
            change[0] -= old
            change[node] += new
            worst["bounded"] = max(worst["bounded"], (int(np.abs(change).sum()), int((change**2).sum())))
    for relation, (l1, l2_squared) in worst.items():
        assert Relation.named(relation).l1_sensitivity(query) == l1
        assert Relation.named(relation).l2_sensitivity_squared(query) == l2_squared


def test_refines_is_the_partial_order_of_tables() -> None:
    """Passes and roundings rely on it: detailed refines all, total is refined by all, crossing tables neither."""
    detailed, total = parse_query(PL94, "detailed"), parse_query(PL94, "total")
    race, age = parse_query(PL94, "cenrace"), parse_query(PL94, "votingage")
    assert detailed.refines(race)
    assert race.refines(total)
    assert parse_query(PL94, "hhgq").refines(parse_query(PL94, "hhinstlevels"))
    assert not race.refines(age)
    assert not total.refines(race)


@pytest.mark.parametrize("fine", QUERIES)
@pytest.mark.parametrize("coarse", QUERIES)
def test_refining_by_attribute_is_refining_by_cell(fine: str, coarse: str) -> None:
    """An extension that took a table for a sum of another's answers would fix what nobody measured."""
    one, other = parse_query(PL94, fine), parse_query(PL94, coarse)
    assert one.refines(other) == refines(one.labels, other.labels)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("age", "names 'age'"),
        ("hhgq * hhinstlevels", "one attribute twice"),
        ("total * hhgq", "names 'total'"),
    ],
)
def test_unknown_or_double_counting_queries_are_refused(name: str, message: str) -> None:
    """A query that counts a record twice would break the sensitivity."""
    with pytest.raises(ConfigError, match=message):
        parse_query(PL94, name)


def test_schema_mistakes_are_refused() -> None:
    """Each constructor check must be able to fail."""
    a = Attribute("a", ("x", "y"))
    for broken in (
        lambda: Attribute("a", ()),
        lambda: Attribute("a", ("x", "x")),
        lambda: Recode("r", ("g", "h"), (0, 0)),
        lambda: Attribute("a", ("x", "y"), (Recode("r", ("g",), (0,)),)),
        lambda: Schema("s", "t", "person", ()),
        lambda: Schema("s", "t", "person", (a, a)),
        lambda: Schema("s", "t", "person", (Attribute("count", ("x",)),)),
        lambda: Schema("s", "t", "person", tuple(Attribute(f"a{i}", tuple("abcdefgh")) for i in range(11))),
        lambda: PL94.select({"hhgq": ("castle",)}),
        lambda: PL94.select({"height": ("tall",)}),
    ):
        with pytest.raises(ConfigError):
            broken()


@pytest.mark.parametrize("name", bundled_names("invariants"))
def test_bundled_invariants_fit_their_schema(name: str) -> None:
    """A shipped invariants file with a typo would stop every user of it; all carry their legal basis."""
    path = find("invariants", name, bundled_root())
    text = path.read_text()
    schema_name = next(line.split('"')[1] for line in text.splitlines() if line.startswith("schema"))
    schema = load_schema(find("schemas", schema_name, bundled_root()))
    invariants = load_invariants(path, schema)
    every = [*invariants.exact, *invariants.at_least, *invariants.none_where_zero, *invariants.never]
    assert every
    assert all(rule.basis.legal_basis not in ("", "?") for rule in every)


triples = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(-3, 9)), max_size=30)


@given(triples)
def test_sparse_histograms_add_up_like_dense_ones(rows: list[tuple[int, int, int]]) -> None:
    """Histogram.build must lose nothing, double nothing and keep no zero."""
    dense = np.zeros((5, 6), dtype=np.int64)
    for node, cell, count in rows:
        dense[node, cell] += count
    columns = [np.array(c, dtype=np.int64) for c in zip(*rows, strict=True)] or [np.zeros(0, np.int64)] * 3
    sparse = Histogram.build(5, 6, *columns)
    assert (sparse.count != 0).all()
    np.testing.assert_array_equal(sparse.dense(0, 5), dense)
    np.testing.assert_array_equal(sparse.dense(2, 4), dense[2:4])
    np.testing.assert_array_equal(sparse.totals(), dense.sum(axis=1))
    parent = np.array([0, 0, 1, 1, 1])
    above = np.stack([dense[:2].sum(axis=0), dense[2:].sum(axis=0)])
    np.testing.assert_array_equal(sparse.aggregate(parent, 2).dense(0, 2), above)
    assert sparse.n_records == Fraction(int(dense.sum()))


def test_selection_is_the_cells_with_those_values() -> None:
    """A rule marked on other cells would close or bound the wrong ones; counted otherwise it would be misquoted."""
    values = {
        "cenrace": PL94.attribute("cenrace").labels[3:9:2],
        "hispanic": PL94.attribute("hispanic").labels[1:],
    }
    places = [i for i, a in enumerate(PL94.attributes) if a.name in values]
    expected = [
        all(PL94.attributes[i].labels[cell[i]] in values[PL94.attributes[i].name] for i in places)
        for cell in np.ndindex(*PL94.shape)
    ]
    np.testing.assert_array_equal(PL94.select(values), expected)


labels = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), max_size=8)


@given(labels)
def test_refines_is_one_label_for_one_label(pairs: list[tuple[int, int]]) -> None:
    """A table refines another if and only if no label of it meets two of the other."""
    fine, coarse = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    expected = len(set(pairs)) == len({pair[0] for pair in pairs})
    assert refines(fine, coarse) is expected


@pytest.mark.parametrize(("fine", "coarse", "expected"), [([0, 1], [0, 0], True), ([0, 0], [0, 1], False)])
def test_direction(fine: list[int], coarse: list[int], expected: bool) -> None:
    """Swapped arguments would let a coarse table pass for a fine one."""
    assert refines(np.array(fine), np.array(coarse)) is expected
