"""Do public facts, lower bounds and exact totals exclude each other? Decided before any noise, in whole numbers.

A leaf's possible totals are an interval: at least its lower bounds, at most nothing or anything. Intervals add up from
the leaves; an exact total cuts one. This is the maximum flow of the tree (leaves to root, with lower bounds and
capacities), solved in closed form, so a state takes milliseconds. The conflict is then reduced by leaving out one
constraint at a time (deletion filter).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError, InfeasibleError
from topdown.model.constraint import Invariants
from topdown.model.geography import Geography
from topdown.model.public import PublicFacts
from topdown.model.schema import Schema
from topdown.plan.prepare import Context
from topdown.solve.implied.atoms import find_atoms
from topdown.solve.implied.tables import open_groups
from topdown.solve.problem import Ints

T = TypeVar("T")
_Key = tuple[str, str]
_Parts = tuple[Schema, Geography, Invariants, PublicFacts, Mapping[str, Ints]]


@dataclass(frozen=True)
class Contradiction:
    """Constraints that exclude each other at a node; each of them can be met once another is left out.

    Args:
        level, node: the lowest node where they meet.
        leaf: a leaf concerned, where the conflict is inside one leaf; else empty.
        names: of the constraints.
    """

    level: str
    node: str
    leaf: str
    names: tuple[str, ...]

    def error(self) -> InfeasibleError:
        """Return the refusal. It names constraints and the node, never an exact statistic's value."""
        n = len(self.names)
        said = "a constraint cannot be met" if n == 1 else f"{n} constraints exclude each other"
        return InfeasibleError(
            f"{said} at {self.level} {self.node}",
            code="I002",
            node=self.node,
            details=tuple(("constraint", name) for name in self.names),
            fix="correct the public facts of this area, or drop one of these constraints; nothing was spent",
        )


def contradiction(context: Context, exact_totals: Mapping[str, Ints]) -> Contradiction | None:
    """Find the smallest conflict of a plan's constraints, or None if a population satisfies them all.

    Args:
        context: plan and public facts.
        exact_totals: exact node totals by level name (`solve.exact.exact_totals`); levels whose totals are not known
            yet may be left out.

    Raises:
        ConfigError: two lower bounds share cells (C073).
    """
    plan = context.plan
    return find_contradiction(plan.schema, context.geography, plan.invariants, context.facts, exact_totals)


def find_contradiction(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact_totals: Mapping[str, Ints],
) -> Contradiction | None:
    """Do what `contradiction` does, from the parts."""
    parts = (schema, geography, invariants, facts, exact_totals)
    shared = find_atoms(schema, invariants).shared
    if shared is not None:
        raise ConfigError(
            f"lower bound {invariants.at_least[shared[1]].name!r} shares cells with another one",
            code="C073",
            fix="make the cells of lower bounds disjoint",
        )
    names = _names(invariants, exact_totals)
    found = _conflict(*parts, frozenset(names), np.arange(len(geography.leaves)), 0)
    if found is None:
        return None
    level, node = found
    leaves = np.flatnonzero(geography.ancestors_of_leaves[level] == node)
    # two orders of leaving out, because the filter's result depends on it
    filtered = [_filter(parts, order, leaves, level) for order in (list(names), list(names)[::-1])]
    smallest = min(filtered, key=len)
    code = geography.levels[level].codes[node]
    leaf = code if level == len(geography.levels) - 1 else ""
    said = tuple(name for key, name in names.items() if key in smallest)
    return Contradiction(geography.levels[level].name, code, leaf, said)


def _names(invariants: Invariants, exact_totals: Mapping[str, Ints]) -> dict[_Key, str]:
    """List the constraints that can be left out, by kind and position (exact totals: by level)."""
    names: dict[_Key, str] = {}
    for exact in invariants.exact:
        if exact.level in exact_totals:
            names.setdefault(("exact", exact.level), exact.name)
    for level in exact_totals:
        names.setdefault(("exact", level), f"exact totals of level {level}")
    names |= {("at_least", str(i)): rule.name for i, rule in enumerate(invariants.at_least)}
    names |= {("none_where_zero", str(i)): rule.name for i, rule in enumerate(invariants.none_where_zero)}
    return names | {("never", str(i)): rule.name for i, rule in enumerate(invariants.never)}


def _filter(parts: _Parts, order: Sequence[_Key], leaves: Ints, top: int) -> frozenset[_Key]:
    """Leave out constraints one at a time while the conflict stays: what remains is irreducible."""
    kept = frozenset(order)
    for key in order:
        if _conflict(*parts, kept - {key}, leaves, top) is not None:
            kept -= {key}
    return kept


def _conflict(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact_totals: Mapping[str, Ints],
    kept: frozenset[_Key],
    leaves: Ints,
    top: int,
) -> tuple[int, int] | None:
    """Find the first node of the lowest level that no population fits, with some constraints, below some nodes.

    Args:
        kept: constraints to look at.
        leaves, top: all leaves of some nodes of level `top`; levels above are not looked at.
    """
    chosen = replace(
        invariants,
        at_least=_kept(invariants.at_least, "at_least", kept),
        none_where_zero=_kept(invariants.none_where_zero, "none_where_zero", kept),
        never=_kept(invariants.never, "never", kept),
    )
    atoms = find_atoms(schema, chosen)
    here = PublicFacts({name: facts.columns[name][leaves] for name in chosen.columns})
    is_open = open_groups(atoms, chosen, here, len(leaves))
    bounds = np.zeros((len(leaves), len(chosen.at_least)), dtype=np.int64)
    for b, bound in enumerate(chosen.at_least):
        bounds[:, b] = bound.per * here.columns[bound.column]
    homeless = (bounds > 0) & ((is_open.astype(np.int64) @ atoms.bounded_by.astype(np.int64)) == 0)
    bad = homeless.any(axis=1)
    # possible totals of node i: least[i] .. most[i], or without an upper end where unlimited[i]
    node: Ints = leaves
    least: Ints = np.asarray(bounds.sum(axis=1), dtype=np.int64)
    most: Ints = np.zeros(len(leaves), dtype=np.int64)
    unlimited: NDArray[np.bool_] = np.asarray(is_open.any(axis=1))
    bad |= (least > 0) & ~unlimited
    for i in reversed(range(top, len(geography.levels))):
        level = geography.levels[i]
        if ("exact", level.name) in kept:
            total = np.take(np.asarray(exact_totals[level.name], dtype=np.int64), node)
            bad |= (total < least) | (~unlimited & (total > most))
            least, most, unlimited = total, total, np.zeros(len(node), dtype=bool)
        if bad.any():
            return i, int(node[bad.argmax()])
        above, up = np.unique(level.parent[node], return_inverse=True)
        node = above.astype(np.int64)
        least, most = _sums(least, up, len(node)), _sums(most, up, len(node))
        unlimited = _sums(unlimited.astype(np.int64), up, len(node)) > 0
        bad = np.zeros(len(node), dtype=bool)
    return None


def _sums(values: Ints, group: Ints, n_groups: int) -> Ints:
    out = np.zeros(n_groups, dtype=np.int64)
    np.add.at(out, group, values)
    return out


def _kept(rules: tuple[T, ...], kind: str, kept: frozenset[_Key]) -> tuple[T, ...]:
    return tuple(rule for i, rule in enumerate(rules) if (kind, str(i)) in kept)
