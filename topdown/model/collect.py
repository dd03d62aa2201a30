"""All constraints of a release in one table of rules, cells and numbers, for the contradiction check."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topdown.errors import ConfigError
from topdown.model.constraint import Invariants
from topdown.model.feasibility import Bound, Ints, Kind, Marks, Promises, Total
from topdown.model.geography import Geography
from topdown.model.kinds import NO_LIMIT
from topdown.model.public import PublicFacts, classes
from topdown.model.query import parse_query
from topdown.model.schema import Schema

MAX_ANSWERS = 64  # of an exact table above the leaves; each takes a pass over the tree


def state(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact: Mapping[str, Ints],
) -> Promises:
    """Put the constraints of a release together.

    Args:
        schema, geography, invariants, facts: of the release.
        exact: answers of the exact statistics that are known, int64 (n_nodes, n_answers), by name. A table above the
            leaves with more than `MAX_ANSWERS` answers counts with its total only.

    Raises:
        ConfigError: two bounds share cells and neither's hold the other's (C073).
    """
    n_leaves = len(geography.leaves)
    rules: list[tuple[Kind, str]] = []
    closing: list[tuple[int, Marks, Marks]] = []
    bounding: list[tuple[int, Marks, Ints, Ints]] = []
    totals: list[tuple[int, int, Marks, Ints]] = []
    everything = np.ones(schema.n_cells, dtype=bool)
    nothing, boundless = np.zeros(n_leaves, dtype=np.int64), np.full(n_leaves, NO_LIMIT, dtype=np.int64)
    for statistic in invariants.exact:
        if statistic.name not in exact:
            continue
        depth, query = geography.index(statistic.level), parse_query(schema, statistic.query)
        answers = np.asarray(exact[statistic.name], dtype=np.int64)
        if query.factors and depth == len(geography.levels) - 1:
            bounding += [(len(rules), query.labels == a, n, n) for a, n in enumerate(answers.T)]
        else:
            totals.append((len(rules), depth, everything, answers.sum(axis=1)))
            if 1 < query.n_answers <= MAX_ANSWERS:
                chosen = [query.labels == a for a in range(query.n_answers)]
                totals += [(len(rules), depth, c, n) for c, n in zip(chosen, answers.T, strict=True)]
        rules.append(("exact", statistic.name))
    for least in invariants.at_least:
        people = least.per * facts.columns[least.column]
        bounding.append((len(rules), schema.select(dict(least.cells)), people, boundless))
        rules.append(("at_least", least.name))
    for most in invariants.at_most:
        people = most.per * facts.columns[most.column]
        bounding.append((len(rules), schema.select(dict(most.cells)), nothing, people))
        rules.append(("at_most", most.name))
    for zero in invariants.none_where_zero:
        where = np.all([facts.columns[c] == 0 for c in zero.columns], axis=0)
        closing.append((len(rules), schema.select(dict(zero.cells)), where))
        rules.append(("none_where_zero", zero.name))
    for never in invariants.never:
        closing.append((len(rules), schema.select(dict(never.cells)), np.ones(n_leaves, dtype=bool)))
        rules.append(("never", never.name))
    columns = [cells for _, cells, _ in closing] + [cells for _, cells, _, _ in bounding]
    columns += [cells for _, _, cells, _ in totals]
    signature = np.stack(columns, axis=1) if columns else np.zeros((schema.n_cells, 0), dtype=bool)
    atoms, _ = classes(signature)
    closes = np.zeros((len(rules), len(atoms)), dtype=bool)
    shut = np.zeros((n_leaves, len(rules)), dtype=bool)
    for i, (rule, _, where) in enumerate(closing):
        closes[rule], shut[:, rule] = atoms[:, i], where
    patterns, pattern = classes(shut)
    bounds = [
        Bound(rule, atoms[:, len(closing) + i], low, high) for i, (rule, _, low, high) in enumerate(bounding)
    ]
    asked = [
        Total(rule, depth, atoms[:, len(closing) + len(bounding) + i], values)
        for i, (rule, depth, _, values) in enumerate(totals)
    ]
    bounds.sort(key=lambda b: int(b.atoms.sum()))
    _check_nested(bounds, rules)
    return Promises(
        geography, tuple(rules), closes, patterns, pattern, tuple(bounds), tuple(asked), np.arange(n_leaves)
    )


def _check_nested(bounds: list[Bound], rules: list[tuple[Kind, str]]) -> None:
    for i, large in enumerate(bounds):
        for small in bounds[:i]:
            both = small.atoms & large.atoms
            if both.any() and not np.array_equal(both, small.atoms):
                raise ConfigError(
                    f"bounds {rules[small.rule][1]!r} and {rules[large.rule][1]!r} share some cells, but neither's "
                    "hold the other's",
                    code="C073",
                    fix="make the cells of bounds nested or disjoint",
                )
