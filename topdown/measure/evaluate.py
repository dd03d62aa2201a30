"""Compare a release with the confidential truth. The result is CONFIDENTIAL: it is about real errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import topdown
from topdown.frames import Source
from topdown.measure.beside_truth import BesideTruth
from topdown.measure.confidential import load_records
from topdown.measure.differences import Errors, difference, total_variation
from topdown.measure.held import intervals_held
from topdown.measure.invariant_exactness import exactness
from topdown.measure.records import PLAIN, Form
from topdown.measure.released import released_counts
from topdown.model.histogram import Histogram
from topdown.model.query import Query, parse_query
from topdown.plan.plan import Plan
from topdown.plan.prepare import load_context

HEADING = "CONFIDENTIAL - DO NOT PUBLISH"
POPULATION_BINS = ((0, 0), (1, 9), (10, 99), (100, 999), (1_000, 9_999), (10_000, None))
_MOST_ANSWERS = 16  # of a one-way table whose answers are also shown one by one


def evaluate(release: Path, truth: Source, form: Form = PLAIN) -> dict[str, object]:
    """Measure the error of a published release against the confidential records it was made from.

    Reads plan, public facts and microdata of the release, and the records; writes nothing.

    Args:
        release: folder of the release.
        truth: where the confidential records are, as given to `topdown generate`.
        form: their columns beside those of the schema.

    Returns:
        a `topdown.evaluation` document, marked confidential: for every level the error of the total, of every
        query any level measures and of every recode of the schema, and of the total by population of the
        node; how many true counts each table's intervals hold, if it has any; and the percentage of places where
        each invariant holds.

    Raises:
        ConfigError: plan or public facts are missing or altered.
        CertificateError: the microdata or a table with intervals are damaged.
        DataError: the records are not those of this geography and schema; no value of them is shown.

    Cost: about 2 s for a million people in 25,000 leaves; 24 bytes a cell with records, and what 65,536 leaves take.
    """
    context = load_context(release)
    released = released_counts(release / "microdata" / "persons.parquet", context)
    both = BesideTruth(context, released, load_records(truth, context, form).open_counts())
    queries = evaluated_queries(context.plan)
    return {
        "type": "topdown.evaluation",
        "version": 1,
        "confidential": True,
        "heading": HEADING,
        "engine": f"census-topdown {topdown.__version__}",
        "release_id": context.plan.release.id,
        "plan_hash": context.plan.plan_hash,
        "unit": context.plan.schema.unit,
        "n_records": {"released": released.n_records, "true": both.truth.n_records},
        "levels": [_level(release, both, depth, queries) for depth in range(len(context.geography.levels))],
        "invariants": exactness(both),
    }


def evaluated_queries(plan: Plan) -> tuple[Query, ...]:
    """Return the total, every query that any level measures, and every recode of the schema as a table."""
    names = ["total", *(m.query for level in plan.levels for m in level.measurements)]
    names += [recode.name for attribute in plan.schema.attributes for recode in attribute.recodes]
    return tuple(parse_query(plan.schema, name) for name in dict.fromkeys(names))


def _level(release: Path, both: BesideTruth, depth: int, queries: tuple[Query, ...]) -> dict[str, object]:
    plan, name = both.context.plan, both.context.geography.level_names[depth]
    measured = {m.query for m in plan.level(name).measurements}
    tables = [_Table(query, query.name in measured) for query in queries]
    published = {"total", *(m.query for level in plan.levels for m in level.measurements)}
    bins: dict[tuple[int, int | None], Errors] = {}
    true: dict[str, list[Histogram]] = {q.name: [] for q in queries if plan.coverage and q.name in published}
    first = 0
    for released, truth in both.stretches(depth):
        for query, table in zip(queries, tables, strict=True):
            answers = table.add(released, truth)
            if query.name in true:
                true[query.name].append(replace(answers, node=answers.node + first))
        _add_by_population(bins, released, truth)
        first += truth.n_nodes
    documents = [table.document() for table in tables]
    for query, document in zip(queries, documents, strict=True):
        if query.name in true:
            document["intervals"] = intervals_held(release, both.context, query, name, true[query.name])
    return {
        "level": name,
        "n_nodes": len(both.context.geography.levels[depth]),
        "tables": documents,
        "total_by_population": [
            {"from": low, "to": high, "n_nodes": bins[low, high].n_values} | bins[low, high].summary()
            for low, high in POPULATION_BINS
            if (low, high) in bins
        ],
    }


class _Table:
    """The errors of one query, added up."""

    def __init__(self, query: Query, measured: bool) -> None:
        self._query, self._measured = query, measured
        is_short = len(query.factors) == 1 and query.n_answers <= _MOST_ANSWERS
        self._labels = query.factors[0].group_labels if is_short else ()
        self._errors, self._answers = Errors(), [Errors() for _ in self._labels]
        self._distance, self._n_lived = 0.0, 0

    def add(self, released: Histogram, truth: Histogram) -> Histogram:
        """Add the errors of some nodes; return their true answers."""
        of_release, of_truth = released.sparse_answers(self._query), truth.sparse_answers(self._query)
        gap = difference(of_release, of_truth)
        self._errors.add(gap.count, truth.n_nodes * self._query.n_answers)
        for answer, errors in enumerate(self._answers):
            errors.add(gap.count[gap.cell == answer], truth.n_nodes)
        distance, n_lived = total_variation(of_release, of_truth)
        self._distance += distance
        self._n_lived += n_lived
        return of_truth

    def document(self) -> dict[str, object]:
        query = self._query
        table: dict[str, object] = {
            "query": query.name,
            "measured": self._measured,
            "n_answers": query.n_answers,
        }
        table |= self._errors.summary()
        table["mean_total_variation"] = self._distance / self._n_lived if self._n_lived else None
        if self._labels:
            rows = zip(self._labels, self._answers, strict=True)
            table["answers"] = [{"label": label} | errors.summary() for label, errors in rows]
        return table


def _add_by_population(
    bins: dict[tuple[int, int | None], Errors], released: Histogram, truth: Histogram
) -> None:
    people = truth.totals()
    errors = released.totals() - people
    for low, high in POPULATION_BINS:
        inside = (people >= low) & (people <= (np.iinfo(np.int64).max if high is None else high))
        if n := int(inside.sum()):
            wrong = errors[inside]
            bins.setdefault((low, high), Errors()).add(wrong[wrong != 0], n)
