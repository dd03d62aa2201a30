"""All constraints of a release in one table of rules, cells and numbers, for the contradiction check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from topdown.model.cell_classes import distinct_rows, tell_apart
from topdown.model.constraint import Invariants
from topdown.model.constraint_table import CLOSING, Ints, Kind, Marks, leaf_rules
from topdown.model.feasibility import Bound, Promises, Total
from topdown.model.geography import Geography
from topdown.model.nested import nest
from topdown.model.public import PublicFacts
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
    bounds: list[Bound] = []
    totals: list[Total] = []
    everything = np.ones(schema.n_cells, dtype=bool)
    for statistic in invariants.exact:
        if statistic.name not in exact:
            continue
        depth, query = geography.index(statistic.level), parse_query(schema, statistic.query)
        answers = np.asarray(exact[statistic.name], dtype=np.int64)
        if query.factors and depth == len(geography.levels) - 1:
            bounds += [Bound(len(rules), query.labels == a, n, n) for a, n in enumerate(answers.T)]
        else:
            totals.append(Total(len(rules), depth, everything, answers.sum(axis=1)))
            if 1 < query.n_answers <= MAX_ANSWERS:
                totals += [Total(len(rules), depth, query.labels == a, n) for a, n in enumerate(answers.T)]
        rules.append(("exact", statistic.name))
    for row in leaf_rules(invariants, facts.columns, n_leaves):
        cells = schema.select(dict(row.cells))
        if row.kind in CLOSING:
            closing.append((len(rules), cells, row.high == 0))
        else:
            bounds.append(Bound(len(rules), cells, row.low, row.high))
        rules.append((row.kind, row.name))
    columns = [c for _, c, _ in closing] + [b.atoms for b in bounds] + [t.atoms for t in totals]
    atoms = tell_apart(columns, schema.n_cells)
    closes = np.zeros((len(rules), len(atoms.first)), dtype=bool)
    shut = np.zeros((n_leaves, len(rules)), dtype=bool)
    for rule, cells, where in closing:
        closes[rule], shut[:, rule] = cells[atoms.first], where
    patterns, pattern = distinct_rows(shut)
    bounds = [replace(bound, atoms=bound.atoms[atoms.first]) for bound in bounds]
    totals = [replace(total, atoms=total.atoms[atoms.first]) for total in totals]
    bounds.sort(key=lambda b: int(b.atoms.sum()))
    sets = np.array([b.atoms for b in bounds], dtype=bool).reshape(-1, len(atoms.first))
    nest(sets, [rules[b.rule][1] for b in bounds])  # refuses those that cross
    return Promises(
        geography, tuple(rules), closes, patterns, pattern, tuple(bounds), tuple(totals), np.arange(n_leaves)
    )
