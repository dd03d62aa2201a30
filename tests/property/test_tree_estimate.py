"""The whole-tree estimate against one dense matrix of all cells of all leaves."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.helpers.dense_tree import (
    Case,
    Dense,
    Floats,
    down_covariances,
    down_estimates,
    make_case,
    never,
    schema_of,
    solve_densely,
)
from topdown.errors import InternalError
from topdown.model import Query, parse_query
from topdown.plan import load_invariants, load_schema, load_settings
from topdown.resources import find
from topdown.solve import Lattice, make_lattice, query_of_labels
from topdown.solve.tree import (
    ExactAtRoot,
    answer_variance,
    axis_factors,
    condition_on_root,
    spread_evenly,
    union_quadratic,
)
from topdown.solve.tree import tree_estimate as gls

PARENTS = (
    (0,),
    (0, 0),
    (0, 1, 1, 1),
    (0, 1, 1, 2, 3, 3, 3),
)  # a single child, three children, unequal branches
SMALL = schema_of((3, 2, 4), recoded=(0,))
NAMES = (
    ("total", "a0", "a1 * a2", "r0 * a2"),
    ("a0 * a1", "total"),  # nothing tells every cell here: the levels below do
    ("detailed", "r0", "a1"),
    ("total", "a0 * a2", "detailed"),
)


def opened(n_leaves: int, n_dense: int, seed: int) -> NDArray[np.bool_]:
    """Open values of leaves: different patterns, one leaf with nothing open, one with everything."""
    found = np.random.default_rng(seed).random((n_leaves, n_dense)) < 0.6
    found[0], found[1], found[2, 0] = True, False, True
    return found


@dataclass(frozen=True)
class Fast:
    """Everything the fast path finds: x and V of every node."""

    x: dict[tuple[int, int], Floats]
    v: dict[tuple[int, int], Floats]
    root: Floats
    tree: gls.Covariances


def run(case: Case, exact: tuple[Query, Floats] | None = None) -> Fast:
    """Up, condition, down."""
    tree, lattice = case.tree, case.lattice
    found = gls.estimate_tree(tree, case.answers)
    known = []
    if exact is not None:
        query = query_of_labels(lattice, exact[0].labels)
        known = [ExactAtRoot(query, spread_evenly(lattice, query, exact[1][exact[0].labels[lattice.cell]]))]
    x0, v0 = condition_on_root(tree, found.linear[0][0][0], found.alone[0][0][0], known)
    covariances = down_covariances(tree, v0)
    x = {(0, 0): x0}
    above: list[Floats] = [x0[None]]
    for depth in range(1, len(tree.levels)):
        shape = tree.levels[depth].shape
        if depth < len(tree.levels) - 1:
            alone = list(zip(shape.nodes, found.alone[depth], strict=True))
        else:
            alone = gls.leaf_estimates(tree, case.answers, 0, len(shape.pattern))
        here = [down_estimates(tree, found, depth, above, nodes, e) for nodes, e in alone]
        for (nodes, _), tables in zip(alone, here, strict=True):
            x |= {(depth, int(node)): table for node, table in zip(nodes, tables, strict=True)}
        above = here
    v = {
        (depth, int(node)): covariances[depth][pattern][i]
        for depth, level in enumerate(tree.levels)
        for pattern, nodes in enumerate(level.shape.nodes)
        for i, node in enumerate(nodes)
    }
    return Fast(x, v, v0, tree)


def check_same(case: Case, fast: Fast, slow: Dense, tolerance: float) -> None:
    """Compare every cell of every node, and the variance of each cell's count."""
    for (depth, node), x in fast.x.items():
        shape = fast.tree.levels[depth].shape
        values = shape.values[shape.pattern[node]]
        inside = case.geography.ancestors_of_leaves[depth][slow.leaf] == node
        kept = (1,) * len(case.lattice.sizes)
        for i, d in enumerate(values):
            group = (np.arange(len(values)) == i).astype(float)
            variance = answer_variance(case.lattice, fast.v[depth, node][None], group, kept)[0]
            for p in range(case.lattice.n_product):
                expected = slow.sums(inside & (slow.cell == case.lattice.cell[d, p]))
                assert expected == pytest.approx((x[i, p], variance), abs=tolerance)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("exact", [None, "total", "a0 * a2", "r0 * a1"])
def test_estimate_and_variances_are_those_of_one_dense_matrix(seed: int, exact: str | None) -> None:
    """A wrong factor in a component, a lost child or a wrong condition at the root would show in some cell."""
    case = make_case(PARENTS, SMALL, NAMES, opened(7, 3, seed), seed)
    told = None
    if exact is not None:
        query = parse_query(SMALL, exact)
        told = (query, np.random.default_rng(seed).integers(50, 90, query.n_answers).astype(float))
    check_same(case, run(case, told), solve_densely(case, told), 1e-8)


def test_more_dense_attributes_change_no_number() -> None:
    """What is dense is a matter of speed: a number that depends on it is wrong."""
    is_open = opened(7, 3, 5)
    plain = make_case(PARENTS, SMALL, NAMES, is_open, 5)
    more = make_case(PARENTS, SMALL, NAMES, np.repeat(is_open, 2, axis=1), 5, more=("a1",))
    assert plain.lattice.dense == ("a0",)
    assert more.lattice.dense == ("a0", "a1")
    one, other = run(plain), run(more)
    for key, x in one.x.items():
        assert other.x[key].reshape(x.shape) == pytest.approx(x, abs=1e-9)


def test_gram_of_labels_is_the_gram_of_components() -> None:
    """Own information rests on it: queries with recodes of dense attributes, kept and dropped product axes."""
    for lattice in (
        make_lattice(SMALL, never({"a0": ("v0",)}), ()),
        make_lattice(SMALL, never({"a0": ("v0",)}), (), ("a2",)),
    ):
        for name in ("total", "a0", "r0 * a2", "a1 * a2", "detailed"):
            query = parse_query(SMALL, name)
            labels = query.labels[lattice.cell].reshape(-1)
            expected = (labels[:, None] == labels[None, :]).astype(float)
            assert np.array_equal(
                expected, dense(lattice, query_of_labels(lattice, query.labels).gram(lattice)).round(12)
            )


def dense(lattice: Lattice, matrices: Floats) -> Floats:
    """Return the sum of M_C x P_C written out with Kronecker products."""
    out = np.zeros((lattice.cell.size, lattice.cell.size))
    for c in range(lattice.n_components):
        p = np.ones((1, 1))
        for a, n in enumerate(lattice.sizes):
            mean = np.full((n, n), 1 / n)
            p = np.kron(p, np.eye(n) - mean if c >> a & 1 else mean)
        out = out + np.kron(matrices[c], p)
    return out


def test_means_entries_and_components_are_the_written_out_matrix() -> None:
    """Applying by means, reading single entries and projecting are three readings of one matrix."""
    lattice = make_lattice(schema_of((2, 2, 3, 4)), never({"a0": ("v0",)}), ())
    rng = np.random.default_rng(1)
    m = rng.normal(size=(1, lattice.n_components, 2, 2))
    x = rng.normal(size=(3, 2, lattice.n_product))
    full = dense(lattice, m[0])
    expected = (full @ x.reshape(3, -1).T).T.reshape(x.shape)
    assert np.abs(expected - lattice.apply(m, x)).max() <= 1e-12
    cells = np.arange(lattice.n_product)
    entries = lattice.entries(m[0])[lattice.equal_axes(cells, cells)]
    assert np.abs(full - entries.transpose(2, 0, 3, 1).reshape(full.shape)).max() <= 1e-12
    parts = [lattice.project(c, x) for c in range(lattice.n_components)]
    assert np.abs(x - sum(parts)).max() <= 1e-12
    assert np.abs(np.vdot(parts[1], parts[2])) <= 1e-12


def test_a_union_has_the_variance_of_the_dense_covariance() -> None:
    """Adding variances as if areas were independent, or leaving out a level, would give another number."""
    case = make_case(PARENTS, SMALL, NAMES, opened(7, 3, 8), 8)
    query = parse_query(SMALL, "total")
    told = (query, np.array([200.0]))
    fast, slow = run(case, told), solve_densely(case, told)
    unions = [
        [(3, 0)],
        [(3, 4), (3, 6)],
        [(2, 0), (3, 3), (3, 5)],
        [(1, 0), (1, 1)],
        [(1, 1), (3, 0)],
        [(0, 0)],
    ]
    for union in unions:
        inside = np.zeros(len(slow.leaf), dtype=bool)
        for depth, node in union:
            inside |= case.geography.ancestors_of_leaves[depth][slow.leaf] == node
        members = [np.array(sorted(n for d, n in union if d == depth), dtype=np.int64) for depth in range(4)]
        for group, kept in (((1, 1, 1), (2, 4)), ((0, 1, 1), (1, 4)), ((1, 0, 0), (1, 3))):
            a = np.array(group, dtype=float)
            p = case.lattice.coordinates
            cells = case.lattice.cell[a > 0][:, (p[0] < kept[0]) & (p[1] < kept[1])].reshape(-1)
            expected = slow.sums(inside & np.isin(slow.cell, cells))[1]
            found = union_quadratic(fast.tree, fast.root, members, a) @ axis_factors(case.lattice, kept)
            assert expected == pytest.approx(found, abs=1e-9)
    everything = [np.zeros(0, np.int64)] * 3 + [np.arange(7)]
    whole = union_quadratic(fast.tree, fast.root, everything, np.ones(3)) @ axis_factors(case.lattice, (2, 4))
    assert whole == pytest.approx(0.0, abs=1e-9)


def test_one_child_is_its_parent_and_twins_are_alike() -> None:
    """A single child holds what its parent holds, whatever both levels measure; equal children have equal variances."""
    parents = ((0,), (0,), (0, 0), (0, 1))
    is_open = np.array([[True, True, False], [True, True, False]])
    fast = run(make_case(parents, SMALL, NAMES, is_open, 3))
    assert fast.x[0, 0] == pytest.approx(fast.x[1, 0], abs=1e-12)
    assert fast.v[0, 0] == pytest.approx(fast.v[1, 0], abs=1e-12)
    assert fast.x[2, 1] == pytest.approx(fast.x[3, 1], abs=1e-11)
    assert fast.v[3, 0] == pytest.approx(fast.v[3, 1], abs=1e-12)
    assert fast.x[2, 0] + fast.x[2, 1] == pytest.approx(fast.x[1, 0], abs=1e-9)


def test_an_empty_leaf_changes_nothing_and_a_parent_is_open_where_a_child_is() -> None:
    """Leaves without open cells are not measured; open cells that the parent lacks are refused, not misplaced."""
    is_open = np.array([[True, True, False], [True, False, True]])
    with_one = np.array([[True, True, False], [False] * 3, [True, False, True]])
    names = (NAMES[0], NAMES[3])
    one = run(make_case(((0,), (0, 0)), SMALL, names, is_open, 4))
    other = run(make_case(((0,), (0, 0, 0)), SMALL, names, with_one, 4))
    assert np.array_equal(one.x[0, 0], other.x[0, 0])
    assert np.array_equal(one.v[1, 1], other.v[1, 2])
    case = make_case(((0,), (0, 0)), SMALL, names, is_open, 4)
    closed = (case.is_open[0] & np.array([True, True, False]), case.is_open[1])
    with pytest.raises(InternalError, match="its parent has not"):
        replace(case, is_open=closed).tree  # noqa: B018


def test_streaming_the_leaves_does_not_change_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves come in runs that end anywhere; a parent whose children lie in two runs must have both."""
    case = make_case(PARENTS, SMALL, NAMES, opened(7, 3, 8), 8)
    whole = gls.estimate_tree(case.tree, case.answers)
    monkeypatch.setattr(gls, "LEAVES_AT_ONCE", 2)
    parts = gls.estimate_tree(case.tree, case.answers)
    for a, b in zip(whole.linear[0], parts.linear[0], strict=True):
        assert a == pytest.approx(b, abs=1e-10)


def test_leaves_that_do_not_tell_cells_apart_are_refused() -> None:
    """Without information on every cell there is no inverse: an error, not a number."""
    case = make_case(((0,), (0, 0)), SMALL, (NAMES[0], ("a0", "a1 * a2")), np.ones((2, 3), dtype=bool), 2)
    with pytest.raises(np.linalg.LinAlgError):
        case.tree  # noqa: B018


@pytest.mark.parametrize(
    ("schema", "rules", "dense_names", "sizes"),
    [
        ("pl94", "pl94_2020", ("hhgq", "votingage"), (2, 63)),
        ("pl94", "", ("hhgq",), (2, 2, 63)),
        ("toy", "toy", ("dwelling", "age"), (2,)),
    ],
)
def test_lattice_form_of_shipped_schemas(
    schema: str, rules: str, dense_names: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    """Rules that close cells and recodes that are measured make attributes dense, nothing else does."""
    found = load_schema(find("schemas", schema, Path()))
    invariants = load_invariants(find("invariants", rules, Path()), found) if rules else never({})
    settings = load_settings(find("settings", "toy" if schema == "toy" else "pl94_2020", Path()))
    queries = [parse_query(found, name) for level in settings.level for name in level.queries]
    lattice = make_lattice(found, invariants, queries)
    assert (dense_names, sizes) == (lattice.dense, lattice.sizes)
    assert np.array_equal(np.arange(found.n_cells), np.sort(lattice.cell.reshape(-1)))
    d, p = lattice.place[:, 17]
    assert lattice.cell[d, p] == 17
