"""All constraints of a release in one table of rules, cells and numbers, for the contradiction check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

import numpy as np

from topdown.model.cell_classes import distinct_rows, tell_apart
from topdown.model.constraint import Invariants
from topdown.model.constraint_table import CLOSING, Ints, Kind, Marks, exact_rows, leaf_rows
from topdown.model.feasibility import Bound, Promises, Total
from topdown.model.geography import Geography
from topdown.model.nested import nest
from topdown.model.public import PublicFacts
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
    leaf, n_leaves = len(geography.levels) - 1, len(geography.leaves)
    rules: list[tuple[Kind, str]] = []
    closing: list[tuple[int, Marks, Marks]] = []
    bounds: list[Bound] = []
    totals: list[Total] = []
    everybody = np.ones(schema.n_cells, dtype=bool)
    rows = (
        *exact_rows(schema, invariants, exact, geography),
        *leaf_rows(schema, invariants, facts.columns, geography),
    )
    for _, group in groupby(rows, key=lambda row: id(row.rule)):
        answers, rule = tuple(group), len(rules)
        kind, depth = answers[0].kind, answers[0].depth
        rules.append((kind, answers[0].name))
        if kind in CLOSING:
            closing += [(rule, row.cells, row.high == 0) for row in answers]
        elif kind != "exact" or (depth == leaf and len(answers) > 1):
            bounds += [Bound(rule, row.cells, row) for row in answers]
        else:
            totals.append(Total(rule, depth, everybody, np.sum([row.low for row in answers], axis=0)))
            if 1 < len(answers) <= MAX_ANSWERS:
                totals += [Total(rule, depth, row.cells, row.low) for row in answers]
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
