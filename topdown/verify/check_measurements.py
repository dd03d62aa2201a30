"""Checks `measurements` and `measured`: every planned number is there, with its variance, under its own plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.formats.release_documents import Plan, PlanMeasurement
from topdown.formats.verify_documents import Finding
from topdown.verify.exact_arithmetic import fraction
from topdown.verify.findings import Findings
from topdown.verify.noise_laws import law_named
from topdown.verify.packed_answers import LIST_OF_ANSWERS, KnownRows
from topdown.verify.plan_reader import canonical, load_plan
from topdown.verify.released_records import open_kinds
from topdown.verify.session import FOLDER, MEASURED_PLAN, Session, level_parts
from topdown.verify.strict_parquet import TEXT, WHOLE, ParquetTable, TableForm, int64_array, label_positions
from topdown.verify.strict_reader import UnreadableError, unreadable

CODE = "V181"
HOW_SOLVED = ("passes", "rounding")  # of a level

_WHY = (
    "the noise would be read as answers to other questions, or the release would promise what nobody measured"
)


def check_measured(session: Session, out: Findings) -> str:
    """Read the plan that was measured, and compare it with this one key by key."""
    measured = session.plan.measured
    first = session.once("measured plan", "measured", lambda: load_plan(session.root, MEASURED_PLAN, CODE))
    if measured is None:
        return "measured under this plan"
    name = first.doc.release.id
    _expect_same(out, "the hash of the plan that was measured", measured.plan_hash, first.computed_hash)
    _expect_same(out, "the hash stated in it", first.computed_hash, first.doc.plan_hash)
    _expect_same(out, "the id of the release that was measured", measured.release, name)
    before, after = _what_is_measured(first.doc), _what_is_measured(session.plan.doc)
    for key in sorted({*before, *after}):
        _expect_same(out, f"its {key}", before.get(key), after.get(key))
    out.n_checked += 1
    if not session.plan.doc.release.id.startswith(f"{name}-") or first.measured is not None:
        text = f"the release does not bear the name of the release {name[:80]!r}, which was measured"
        out.add(Finding(CODE, text, file="plan.json", why=_WHY))
    if out.ok:
        return f"solves the measurement of {name}, plan {first.computed_hash[:8]}, and asks for nothing else"
    return f"{out.n_failed} of {out.n_checked} values are not those that were measured"


def _what_is_measured(doc: Plan) -> dict[str, Any]:
    """Return what decides a measurement and what is said of it: all of a plan but its names and how it is solved."""
    found: dict[str, Any] = msgspec.to_builtins(doc)
    for key in ("settings", "estimates", "measured", "plan_hash"):
        found.pop(key, None)
    found["release"].pop("id")
    for level in found["levels"]:
        for key in HOW_SOLVED:
            level.pop(key)
    return found


def _expect_same(out: Findings, what: str, expected: Any, found: Any) -> None:
    out.n_checked += 1
    if canonical(expected) != canonical(found):
        shown = [canonical(value).decode()[:80] for value in (expected, found)]
        text = f"{what} is not what was measured"
        out.add(Finding(CODE, text, "plan.json", None, None, shown[0], shown[1], _WHY))


COLUMNS = {
    "level": TEXT,
    "node": TEXT,
    "query": TEXT,
    "answers": LIST_OF_ANSWERS,
    "variance_numerator": WHOLE,
    "variance_denominator": WHOLE,
}

BATCH_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class _ExpectedRows:
    """What the rows of one level must say: row r is node `nodes[r // n]`, query `r % n`.

    `lengths` are the answers of each row, or of each query where all nodes have as many.
    """

    level: int
    nodes: Ints
    queries: pa.Array
    lengths: Ints
    numerator: Ints
    denominator: Ints

    @property
    def n_rows(self) -> int:
        """Return how many rows there are."""
        return len(self.nodes) * len(self.queries)

    def lengths_at(self, first: int, last: int) -> Ints:
        """Return the answers of rows first..last-1."""
        if len(self.lengths) == self.n_rows:
            return self.lengths[first:last]
        return self.lengths[np.arange(first, last) % len(self.queries)]

    @property
    def n_answers(self) -> int:
        """Return the answers of all rows."""
        every = int(self.lengths.sum())
        return every if len(self.lengths) == self.n_rows else every * len(self.nodes)


def check_measurements(session: Session, out: Findings) -> str:
    """Compare every row of the measurement files with what the plan says of it: area, query, answers, variance.

    Measured are the areas where public facts let somebody be, each by all queries of its level. In an extension an
    area has answers only where its base table has records, which is counted again here. Every page is read, so that
    damage shows.
    """
    plan, tree, base = session.plan, session.tree, session.base
    kinds = None if base is None else open_kinds(plan, tree)
    n_areas = n_numbers = 0
    for i, level in enumerate(plan.doc.levels):
        nodes = np.flatnonzero(session.is_measured[i])
        queries = [plan.queries[m.query] for m in level.measurements]
        lengths = None if base is None or kinds is None else base.lengths(kinds, tree, i, nodes, queries)
        expected = _expected_rows(i, nodes, level.measurements, lengths)
        out.n_checked += expected.n_rows
        n_areas, n_numbers = n_areas + len(nodes), n_numbers + expected.n_answers
        if plan.base is not None and (stated := plan.base.n_numbers[i : i + 1]) != [expected.n_answers]:
            text = (
                f"the base release leaves open another number of answers at {level.name} than the plan states"
            )
            shown = f"{expected.n_answers:,}", str(stated[:1])
            out.add(Finding("V165", text, "plan.json", None, None, *shown))
        try:
            _check_level_files(session, expected, level.name, out)
        except UnreadableError as error:
            out.add(error.finding)
    if out.ok:
        return f"{n_areas:,} areas, {n_numbers:,} numbers, variances as planned"
    return f"{out.n_failed} problems in the measurement files"


def _expected_rows(
    level: int, nodes: Ints, measurements: Sequence[PlanMeasurement], lengths: Ints | None
) -> _ExpectedRows:
    """Say what the rows hold; `lengths` is (nodes, queries) in an extension, where answers are listed sparsely."""
    variances = [law_named(m.law).variance(fraction(m.parameter), m.weights or ()) for m in measurements]
    parts = [v.as_integer_ratio() for v in variances]
    if any(max(pair) >= 2**63 for pair in parts):
        raise unreadable("V033", "plan.json", "has a variance that no measurement file can hold")
    n_answers = np.array([m.n_answers for m in measurements], dtype=np.int64)
    return _ExpectedRows(
        level,
        nodes,
        pa.array([m.query for m in measurements], TEXT),
        n_answers if lengths is None else lengths.reshape(-1),
        np.array([n for n, _ in parts], dtype=np.int64),
        np.array([d for _, d in parts], dtype=np.int64),
    )


def _check_level_files(session: Session, expected: _ExpectedRows, name: str, out: Findings) -> None:
    paths = level_parts(session, name)
    numbered = [f"{FOLDER}/{name}/part-{i:03d}.parquet" for i in range(len(paths))]
    if paths != numbered or (len(expected.nodes) and not paths):
        text = f"the parts of {name} are not numbered from 000 without a gap"
        out.add(Finding("V030", text, file=f"{FOLDER}/{name}", why="a part is missing or was added"))
        return
    n_queries = len(expected.queries)
    left = expected.n_rows
    start, answers_left = 0, expected.n_answers
    names = json.dumps(expected.queries.to_pylist(), ensure_ascii=False)
    stamps = session.plan.stamps | {"plan_hash": session.plan.measured_hash, "level": name, "queries": names}
    for path in paths:
        table = ParquetTable(
            session.root,
            path,
            "V030",
            TableForm("topdown.measurements", COLUMNS, stamps, is_nullable=False),
            left - start,
            answers_left + left,
            is_own=session.is_own(path),
        )
        if table.n_rows % n_queries or table.rows % n_queries:
            out.add(Finding("V031", f"{path} does not hold whole nodes", file=path))
        row = start
        if table.is_as_known(partial(_known_rows, session, expected, start)):
            row += table.n_rows
            table.close()
        else:
            for batch in table.batches(BATCH_ROWS):
                _check_batch(session, expected, batch, path, row, start, out)
                row += batch.num_rows
        if row - start != table.n_rows:
            raise unreadable("V030", path, "has other row counts than its footer says")
        answers_left -= int(expected.lengths_at(start, row).sum())
        start = row
    if start != left:
        n = f"{start:,} rows"
        text = f"the measurements of {name} are not complete"
        out.add(
            Finding("V031", text, f"{FOLDER}/{name}", None, None, f"{left:,} rows", n, "rows were removed")
        )


def _known_rows(session: Session, expected: _ExpectedRows, start: int, first: int, last: int) -> KnownRows:
    """Return what rows `first` .. `last` - 1 of a part that begins at row `start` must say."""
    area, query = np.divmod(np.arange(start + first, start + last), len(expected.queries))
    tree, level = session.tree, expected.level
    columns = {
        "level": pa.repeat(tree.names[level], last - first),
        "node": tree.geocodes[level].take(pa.array(expected.nodes[area])),
        "query": expected.queries.take(pa.array(query)),
        "variance_numerator": pa.array(expected.numerator[query]),
        "variance_denominator": pa.array(expected.denominator[query]),
    }
    return KnownRows(columns, expected.lengths_at(start + first, start + last))


def _check_batch(
    session: Session, expected: _ExpectedRows, batch: Any, path: str, row: int, first: int, out: Findings
) -> None:
    tree, n_queries = session.tree, len(expected.queries)
    here = np.arange(row, row + batch.num_rows)
    area, query = np.divmod(here, n_queries)
    nodes = expected.nodes[row // n_queries : -(-(row + batch.num_rows) // n_queries)]
    # looking texts up among all areas would cost all areas
    geocodes = tree.geocodes[expected.level].take(pa.array(nodes))
    levels = label_positions(batch.column("level"), pa.array([tree.names[expected.level]], TEXT))
    places = label_positions(batch.column("node"), geocodes)
    offsets = batch.column("answers").offsets.to_numpy().astype(np.int64)
    rows = here - first
    lengths = expected.lengths_at(row, row + batch.num_rows)
    _compare_rows(out, "V031", path, rows, "level", levels == 0)
    _compare_rows(out, "V031", path, rows, "node", places == area - row // n_queries)
    _compare_rows(
        out, "V031", path, rows, "query", label_positions(batch.column("query"), expected.queries) == query
    )
    _compare_rows(out, "V032", path, rows, "number of answers", np.diff(offsets) == lengths)
    top = int64_array(batch.column("variance_numerator"))
    bottom = int64_array(batch.column("variance_denominator"))
    same = (top == expected.numerator[query]) & (bottom == expected.denominator[query])
    _compare_rows(out, "V033", path, rows, "variance", same)


def _compare_rows(
    out: Findings, code: str, path: str, rows: Ints, what: str, same: NDArray[np.bool_]
) -> None:
    if same.all():
        return
    wrong = np.flatnonzero(~same)
    text = f"{path} has the wrong {what} in {len(wrong):,} rows"
    why = "measurements were changed, removed, added or put in another order"
    out.add_many(len(wrong), [Finding(code, text, path, int(rows[wrong[0]]) + 1, why=why)])
