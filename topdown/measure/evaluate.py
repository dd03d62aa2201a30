"""Compare a release with the confidential truth. The result is CONFIDENTIAL: it is about real errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import topdown
from topdown.measure.confidential import load_records
from topdown.measure.differences import difference, mean_total_variation, statistics
from topdown.measure.invariant_exactness import exactness
from topdown.measure.records import PLAIN, Form
from topdown.measure.released import read_microdata
from topdown.model.histogram import Histogram
from topdown.model.query import Query, parse_query
from topdown.plan.plan import Plan
from topdown.plan.prepare import load_context

HEADING = "CONFIDENTIAL - DO NOT PUBLISH"
POPULATION_BINS = ((0, 0), (1, 9), (10, 99), (100, 999), (1_000, 9_999), (10_000, None))
_MOST_ANSWERS = 16  # of a one-way table whose answers are also shown one by one


def evaluate(release: Path, truth: Path, form: Form = PLAIN) -> dict[str, object]:
    """Measure the error of a published release against the confidential records it was made from.

    Reads plan, public facts and microdata of the release, and the records; writes nothing.

    Args:
        release: folder of the release.
        truth: the confidential records, as given to `topdown generate`.
        form: their columns beside those of the schema.

    Returns:
        a `topdown.evaluation` document, marked confidential: for every level the error of the total, of every
        query any level measures and of every recode of the schema, and of the total by population of the
        node; and the percentage of places where each invariant holds.

    Raises:
        ConfigError: plan or public facts are missing or altered.
        CertificateError: the microdata are damaged.
        DataError: the records are not those of this geography and schema; no value of them is shown.

    Cost: about 2 s for a million people in 25,000 leaves.
    """
    context = load_context(release)
    released = read_microdata(release / "microdata" / "persons.parquet", context).at_every_level(
        context.geography
    )
    true = load_records(truth, context, form).open_histogram().at_every_level(context.geography)
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
        "n_records": {"released": released[-1].n_records, "true": true[-1].n_records},
        "levels": [
            _level(context.plan, name, queries, of_release, of_truth)
            for name, of_release, of_truth in zip(context.geography.level_names, released, true, strict=True)
        ],
        "invariants": exactness(context, released, true),
    }


def evaluated_queries(plan: Plan) -> tuple[Query, ...]:
    """Return the total, every query that any level measures, and every recode of the schema as a table."""
    names = ["total", *(m.query for level in plan.levels for m in level.measurements)]
    names += [recode.name for attribute in plan.schema.attributes for recode in attribute.recodes]
    return tuple(parse_query(plan.schema, name) for name in dict.fromkeys(names))


def _level(
    plan: Plan, name: str, queries: tuple[Query, ...], released: Histogram, truth: Histogram
) -> dict[str, object]:
    measured = {m.query for m in plan.level(name).measurements}
    tables = [_table(query, query.name in measured, released, truth) for query in queries]
    return {
        "level": name,
        "n_nodes": truth.n_nodes,
        "tables": tables,
        "total_by_population": _bins(released, truth),
    }


def _table(query: Query, measured: bool, released: Histogram, truth: Histogram) -> dict[str, object]:
    of_release, of_truth = released.sparse_answers(query), truth.sparse_answers(query)
    gap = difference(of_release, of_truth)
    table: dict[str, object] = {"query": query.name, "measured": measured, "n_answers": query.n_answers}
    table |= statistics(gap.count, truth.n_nodes * query.n_answers)
    table["mean_total_variation"] = mean_total_variation(of_release, of_truth)
    if len(query.factors) == 1 and query.n_answers <= _MOST_ANSWERS:
        table["answers"] = [
            {"label": label} | statistics(gap.count[gap.cell == answer], truth.n_nodes)
            for answer, label in enumerate(query.factors[0].group_labels)
        ]
    return table


def _bins(released: Histogram, truth: Histogram) -> list[dict[str, object]]:
    people = truth.totals()
    errors = released.totals() - people
    bins = []
    for low, high in POPULATION_BINS:
        inside = (people >= low) & (people <= (np.iinfo(np.int64).max if high is None else high))
        n = int(inside.sum())
        if n:
            bins.append({"from": low, "to": high, "n_nodes": n} | statistics(errors[inside], n))
    return bins
