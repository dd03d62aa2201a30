"""Slow, obvious twins of the implied constraints: every table is written out."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, reduce
from itertools import combinations

import numpy as np

from tests.helpers.polytopes import limit_excess
from tests.helpers.rule_twins import CLOSING, TWINS
from topdown.model import (
    NO_LIMIT,
    AtLeast,
    AtMost,
    Attribute,
    ConstraintSystem,
    Exact,
    Geography,
    Invariants,
    LimitUse,
    Never,
    NoneWhereZero,
    PublicFacts,
    Schema,
    SplitConstraints,
    from_prefixes,
    parse_query,
    split_constraints,
)
from topdown.solve.implied import GroupLeaf, Groups, LeafMargins

Vector = tuple[int, ...]


def compositions(total: int, k: int) -> Iterator[Vector]:
    """Write out all nonnegative whole vectors of length k with this sum."""
    if k == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, k - 1):
            yield (first, *rest)


def sums(sets: Iterable[set[Vector]]) -> set[Vector]:
    """Add one element of each set, in every way."""
    return reduce(lambda a, b: {tuple(map(sum, zip(x, y, strict=True))) for x in a for y in b}, sets)


def leaf_tables(leaf: GroupLeaf) -> set[Vector]:
    """Write out all group counts a leaf may have."""
    return {
        x
        for x in compositions(leaf.total, len(leaf.lower))
        if all(v == c or (is_open and v > c) for v, c, is_open in zip(x, leaf.lower, leaf.open, strict=True))
    }


def random_groups(rng: np.random.Generator, k: int, n_leaves: int, most: int) -> Groups:
    """Make leaves with random presence, bounds, fixed groups and totals."""
    leaves = []
    for _ in range(n_leaves):
        is_open = tuple(bool(v) for v in rng.random(k) < 0.6)
        lower = tuple(int(v) * int(rng.random() < 0.4) for v in rng.integers(0, 3, size=k))
        rest = int(rng.integers(0, most + 1)) if any(is_open) else 0
        leaves.append(GroupLeaf(sum(lower) + rest, lower, is_open))
    return Groups(tuple("abcdefghijklmn"[:k]), tuple(leaves))


def group_regions(groups: Groups) -> SplitConstraints:
    """Return what the solver makes of leaves with exact totals: group j is cell j, the root holds all leaves."""
    n, k = len(groups.leaves), len(groups.names)
    lower = np.array([leaf.lower for leaf in groups.leaves], dtype=np.int64).reshape(n, k)
    free = np.array([leaf.open for leaf in groups.leaves], dtype=bool).reshape(n, k)
    caps = np.where(free, NO_LIMIT, lower)
    capped = (~free & (lower > 0)).any()
    is_open = free | (lower > 0)
    totals = np.array([leaf.total for leaf in groups.leaves], dtype=np.int64)
    single = tuple(np.eye(k, dtype=bool))
    rules = ConstraintSystem(
        class_of_cell=np.arange(k),
        open=(is_open.any(axis=0)[None, :], is_open),
        bound_cells=single,
        lower=(lower.sum(axis=0)[None, :], lower),
        cap_cells=single if capped else (),
        caps=caps if capped else np.zeros((n, 0), dtype=np.int64),
    )
    tree = from_prefixes(("node", "leaf"), (0, 2), tuple(f"{i:02d}" for i in range(n)))
    return split_constraints(rules.partition(), rules, tree, {0: np.array([totals.sum()]), 1: totals})


def group_limits(groups: Groups) -> np.ndarray:
    """Return the most people each set of groups can hold, int64 (2^k,), as the solver computes it."""
    polytopes = group_regions(groups)
    limits, kind = polytopes.limits(0, np.array([0]))[0], polytopes.partition.of_cell
    sets = np.arange(1 << len(kind))
    held = np.zeros_like(sets)
    for j, k in enumerate(kind.tolist()):
        held |= ((sets >> j) & 1) << k if k >= 0 else 0
    return np.asarray(limits[held], dtype=np.int64)


def margin_tables(leaf: LeafMargins) -> set[Vector]:
    """Write out all 2 x 2 tables with the leaf's margins."""
    n = sum(leaf.rows)
    return {
        x
        for x in compositions(n, 4)
        if (x[0] + x[1], x[2] + x[3]) == leaf.rows and (x[0] + x[2], x[1] + x[3]) == leaf.columns
    }


@dataclass(frozen=True)
class SmallCensus:
    """The public side of a tiny release, and exact statistics by name; every leaf table in reach is written out."""

    schema: Schema
    geography: Geography
    invariants: Invariants
    facts: PublicFacts
    exact: dict[str, np.ndarray]

    @property
    def parts(self) -> tuple[Schema, Geography, Invariants, PublicFacts, dict[str, np.ndarray]]:
        """Return the arguments the engine's functions take."""
        return self.schema, self.geography, self.invariants, self.facts, self.exact


TINY = Schema(
    "tiny", "", "person", (Attribute("kind", ("home", "dorm", "ship")), Attribute("sex", ("f", "m")))
)
PICKS = (
    {"kind": ("home",)}, {"kind": ("dorm",)}, {"kind": ("ship",)}, {"kind": ("dorm",), "sex": ("f",)},
    {"kind": ("dorm", "ship")}, {"kind": ("home", "dorm", "ship")}, {"kind": ("ship",), "sex": ("m",)}, {"sex": ("m",)},
)  # fmt: skip
KINDS = ("exact", *TWINS)


def random_census(
    rng: np.random.Generator, *, most: int = 3, caps: bool = True, inner: bool = False
) -> SmallCensus:
    """Make a tree of one to four leaves with random rules, facts and exact statistics (possibly contradictory).

    Args:
        rng: where randomness comes from.
        most: records of a leaf, about.
        caps: also draw upper and nested bounds and exact tables of the leaves.
        inner: also draw an exact table of the land or the counties.
    """
    leaves = tuple(sorted({f"0{c}{b}" for c, b in rng.integers(1, 3, size=(int(rng.integers(1, 5)), 2))}))
    geography = from_prefixes(("land", "county", "block"), (1, 2, 3), leaves)
    picks = [tuple(PICKS[i].items()) for i in rng.permutation(len(PICKS) - (rng.random() < 0.7))]
    zeros = tuple(
        NoneWhereZero(f"zero {i}", picks[i], (("u",), ("v",), ("u", "v"))[rng.integers(3)])
        for i in range(rng.integers(0, 3))
    )
    lower = tuple(AtLeast(f"least {i}", picks[3 + i], "uv"[i], 1) for i in range(rng.integers(0, 3)))
    n_upper = int(caps) * int(rng.integers(0, 3))
    upper = tuple(AtMost(f"most {i}", picks[4 + i], "uv"[i], int(rng.integers(1, 3))) for i in range(n_upper))
    never = (Never("never", picks[6]),) if rng.random() < 0.4 else ()
    facts = PublicFacts({c: rng.integers(0, 2, size=len(leaves)) for c in "uv"})
    blocks = rng.integers(0, most + 1, size=len(leaves)) + (rng.random() < 0.3)
    tables = np.array([np.bincount(rng.integers(0, 3, n), minlength=3) for n in blocks], dtype=np.int64)
    exact, statistics = {}, []
    for i, name in enumerate(geography.level_names):
        up = geography.ancestors_of_leaves[i]
        if rng.random() < 0.45:
            totals = np.bincount(up, weights=blocks, minlength=len(geography.levels[i])).astype(np.int64)
            exact[f"exact {name}"] = (totals + (rng.random(len(totals)) < 0.1))[:, None]
            statistics.append(Exact(f"exact {name}", name, "total"))
    if caps and rng.random() < 0.3:
        exact["table"] = tables + (rng.random(tables.shape) < 0.05)
        statistics.append(Exact("table", "block", "kind"))
    if inner:
        depth, query = int(rng.integers(2)), str(rng.choice(["kind", "sex", "kind * sex"]))
        people = np.stack([_table_of_kinds(rng, row) for row in tables])
        up = np.zeros((len(geography.levels[depth]), TINY.n_cells), dtype=np.int64)
        np.add.at(up, geography.ancestors_of_leaves[depth], people)
        values = parse_query(TINY, query).sum(up)
        exact["inner"] = values + (rng.random(values.shape) < 0.03)
        statistics.append(Exact("inner", geography.level_names[depth], query))
    invariants = Invariants("tiny", "", "tiny", tuple(statistics), lower, zeros, never, at_most=upper)
    return SmallCensus(TINY, geography, invariants, facts, exact)


def _table_of_kinds(rng: np.random.Generator, kinds: np.ndarray) -> np.ndarray:
    """Draw a sex for everybody, (n_cells,)."""
    women = rng.binomial(kinds, 0.5)
    return np.stack([women, kinds - women], axis=1).reshape(-1)


def only(census: SmallCensus, names: Iterable[str]) -> SmallCensus:
    """Keep the named constraints."""
    old, kept = census.invariants, set(names)
    rules = {kind: tuple(r for r in getattr(old, kind) if r.name in kept) for kind in KINDS}
    exact = {name: values for name, values in census.exact.items() if name in kept}
    return replace(census, invariants=replace(old, **rules), exact=exact)


def crossing(census: SmallCensus, among: np.ndarray | None = None) -> bool:
    """Tell whether two bounds share cells without being nested, `among` some cells if they are given."""
    rules = [rule for kind in TWINS if kind not in CLOSING for rule in getattr(census.invariants, kind)]
    sets = [set(np.flatnonzero(census.schema.select(dict(r.cells)))) for r in rules]
    if "table" in census.exact:
        sets += [{0, 1}, {2, 3}, {4, 5}]
    if among is not None:
        sets = [one & set(np.flatnonzero(among)) for one in sets]
    return any(a & b and not (a <= b or b <= a) for a, b in combinations(sets, 2))


def occupied_cells(census: SmallCensus, most: int) -> np.ndarray:
    """Return the cells, bool, that some leaf's histogram of at most `most` people has anybody in."""
    leaves = range(len(census.geography.leaves))
    return np.any([block_tables(census, leaf, most).any(axis=0) for leaf in leaves], axis=0)


def names_of(census: SmallCensus) -> list[str]:
    """Return the names of all constraints."""
    return [rule.name for kind in KINDS for rule in getattr(census.invariants, kind)]


@cache
def _all_tables(most: int, n_cells: int) -> np.ndarray:
    return np.array([x for total in range(most + 1) for x in compositions(total, n_cells)])


def block_tables(census: SmallCensus, leaf: int, most: int) -> np.ndarray:
    """Write out a leaf's histograms of at most `most` people that meet the leaf constraints, one a row."""
    schema, rules = census.schema, census.invariants
    tables = _all_tables(most, schema.n_cells)
    facts = {name: int(column[leaf]) for name, column in census.facts.columns.items()}
    for kind, twin in TWINS.items():
        for rule in getattr(rules, kind):
            low, high = twin.ends(asdict(rule), facts)
            held = tables[:, schema.select(dict(rule.cells))].sum(axis=1)
            tables = tables[(held >= low) & (held <= high)]
    for e in rules.exact:
        if e.level == census.geography.level_names[-1]:
            answers = parse_query(schema, e.query).sum(tables)
            tables = tables[(answers == census.exact[e.name][leaf]).all(axis=1)]
    return tables


def wanted_totals(census: SmallCensus, level: int, node: int) -> set[int]:
    """Return the totals that exact statistics of its level give a node; they may differ."""
    name = census.geography.levels[level].name
    return {int(census.exact[e.name][node].sum()) for e in census.invariants.exact if e.level == name}


def node_totals(census: SmallCensus, level: int, node: int, most: int) -> set[int]:
    """Write out the populations a node may have, up to `most`, given everything said below and about it."""
    geography = census.geography
    if level == len(geography.levels) - 1:
        found = set(block_tables(census, node, most).sum(axis=1).tolist())
    else:
        p, found = geography.child_pointers[level], {0}
        for child in range(p[node], p[node + 1]):
            part = node_totals(census, level + 1, child, most)
            found = {a + b for a in found for b in part if a + b <= most}
    return {n for n in found if wanted_totals(census, level, node) <= {n}}


def node_tables(census: SmallCensus, level: int, node: int, most: int) -> set[Vector]:
    """Write out the histograms of a node, of at most `most` people, that split down to its leaves."""
    geography = census.geography
    if level == len(geography.levels) - 1:
        found = set(map(tuple, block_tables(census, node, most).tolist()))
    else:
        p, found = geography.child_pointers[level], {(0,) * census.schema.n_cells}
        for child in range(p[node], p[node + 1]):
            part = node_tables(census, level + 1, child, most)
            found = {x for x in sums([found, part]) if sum(x) <= most}
    return {x for x in found if answers_right(census, level, node, x)}


def answers_right(census: SmallCensus, level: int, node: int, x: Vector) -> bool:
    """Tell whether a node's histogram gives every exact statistic of its level."""
    name = census.geography.levels[level].name
    return all(
        np.array_equal(parse_query(census.schema, e.query).sum(np.array([x]))[0], census.exact[e.name][node])
        for e in census.invariants.exact
        if e.level == name
    )


def keeps_constraints(
    census: SmallCensus, polytopes: SplitConstraints, level: int, x: np.ndarray, node: int
) -> bool:
    """Check a node's histogram against what the solver enforces there: zeros, totals, limits or lower bounds."""
    rules = ConstraintSystem.from_facts(census.schema, census.geography, census.invariants, census.facts)
    if x[~rules.open[level][node][rules.class_of_cell]].any():
        return False
    if level in polytopes.totals and x.sum() != polytopes.totals[level][node]:
        return False
    if polytopes.decided(level) is not LimitUse.KEPT:
        return all(x[cells].sum() >= rules.lower[level][node, b] for b, cells in enumerate(rules.bound_cells))
    held = np.zeros((polytopes.partition.n_kinds, 1), dtype=np.int64)
    inside = polytopes.partition.of_cell >= 0
    np.add.at(held[:, 0], polytopes.partition.of_cell[inside], x[inside])
    return bool(limit_excess(polytopes.limits(level, np.array([node])), held)[0] <= 0)
