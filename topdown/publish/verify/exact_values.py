"""Read the exact statistics anew: exact.json, and the tables beside it of those that are of many areas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from topdown.model.query import Query
from topdown.publish.verify.arithmetic import Whole
from topdown.publish.verify.parquet_file import TEXT, WHOLE, ParquetTable
from topdown.publish.verify.reader import UnreadableError, read_json, unreadable
from topdown.publish.verify.result import Finding
from topdown.publish.verify.session import Session

EXACT = "measurements/exact.json"
MOST_LISTED = 100_000  # areas of a statistic without a table of its own
BATCH_ANSWERS = 1 << 20
_COLUMNS = {"geocode": TEXT, "answers": pa.list_(WHOLE)}


class StatedExact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One statistic that is exact by policy: at every node of its level, or in which table."""

    name: str
    level: str
    query: str
    nodes: tuple[str, ...] | UnsetType = UNSET
    answers: tuple[tuple[int, ...], ...] | UnsetType = UNSET
    file: str | UnsetType = UNSET
    sha256: str | UnsetType = UNSET


@dataclass(frozen=True, eq=False)
class ExactValues:
    """An exact statistic and the nodes of its level that it lists, in order.

    Args:
        stated: what exact.json says of it.
        level: index of its level.
        nodes: indices, increasing.
        answers: of each node, shape (n, n_answers).
    """

    stated: StatedExact
    level: int
    nodes: Whole
    answers: Whole


def exact_tables(session: Session) -> list[str]:
    """Return the paths of the tables beside exact.json, by the plan alone."""
    sizes = {level.name: level.n_nodes for level in session.plan.doc.levels}
    rules = enumerate(session.plan.doc.invariants.exact)
    return [_path(number) for number, rule in rules if sizes.get(rule.level, 0) > MOST_LISTED]


def _path(number: int) -> str:
    return f"measurements/exact-{number:03d}.parquet"


def stated_exact(session: Session) -> tuple[StatedExact, ...]:
    """Return what exact.json holds; NotAvailableError (V105) if it is damaged."""

    def load() -> tuple[StatedExact, ...]:
        document = read_json(session.root, EXACT, "V105", "topdown.exact")
        if document.get("plan_hash", session.plan.measured_hash) != session.plan.measured_hash:
            raise unreadable("V105", EXACT, "belongs to another plan")
        try:
            return msgspec.convert(document.get("values"), tuple[StatedExact, ...], strict=True)
        except (ValueError, TypeError) as error:
            raise unreadable("V105", EXACT, f"is not as documented: {str(error)[:120]}") from None

    return session.once("exact", "exact statistics", load)


def exact_values(session: Session) -> list[ExactValues]:
    """Return the statistics that list the right nodes; NotAvailableError (V105) if a table is damaged or another."""

    def load() -> list[ExactValues]:
        tree, found, tables = session.tree, [], exact_tables(session)
        for number, stated in enumerate(stated_exact(session)):
            if stated.level not in tree.names or stated.query not in session.plan.queries:
                continue
            level, query = tree.names.index(stated.level), session.plan.queries[stated.query]
            if _path(number) in tables:
                answers = _from_table(session, number, stated, query)
                found.append(ExactValues(stated, level, np.arange(len(answers)), answers))
            elif (listed := _listed(session, stated, level, query)) is not None:
                found.append(listed)
        return found

    return session.once("listed exact statistics", "exact statistics", load)


def _listed(session: Session, stated: StatedExact, level: int, query: Query) -> ExactValues | None:
    """Return a statistic that exact.json lists itself; None if it does not list the right nodes."""
    if not isinstance(stated.nodes, tuple) or not isinstance(stated.answers, tuple):
        raise unreadable("V105", EXACT, f"is not as documented: it does not list {stated.name!r}")
    if stated.file is not UNSET or stated.sha256 is not UNSET:
        raise unreadable("V105", EXACT, f"is not as documented: {stated.name!r} is in a file")
    place = {code: i for i, code in enumerate(session.tree.geocodes[level].to_pylist())}
    nodes = np.array([place.get(code, -1) for code in stated.nodes], dtype=np.int64)
    missing = np.setdiff1d(np.flatnonzero(session.marks[level]), nodes)
    ordered = not (np.diff(nodes, prepend=-1) <= 0).any()
    lengths = {len(a) for a in stated.answers} - {query.n_answers}
    if len(nodes) != len(stated.answers) or not ordered or len(missing) or lengths:
        return None
    try:
        answers = np.array(stated.answers, dtype=np.int64).reshape(-1, query.n_answers)
    except OverflowError:
        raise unreadable("V105", EXACT, f"has a number that no count can be in {stated.name!r}") from None
    return ExactValues(stated, level, nodes, answers)


def _from_table(session: Session, number: int, stated: StatedExact, query: Query) -> Whole:
    """Read a table: the one that exact.json names, every node of the level once, in order, whole numbers from 0."""
    path, geocodes = _path(number), session.tree.geocodes[session.tree.names.index(stated.level)]
    inside = stated.nodes is not UNSET or stated.answers is not UNSET
    if inside or stated.file != path.rpartition("/")[2]:
        raise unreadable("V105", EXACT, f"is not as documented: {stated.name!r} is not in {path}")
    sha256 = session.sha256(path)
    if sha256 and sha256 != stated.sha256:
        raise unreadable("V105", path, "is not the file that exact.json names")
    more = {"name": stated.name, "level": stated.level, "query": stated.query}
    stamps = session.plan.stamps | {"plan_hash": session.plan.measured_hash} | more
    most = len(geocodes) * query.n_answers
    kind = "topdown.exact_answers"
    table = ParquetTable(session.root, path, "V105", kind, _COLUMNS, len(geocodes), stamps, most)
    out, row = np.empty((len(geocodes), query.n_answers), dtype=np.int64), 0
    for batch in table.batches(max(BATCH_ANSWERS // max(query.n_answers, 8), 1)):
        here = geocodes.slice(row, batch.num_rows)
        if len(here) < batch.num_rows:
            break
        out[row : row + len(here)] = _answers(path, batch, here, row, query.n_answers)
        row += len(here)
    if row != len(geocodes) or table.n_rows != row:
        raise unreadable("V105", path, f"does not hold every area of {stated.level} once")
    return out


def _answers(path: str, batch: Any, geocodes: pa.Array, row: int, width: int) -> Whole:
    lists = batch.column("answers")
    values = lists.flatten()
    if batch.column("geocode").null_count or lists.null_count or values.null_count:
        raise unreadable("V105", path, "has an empty value")
    sizes = np.diff(lists.offsets.to_numpy().astype(np.int64))
    for what, right in (
        ("area", pc.equal(batch.column("geocode").cast(TEXT), geocodes).to_numpy(zero_copy_only=False)),
        ("number of answers", sizes == width),
    ):
        if not right.all():
            raise _wrong(path, what, row + int(np.flatnonzero(~right)[0]))
    answers: Whole = values.to_numpy().astype(np.int64).reshape(-1, width)
    if (answers < 0).any():
        raise _wrong(path, "number", row + int(np.flatnonzero((answers < 0).any(axis=1))[0]))
    return answers


def _wrong(path: str, what: str, row: int) -> UnreadableError:
    why = "exact statistics were changed, removed, added or put in another order"
    return UnreadableError(Finding("V105", f"{path} has the wrong {what}", path, row + 1, why=why))
