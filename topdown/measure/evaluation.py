"""Compare a release with the confidential truth. The result is CONFIDENTIAL: it is about real errors.

Errors are taken a stretch of areas at a time, zeros included. The file of an evaluation is readable by its owner only,
and never inside the release it is about.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import topdown
from topdown.arrays import Bools, Ints
from topdown.errors import ConfigError
from topdown.inputs import TableSource, label_positions
from topdown.measure.confidential import load_records
from topdown.measure.record_counts import AggregatedCounts, LeafCounts
from topdown.measure.records import PLAIN_FORM, RecordsForm
from topdown.measure.released import damaged_file_error, read_table_rows, released_counts
from topdown.model import Histogram, Query, parse_query
from topdown.output_paths import refuse_needed, write_new
from topdown.plan import Plan, PublicContext, load_context

QUANTILES = (50, 90, 95, 99)


def subtract_truth(released: Histogram, truth: Histogram) -> Histogram:
    """Subtract the truth from the release, entry by entry; entries without error are dropped."""
    return Histogram.build(
        truth.n_nodes,
        truth.n_cells,
        np.concatenate([released.node, truth.node]),
        np.concatenate([released.cell, truth.cell]),
        np.concatenate([released.count, -truth.count]),
    )


class ErrorStatistics:
    """Errors of many values, taken a few at a time; kept as how often each size occurs."""

    def __init__(self) -> None:
        self._size, self._often = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._sum = self.n_values = 0

    def add(self, errors: Ints, n_values: int) -> None:
        """Take errors.

        Args:
            errors: released minus true, those that are not zero, in any order.
            n_values: how many values were compared, zeros included.
        """
        size, often = np.unique(np.abs(errors), return_counts=True)
        both = np.concatenate([self._size, size])
        self._size, place = np.unique(both, return_inverse=True)
        counts = np.concatenate([self._often, often])
        self._often = np.zeros(len(self._size), dtype=np.int64)
        np.add.at(self._often, place, counts)
        self._sum += int(errors.sum())
        self.n_values += n_values

    def summary(self) -> dict[str, object]:
        """Return n_values; mae, rmse, bias (mean signed error); l1 (sum of absolute errors); quantiles of the absolute
        error: the least value that at least that share of the values do not exceed, and the largest.
        """  # noqa: D205
        pairs = list(zip(self._size.tolist(), self._often.tolist(), strict=True))
        l1, squares = sum(s * n for s, n in pairs), sum(s * s * n for s, n in pairs)
        n = max(self.n_values, 1)
        quantiles = {str(q): self._quantile(q) for q in QUANTILES}
        return {
            "n_values": self.n_values,
            "mae": l1 / n,
            "rmse": math.sqrt(squares / n),
            "bias": self._sum / n,
            "l1": l1,
            "quantiles": quantiles | {"max": int(self._size[-1]) if pairs else 0},
        }

    def _quantile(self, percent: int) -> int:
        rank = -(-self.n_values * percent // 100)  # exact ceiling: no float decides between two values
        above = rank - (self.n_values - int(self._often.sum()))  # of the errors that are not zero, from below
        return int(self._size[np.searchsorted(np.cumsum(self._often), above)]) if above > 0 else 0


def summed_total_variation(released: Histogram, truth: Histogram) -> tuple[float, int]:
    """Add up over nodes the total variation distance between released and true shares.

    Between 0 and 1 at a node. A node with records on one side only counts 1; nodes empty on both sides do not count.

    Returns:
        the sum, and how many nodes count.
    """
    n_released, n_true = released.totals(), truth.totals()
    lived = (n_released > 0) | (n_true > 0)
    key, row = np.unique(
        np.concatenate([released.node, truth.node]) * truth.n_cells
        + np.concatenate([released.cell, truth.cell]),
        return_inverse=True,
    )
    gap = np.zeros(len(key))
    split = len(released.node)
    np.add.at(gap, row[:split], released.count / n_released[released.node])
    np.subtract.at(gap, row[split:], truth.count / n_true[truth.node])
    distance = np.zeros(truth.n_nodes)
    np.add.at(distance, key // truth.n_cells, np.abs(gap) / 2)
    distance[(n_released > 0) != (n_true > 0)] = 1.0
    return float(distance[lived].sum()), int(lived.sum())


LEAVES_AT_ONCE = 2**16  # of a stretch, about


@dataclass(frozen=True, eq=False)
class ReleaseAndTruth:
    """Counts of the leaves.

    Args:
        context: plan and public facts of the release.
        released, truth: published and true counts.
    """

    context: PublicContext
    released: LeafCounts
    truth: LeafCounts

    def stretches(self, depth: int) -> Iterator[tuple[Histogram, Histogram]]:
        """Yield released and true counts of all nodes of a level, some at a time and numbered from 0, in order."""
        tree = self.context.geography
        sides = [AggregatedCounts(tree, leaves, depth) for leaves in (self.released, self.truth)]
        for first, last in tree.stretches(depth, LEAVES_AT_ONCE):
            released, truth = (
                replace(counts, n_nodes=last - first, node=counts.node - first)
                for counts in (side.between(first, last) for side in sides)
            )
            yield released, truth


def count_coverage(
    release: Path, context: PublicContext, query: Query, level: str, truth: list[Histogram]
) -> dict[str, int]:
    """Count the rows of a published table with an interval, and those whose interval holds the true count.

    Rows that are exact by policy or by public facts are left out.

    Args:
        release: folder of a release whose plan asks for intervals. context: its plan and public facts.
        query: of a published table. level: of the table.
        truth: the query's nonzero true answers at that level, a run of nodes each, in order.

    Raises:
        CertificateError: V090 the table is damaged.
    """
    node, answer, table = read_table_rows(release, context, query, level, ("low", "high", "basis"))
    try:
        low, high = (table.column(name).cast(pa.int64()).to_numpy() for name in ("low", "high"))
        made = label_positions(table.column("basis"), ("exact", "tree")) == 1
    except pa.ArrowException as error:
        raise damaged_file_error(release / "tables", type(error).__name__, "a table with intervals") from None
    key = node * query.n_answers + answer
    known = np.concatenate([run.node * query.n_answers + run.cell for run in truth])
    true = np.concatenate([run.count for run in truth])
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    counts = np.where(known[at] == key, true[at], 0) if len(known) else np.zeros_like(key)
    held = (low <= counts) & (counts <= high) & made
    return {"n_intervals": int(made.sum()), "n_held": int(held.sum())}


def invariant_exactness(both: ReleaseAndTruth) -> dict[str, object]:
    """Check every invariant at every node it speaks of (a lower bound of 0 says nothing).

    Returns:
        percent (of all places together) and checks: name, kind, level, n_checked, n_met, percent.
    """
    context, released = both.context, both.released
    invariants = context.plan.invariants
    leaf = context.geography.leaves.name
    checks = []
    for exact in invariants.exact:
        level = context.geography.index(exact.level)
        query = context.plan.query(exact.query)
        equal = [(r.answers(query) == t.answers(query)).all(axis=1) for r, t in both.stretches(level)]
        met = np.concatenate(equal)
        checks.append(_invariant_check(exact.name, "exact", exact.level, met))
    for row in context.leaf_rows:
        held, asks = released.held(row.cells), row.asks
        met = (row.low <= held) & (held <= row.high)
        checks.append(_invariant_check(row.name, row.rule.kind, leaf, met[asks]))
    n_checked, n_met = (sum(int(str(c[key])) for c in checks) for key in ("n_checked", "n_met"))
    for soft in invariants.soft_rules:  # not promised, so not in the percentage of all
        weights = soft.weights(context.plan.schema)
        sums = np.zeros(released.n_nodes, dtype=np.int64)
        for weight in np.unique(weights):
            sums += weight * released.held(weights == weight)
        checks.append(_invariant_check(soft.name, soft.kind, leaf, sums <= 0))
    return {"percent": _percent_met(n_met, n_checked), "checks": checks}


def _invariant_check(name: str, kind: str, level: str, met: Bools) -> dict[str, object]:
    n_checked, n_met = len(met), int(met.sum())
    percent = _percent_met(n_met, n_checked)
    return {
        "name": name,
        "kind": kind,
        "level": level,
        "n_checked": n_checked,
        "n_met": n_met,
        "percent": percent,
    }


def _percent_met(n_met: int, n_checked: int) -> float:
    return 100.0 if n_met == n_checked else min(100 * n_met / n_checked, 99.999)


HEADING = "CONFIDENTIAL - DO NOT PUBLISH"
POPULATION_BINS = ((0, 0), (1, 9), (10, 99), (100, 999), (1_000, 9_999), (10_000, None))
_MOST_ANSWERS = 16  # of a one-way table whose answers are also shown one by one


def evaluate(release: Path, truth: TableSource, form: RecordsForm = PLAIN_FORM) -> dict[str, object]:
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
    both = ReleaseAndTruth(context, released, load_records(truth, context, form).open_counts())
    queries = evaluated_queries(context.plan)
    return {
        "type": "topdown.evaluation",
        "version": 1,
        "confidential": True,
        "heading": HEADING,
        "engine": f"census-topdown {topdown.__version__}",
        "release_id": context.plan.release.id,
        "plan_hash": context.plan.plan_hash,
        "unit": context.plan.schema.record,
        "n_records": {"released": released.n_records, "true": both.truth.n_records},
        "levels": [
            _evaluate_level(release, both, depth, queries) for depth in range(len(context.geography.levels))
        ],
        "invariants": invariant_exactness(both),
    }


def evaluated_queries(plan: Plan) -> tuple[Query, ...]:
    """Return the total, every query that any level measures, and every recode of the schema as a table."""
    names = ["total", *(m.query for level in plan.levels for m in level.measurements)]
    names += [recode.name for attribute in plan.schema.attributes for recode in attribute.recodes]
    return tuple(parse_query(plan.schema, name) for name in dict.fromkeys(names))


def _evaluate_level(
    release: Path, both: ReleaseAndTruth, depth: int, queries: tuple[Query, ...]
) -> dict[str, object]:
    plan, name = both.context.plan, both.context.geography.level_names[depth]
    measured = {m.query for m in plan.level(name).measurements}
    tables = [_TableErrors(query, query.name in measured) for query in queries]
    published = {"total", *(m.query for level in plan.levels for m in level.measurements)}
    bins: dict[tuple[int, int | None], ErrorStatistics] = {}
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
            document["intervals"] = count_coverage(release, both.context, query, name, true[query.name])
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


class _TableErrors:
    """The errors of one query, added up."""

    def __init__(self, query: Query, measured: bool) -> None:
        self._query, self._measured = query, measured
        is_short = len(query.factors) == 1 and query.n_answers <= _MOST_ANSWERS
        self._labels = query.factors[0].group_labels if is_short else ()
        self._errors, self._answers = ErrorStatistics(), [ErrorStatistics() for _ in self._labels]
        self._distance, self._n_lived = 0.0, 0

    def add(self, released: Histogram, truth: Histogram) -> Histogram:
        """Add the errors of some nodes; return their true answers."""
        of_release, of_truth = released.sparse_answers(self._query), truth.sparse_answers(self._query)
        gap = subtract_truth(of_release, of_truth)
        self._errors.add(gap.count, truth.n_nodes * self._query.n_answers)
        for answer, errors in enumerate(self._answers):
            errors.add(gap.count[gap.cell == answer], truth.n_nodes)
        distance, n_lived = summed_total_variation(of_release, of_truth)
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
    bins: dict[tuple[int, int | None], ErrorStatistics], released: Histogram, truth: Histogram
) -> None:
    people = truth.totals()
    errors = released.totals() - people
    for low, high in POPULATION_BINS:
        inside = (people >= low) & (people <= (np.iinfo(np.int64).max if high is None else high))
        if n := int(inside.sum()):
            wrong = errors[inside]
            bins.setdefault((low, high), ErrorStatistics()).add(wrong[wrong != 0], n)


def write_evaluation(
    document: dict[str, Any], out: Path, release: Path, *, truth: Path | None = None, force: bool = False
) -> None:
    """Write the document as JSON, readable by its owner only.

    Raises:
        ConfigError: `out` lies inside the release folder, where it could be published (C067); it is the truth
            (C132), or exists and `force` is not given (C080).
    """
    if out.resolve().is_relative_to(release.resolve()):
        raise ConfigError(
            f"{out} lies inside the release; an evaluation is confidential and must not be published with it",
            code="C067",
            file=str(out),
            fix="write it to another folder",
        )
    refuse_needed(out, "--out", () if truth is None else (truth,))
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_new(out, text.encode("utf-8"), force=force, mode=0o600)
