"""All constraints of a release in one table of rules, cells and numbers, for the contradiction check."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topdown.model.constraint import Invariants
from topdown.model.constraint_table import CLOSING, Ints, Kind, Marks, leaf_rules
from topdown.model.feasibility import Bound, Promises, Total
from topdown.model.geography import Geography
from topdown.model.nested import nest
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
    for row in leaf_rules(invariants, facts.columns, n_leaves):
        cells = schema.select(dict(row.cells))
        if row.kind in CLOSING:
            closing.append((len(rules), cells, row.high == 0))
        else:
            bounding.append((len(rules), cells, row.low, row.high))
        rules.append((row.kind, row.name))
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
    nest(
        np.array([b.atoms for b in bounds], bool).reshape(-1, len(atoms)), [rules[b.rule][1] for b in bounds]
    )
    return Promises(
        geography, tuple(rules), closes, patterns, pattern, tuple(bounds), tuple(asked), np.arange(n_leaves)
    )
