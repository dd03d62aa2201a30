"""Read anew what an extension carries of its base release, and what that leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topdown.model.query import Query, parse_query
from topdown.publish.verify.areas import tree_of_section
from topdown.publish.verify.arithmetic import Whole, fits
from topdown.publish.verify.cuts import Cuts
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.population import Population, all_of, load_population
from topdown.publish.verify.reader import unreadable
from topdown.publish.verify.tree import Tree, closed_leaves

PLAN, MANIFEST, TABLE = ("base/plan.json", "base/manifest.json", "base/persons.parquet")
LEAVES = "public/leaves.parquet"
OpenKinds = tuple[Whole, NDArray[np.bool_]]  # kind of every cell; (n_leaves, n_kinds)
RENUMBER = 30  # rules between two renumberings: up to 2^31 kinds times 2^30 fit a whole number


@dataclass(frozen=True, eq=False)
class BaseTable:
    """The base release as an extension carries it.

    Args:
        plan: the base's plan.
        population: the base's microdata on the extension's leaves.
        of_cell: base cell of every cell of the extension.
    """

    plan: PlanFile
    population: Population
    of_cell: Whole

    def inhabited(self, tree: Tree) -> tuple[NDArray[np.bool_], ...]:
        """Mark, per level, the nodes where the base has records."""
        out = []
        for up, geocodes in zip(tree.ancestors, tree.geocodes, strict=True):
            here = np.zeros(len(geocodes), dtype=bool)
            here[up[self.population.leaf]] = True
            out.append(here)
        return tuple(out)

    @cached_property
    def _cells_of(self) -> tuple[Whole, Whole]:
        order = np.argsort(self.of_cell, kind="stable")
        return order, np.searchsorted(self.of_cell[order], np.arange(self.plan.schema.n_cells + 1))

    def lengths(self, rules: OpenKinds, tree: Tree, level: int, nodes: Whole, queries: list[Query]) -> Whole:
        """Return how many answers of each query have an open cell at each node: (len(nodes), len(queries)).

        A cell is open at a node if the base has records in its base cell there and no constraint closes it at
        all of the node's leaves.

        Args:
            rules: see `open_kinds`.
        """
        kind, open_leaf = rules
        up = tree.ancestors[level]
        opened = np.zeros((len(tree.geocodes[level]), open_leaf.shape[1]), dtype=bool)
        np.logical_or.at(opened, up, open_leaf)
        pairs = np.unique(up[self.population.leaf] * self.plan.schema.n_cells + self.population.cell)
        at, base_cell = np.divmod(pairs, self.plan.schema.n_cells)
        order, first = self._cells_of
        out = np.zeros((len(nodes), len(queries)), dtype=np.int64)
        for i, node in enumerate(nodes):
            p, q = np.searchsorted(at, (node, node + 1))
            cells = np.concatenate([order[first[b] : first[b + 1]] for b in base_cell[p:q]])
            cells = cells[opened[node, kind[cells]]]
            for k, query in enumerate(queries):
                seen = np.zeros(query.n_answers, dtype=bool)
                seen[query.labels[cells]] = True
                out[i, k] = np.count_nonzero(seen)
        return out


def tables_of_base(tree: Tree, cuts: Cuts) -> list[str]:
    """Return the files of the base's microdata: its tree is that of the extension, and is cut like it."""
    return cuts.paths(TABLE, len(tree.names) - 1)


def leaves_of(plan: str) -> str:
    """Return where the public facts are carried that the plan at a path was made from."""
    return f"{plan.removesuffix('plan.json')}{LEAVES}"


def open_kinds(plan: PlanFile, tree: Tree) -> OpenKinds:
    """Return the kind of every cell, and which kinds are open at each leaf.

    Cells that the same rules close are of one kind; kind 0 holds the structural zeros.
    """
    schema, rules = plan.schema, plan.doc.invariants
    kind = np.ones(schema.n_cells, dtype=np.int64)
    for i, rule in enumerate(rules.none_where_zero):
        kind = 2 * kind + schema.select(dict(rule.cells))
        if (
            i % RENUMBER == RENUMBER - 1
        ):  # before the numbers are too long; sorting a million cells takes a while
            kind = np.unique(kind, return_inverse=True)[1].reshape(-1) + 1
    kind = np.unique(kind, return_inverse=True)[1].reshape(-1) + 1
    for never in rules.never:
        kind[schema.select(dict(never.cells))] = 0
    open_leaf = np.ones((tree.n_leaves, int(kind.max()) + 1), dtype=bool)
    open_leaf[:, 0] = False
    example = np.zeros(open_leaf.shape[1], dtype=np.int64)
    example[kind] = np.arange(schema.n_cells)
    for rule in rules.none_where_zero:
        inside = schema.select(dict(rule.cells))[example]
        open_leaf[np.ix_(closed_leaves(tree, rule.columns), inside)] = False
    return kind, open_leaf


def _population(root: Path, base: PlanFile, tree: Tree, cuts: Cuts) -> Population:
    if cuts.n_sections == 1:
        return load_population(root, base, tree, TABLE, "V160")
    parts = []
    for number, path in enumerate(tables_of_base(tree, cuts)):
        here, first = tree_of_section(tree, cuts, number)
        found = load_population(root, base, here, path, "V160")
        if (found.leaf < 0).any():
            raise unreadable("V160", path, "has records outside of its section")
        parts.append((first[-1], found))
    return all_of(parts)


def load_base(root: Path, plan: PlanFile, base: PlanFile, tree: Tree, cuts: Cuts) -> BaseTable:
    """Read base/; UnreadableError (V160) if it is damaged or does not fit the plan."""
    stated = plan.doc.base
    population = _population(root, base, tree, cuts)
    if stated is None or (population.leaf < 0).any() or (population.cell < 0).any():
        raise unreadable("V160", TABLE, "has records in places or cells that the plans do not know")
    if not fits(population.count) or (population.count <= 0).any():
        raise unreadable("V160", TABLE, "has counts that are not above zero, or too large to add up")
    if [name for name, _ in stated.map] != [a.name for a in base.schema.attributes]:
        raise unreadable("V160", "plan.json", "does not map every attribute of the base schema, in order")
    of_cell = np.zeros(plan.schema.shape, dtype=np.int64)
    names = [a.name for a in plan.schema.attributes]
    used: set[str] = set()
    for attribute, (_, ours) in zip(base.schema.attributes, stated.map, strict=True):
        factors = parse_query(plan.schema, ours).factors
        if len(factors) != 1 or factors[0].attribute in used:
            raise unreadable("V160", "plan.json", f"maps a base attribute to {ours!r}, which cannot be")
        factor = factors[0]
        used.add(factor.attribute)
        if sorted(factor.group_labels) != sorted(attribute.labels):
            raise unreadable(
                "V160", "plan.json", f"maps {attribute.name!r} to {ours!r}, which has other values"
            )
        value = np.array([attribute.labels.index(factor.group_labels[g]) for g in factor.group_of])
        axis = [1] * len(names)
        axis[names.index(factor.attribute)] = len(value)
        of_cell = of_cell * len(attribute.labels) + value.reshape(axis)
    return BaseTable(base, population, of_cell.reshape(-1))
