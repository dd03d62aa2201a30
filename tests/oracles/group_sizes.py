"""Slow, obvious twins of the estimators of group sizes: enumeration, cost tables, flows, rationals, plain splits."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import exp, floor, lgamma, log, log1p, prod

import numpy as np

from pgsr import Tree, tree_of
from pgsr.estimators import LEAST_SPREAD, PHI_START, SPREAD_PASSES, TRUST_ROUNDS
from pgsr.exact_arguments import scaled_weights, squared_cost
from pgsr.hierarchy import check_matrix
from pgsr.sensitivity_audit import compositions
from tests.oracles.kernels_tables import tables_down
from topdown.arrays import Floats, Ints


def all_counts(tree: Tree, n_sizes: int, total: int) -> Iterator[Ints]:
    """Yield every consistent, valid, faithful table of counts [size][node]."""
    for cells in compositions(total, n_sizes * tree.n_leaves):
        yield tree.sums(np.array(cells, dtype=np.int64).reshape(n_sizes, tree.n_leaves))


def enumerate_model1(
    levels: Sequence[Sequence[int]] | Tree, noisy: object, total: int, weights: Sequence[int] | None = None
) -> int:
    """Return the optimal cost of Model 1 by trying everything."""
    tree, a = tree_of(levels), np.asarray(noisy)
    w = np.asarray(weights or [1] * tree.n_levels)[tree.level_of]
    return min(int((w * (x - a) ** 2).sum()) for x in all_counts(tree, len(a), total))


def enumerate_model2(levels: Sequence[Sequence[int]] | Tree, noisy: object, total: int) -> int:
    """Return the optimal cost of Model 2 by trying everything."""
    tree, a = tree_of(levels), np.asarray(noisy)
    return min(int(((np.cumsum(x, axis=0) - a) ** 2).sum()) for x in all_counts(tree, len(a), total))


def chain_by_tables(
    y: Sequence[int],
    tied: Sequence[bool],
    total: int,
    weights: Sequence[int] | None = None,
    *,
    last: bool = True,
) -> int:
    """Return the optimal cost of a chain by dynamic programming over all values 0..total (Model 3's tables)."""
    w = weights or [1] * len(y)
    best = [0] * (total + 1)
    for i, (target, weight) in enumerate(zip(y, w, strict=True)):
        if i > 0 and not tied[i - 1]:
            for v in range(1, total + 1):
                best[v] = min(best[v], best[v - 1])
        best = [cost + weight * (v - target) ** 2 for v, cost in enumerate(best)]
    return best[total] if last else min(best)


def isotonic_by_minmax(y: Sequence[int], low: int, high: int) -> list[int]:
    """Return the rounded isotonic regression by the max-min formula of means, in rationals."""
    n = len(y)
    means = [
        [Fraction(sum(y[a : b + 1]), b - a + 1) if b >= a else Fraction(0) for b in range(n)]
        for a in range(n)
    ]
    best = [max(min(means[a][b] for b in range(i, n)) for a in range(i + 1)) for i in range(n)]
    return [min(max(floor(v + Fraction(1, 2)), low), high) for v in best]


def split_by_units(target: Sequence[float], total: int) -> list[int]:
    """Return the nearest nonnegative integers that sum to `total`: one unit at a time to the cheapest place."""
    counts = [0] * len(target)
    for _ in range(total):
        cheapest = min(range(len(target)), key=lambda i: 2 * (counts[i] - target[i]) + 1)
        counts[cheapest] += 1
    return counts


Row = list[Fraction]


def shrink_by_rationals(
    above: Sequence[Row], base: Sequence[Row], noise: Sequence[Row], pooled: Row
) -> tuple[list[Row], list[Row]]:
    """Return cumulative counts of siblings that lean on their parent's, and their variances.

    Args:
        above: of the parent: cumulative counts before it leaned on its own parent, final ones, their variances.
        base, noise: cumulative counts and the variance of their noise, a row a child; all of them lean.
        pooled: how much siblings of the level differ at least where variances are stated, per size.
    """
    parent, final, parent_variance = above
    n, of_parent = len(parent) - 1, parent[-1]
    totals = [row[-1] for row in base]
    a = [g / of_parent for g in totals]
    edge = 1 / (2 * of_parent)
    f = [min(max(value / of_parent, edge), 1 - edge) for value in parent]
    by_chance = [[g * x * (1 - x) * (1 - part) for x in f] for g, part in zip(totals, a, strict=True)]
    scale = [g * g * (1 - part) for g, part in zip(totals, a, strict=True)]
    off = [[(row[s] - part * parent[s]) ** 2 for s in range(n)] for row, part in zip(base, a, strict=True)]
    shares = [
        max(y - x, Fraction(0)) / of_parent for x, y in zip([Fraction(0), *parent], parent, strict=False)
    ]
    k = 1 / sum((p * p for p in shares), Fraction(0))
    children = range(len(base))
    trust = [Fraction(1) for _ in children]
    spread: list[Row] = []
    for _ in range(TRUST_ROUNDS):
        phi = [Fraction(PHI_START) for _ in range(n)]
        for _ in range(SPREAD_PASSES):
            for s in range(n):
                known = [noise[c][s] + by_chance[c][s] for c in children]
                worth = [trust[c] * scale[c] / (known[c] + phi[s] * scale[c]) ** 2 for c in children]
                below = sum(w * scale[c] for c, w in enumerate(worth))
                found = sum(w * (off[c][s] - known[c]) for c, w in enumerate(worth))
                phi[s] = max(found / below, Fraction(0)) if below else Fraction(0)
        spread = [
            [max(by_chance[c][s] + phi[s] * scale[c], Fraction(LEAST_SPREAD)) for s in range(n)]
            for c in children
        ]
        odd = [
            sum((shares[s] * off[c][s] / (noise[c][s] + spread[c][s]) for s in range(n)), Fraction(0))
            for c in children
        ]
        half = Fraction(1, 2)
        trust = [min(Fraction(1), (half + k) / (half + k * q)) for q in odd]
        # Numbers of as many digits as the steps before have made grow without end: twelve places are kept.
        trust = [t.limit_denominator(10**12) for t in trust]
    out, variance = [[*row] for row in base], [[Fraction(0)] * (n + 1) for _ in children]
    for s in range(n):
        inverse = []
        for c in children:
            w, u = 1 / noise[c][s], trust[c] ** 4 / spread[c][s]
            out[c][s] = (w * base[c][s] + u * a[c] * final[s]) / (w + u) if totals[c] else Fraction(0)
            inverse.append(1 / (w + u) if totals[c] else Fraction(0))
            wide = max((by_chance[c][s] + pooled[s] * scale[c]) * u, Fraction(1))
            own = min((w + u * wide) / (w + u) ** 2, 1 / w) if totals[c] else Fraction(0)
            variance[c][s] = own + (u * a[c] / (w + u)) ** 2 * parent_variance[s]
        lack = final[s] - sum(out[c][s] for c in children)
        for c in children:
            out[c][s] += lack * inverse[c] / sum(inverse)
    return out, variance


def path_posterior_by_enumeration(
    answers: Ints,
    columns: int,
    rows: int,
    total: int,
    expected: Floats,
    alike: Floats,
    scale: float,
    large: tuple[int, Floats] | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return posterior means and variances of tail counts, and variances of counts, from every histogram.

    Args:
        answers: columns, rows and corners [size], with geometric noise of this scale.
        columns, rows: how the region was measured.
        total: its number of groups, known.
        expected, alike: means and shapes of the negative binomial prior numbers of groups of each size.
        large: cell where large groups begin, and factors on the prior of their number.
    """
    n = len(answers)
    prior = np.zeros((n, total + 1))
    for c in range(n):
        for j in range(total + 1):
            p = expected[c] / (alike[c] + expected[c])
            ways = lgamma(alike[c] + j) - lgamma(alike[c]) - lgamma(j + 1)
            prior[c, j] = exp(ways + alike[c] * log1p(-p) + j * log(p)) + (1e-6 / (j * j) if j else 0.0)
    weights, tails, counts = [], [], []
    for histogram in product(range(total + 1), repeat=n):
        if sum(histogram) != total:
            continue
        long = [size for size in range(n - 1, -1, -1) for _ in range(histogram[size])]
        tail = [sum(histogram[c:]) for c in range(n)]
        exact = tail[:columns] + [max(size + 1 - columns, 0) for size in long[:rows]]
        exact += [max(t - rows, 0) for t in tail[columns : n - rows]]
        # The number of groups is known: its column says nothing.
        off = sum(abs(int(a) - e) for a, e in zip(answers[1:], exact[1:], strict=True))
        weight = exp(-off / scale) * prod(prior[c, j] for c, j in enumerate(histogram))
        weights.append(weight if large is None else weight * large[1][tail[large[0]]])
        tails.append(tail)
        counts.append(histogram)
    law = np.array(weights) / sum(weights)
    held, each = np.array(tails, dtype=np.float64), np.array(counts, dtype=np.float64)
    mean, middle = law @ held, law @ each
    return mean, law @ held**2 - mean**2, law @ each**2 - middle**2


def model1_by_flow(tree: Tree, noisy: object, total: int) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of Model 1 as a minimum-cost flow (networkx), the readable twin of M_H.

    Every region of every size is an arc bundle of unit segments from its parent's place to its own; leaves
    drain into one sink. Small sizes only.
    """
    import networkx as nx

    a = check_matrix("noisy", noisy, tree)
    graph = nx.MultiDiGraph()
    graph.add_node("groups", demand=-total)
    graph.add_node("sink", demand=total)
    for s in range(len(a)):
        for g in range(tree.n_nodes):
            above = "groups" if g == 0 else (s, int(tree.parent[g]))
            for k in range(total):
                graph.add_edge(above, (s, g), key=k, capacity=1, weight=2 * k + 1 - 2 * int(a[s, g]))
            if g >= tree.n_inner:
                graph.add_edge((s, g), "sink", capacity=total, weight=0)
    _, flow = nx.network_simplex(graph)
    counts = (
        np.array(
            [
                [
                    sum(flow["groups" if g == 0 else (s, int(tree.parent[g]))][s, g].values())
                    for g in range(tree.n_nodes)
                ]
                for s in range(len(a))
            ],
            dtype=np.int64,
        ).reshape(a.shape)
        if total
        else np.zeros_like(a)
    )
    return counts, squared_cost(np.ones(1, dtype=np.int64), counts - a, 1)


def table_optimum(
    levels: Sequence[Sequence[int]] | Tree,
    noisy: object,
    total: int,
    weights: Sequence[int | Fraction] | None = None,
    radius: int | None = None,
) -> tuple[Ints, int | Fraction] | None:
    """Return counts and cost by cost tables, the paper's method at its best.

    Args:
        levels, noisy, total, weights: as in `tree.tree_optimum`.
        radius: keep only counts within this distance of the noisy value (the paper's 3 ceil(2 lam^2)); None
            keeps 0..total.

    Returns:
        None if the truncated domains admit no solution (pgsr.md 1.3, item 7).
    """
    tree = tree_of(levels)
    a = check_matrix("noisy", noisy, tree)
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    w = per_level[tree.level_of]
    low, high = np.zeros_like(a), np.full_like(a, total)
    if radius is not None:
        low, high = np.maximum(a - radius, 0), a + radius
        if np.any(high < low):
            return None
    counts = np.zeros_like(a)
    width = int((high - low).max()) + 1
    if not tables_down(a, w, tree.first_child, low, high, total, width, counts):
        return None
    return counts, squared_cost(w[None, :], counts - a, denominator)


def model_by_gurobi(tree: Tree, noisy: object, total: int, *, cumulative: bool) -> int:
    """Return the optimal cost of Model 1, or of Model 2 with `cumulative`, by gurobi's quadratic program."""
    import gurobipy as gp

    a = check_matrix("noisy", noisy, tree)
    with gp.Env(params={"OutputFlag": 0}) as env, gp.Model(env=env) as model:
        model.Params.MIPGap = 0.0
        model.Params.Threads = 1
        n = model.addMVar((len(a), tree.n_leaves), vtype=gp.GRB.INTEGER, lb=0.0, ub=float(total))
        model.addConstr(n.sum() == total)
        cost = 0
        for g in range(tree.n_nodes):
            below = n[:, tree.leaf_start[g] : tree.leaf_stop[g]].sum(axis=1)
            for s in range(len(a)):
                x = below[: s + 1].sum() if cumulative else below[s]
                cost = cost + (x - int(a[s, g])) * (x - int(a[s, g]))
        model.setObjective(cost, gp.GRB.MINIMIZE)
        model.optimize()
        assert model.Status == gp.GRB.OPTIMAL
        return round(model.ObjVal)


def merge_tables(tables: list[list[int]]) -> list[int]:
    """Return phi(v) = min sum tau_c(x_c) s.t. sum x_c = v for v = 0, 1, ... (Algorithm 1, Table merge).

    Line 2 of the printed algorithm takes the slopes below a minimum in the wrong direction; merging all slopes in
    ascending order from v = 0 is the corrected reading (pgsr.md 1.3, item 4).

    Args:
        tables: convex tables tau_c(0), tau_c(1), ... of the children.
    """
    slopes = sorted(b - a for table in tables for a, b in pairwise(table))
    values = [sum(table[0] for table in tables)]
    for slope in slopes:
        values.append(values[-1] + slope)
    return values


def units_by_slope(tables: list[list[int]], v: int) -> list[int]:
    """Return the argmin x_c of phi(v): the v smallest slopes, each child's in order."""
    slopes = sorted((b - a, c) for c, table in enumerate(tables) for a, b in pairwise(table))
    counts = [0] * len(tables)
    for _, c in slopes[:v]:
        counts[c] += 1
    return counts
