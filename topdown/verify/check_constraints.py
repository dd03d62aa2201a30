"""Checks `exact statistics`, `zeros`, `bounds`, `comparisons`: what public facts demand of the microdata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from topdown.arrays import Ints
from topdown.formats.release_documents import Comparisons
from topdown.formats.verify_documents import Finding
from topdown.verify.check_solver import FILE, load_solved
from topdown.verify.exact_arithmetic import values_at
from topdown.verify.findings import Findings
from topdown.verify.public_tree import bounds_by_level
from topdown.verify.query_labels import Query
from topdown.verify.released_records import Areas, answer_label
from topdown.verify.session import Session
from topdown.verify.strict_parquet import TEXT, WHOLE, ParquetTable, TableForm
from topdown.verify.strict_reader import UnreadableError, read_json, unreadable

EXACT = "measurements/exact.json"
MOST_LISTED = 100_000  # areas of a statistic without a table of its own
ANSWERS_PER_GROUP = 1 << 20  # of a row group
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
    nodes: Ints
    answers: Ints


def exact_tables(session: Session) -> list[str]:
    """Return the paths of the tables beside exact.json, by the plan alone."""
    sizes = {level.name: level.n_nodes for level in session.plan.doc.levels}
    rules = enumerate(session.plan.rules.exact)
    return [_exact_table_path(number) for number, rule in rules if sizes.get(rule.level, 0) > MOST_LISTED]


def _exact_table_path(number: int) -> str:
    return f"measurements/exact-{number:03d}.parquet"


def stated_exact(session: Session) -> tuple[StatedExact, ...]:
    """Return what exact.json holds; NotAvailableError (V105) if it is damaged."""

    def load() -> tuple[StatedExact, ...]:
        document = read_json(session.root, EXACT, "V105", "topdown.exact")
        if document.get("plan_hash") != session.plan.measured_hash:
            raise unreadable("V105", EXACT, "belongs to another plan")
        try:
            values = msgspec.convert(document.pop("values", None), tuple[StatedExact, ...], strict=True)
        except (ValueError, TypeError) as error:
            raise unreadable("V105", EXACT, f"is not as documented: {str(error)[:120]}") from None
        if set(document) != {"type", "version", "plan_hash"}:
            raise unreadable("V105", EXACT, "is not as documented: it lacks a key, or has an unknown one")
        return values

    return session.once("exact", "exact statistics", load)


def exact_values(session: Session) -> list[ExactValues]:
    """Return the statistics that list the right nodes; NotAvailableError (V105) if a table is damaged or another."""

    def load() -> list[ExactValues]:
        tree, found, tables = session.tree, [], exact_tables(session)
        for number, stated in enumerate(stated_exact(session)):
            if stated.level not in tree.names or stated.query not in session.plan.queries:
                continue
            level, query = tree.names.index(stated.level), session.plan.queries[stated.query]
            if _exact_table_path(number) in tables:
                answers = _table_values(session, number, stated, query)
                found.append(ExactValues(stated, level, np.arange(len(answers)), answers))
            elif (listed := _listed_values(session, stated, level, query)) is not None:
                found.append(listed)
        return found

    return session.once("listed exact statistics", "exact statistics", load)


def _listed_values(session: Session, stated: StatedExact, level: int, query: Query) -> ExactValues | None:
    """Return a statistic that exact.json lists itself; None if it does not list the right nodes."""
    if not isinstance(stated.nodes, tuple) or not isinstance(stated.answers, tuple):
        raise unreadable("V105", EXACT, f"is not as documented: it does not list {stated.name!r}")
    if stated.file is not UNSET or stated.sha256 is not UNSET:
        raise unreadable("V105", EXACT, f"is not as documented: {stated.name!r} is in a file")
    place = {code: i for i, code in enumerate(session.tree.geocodes[level].to_pylist())}
    nodes = np.array([place.get(code, -1) for code in stated.nodes], dtype=np.int64)
    missing = np.setdiff1d(np.flatnonzero(session.is_measured[level]), nodes)
    ordered = not (np.diff(nodes, prepend=-1) <= 0).any()
    lengths = {len(a) for a in stated.answers} - {query.n_answers}
    if len(nodes) != len(stated.answers) or not ordered or len(missing) or lengths:
        return None
    try:
        answers = np.array(stated.answers, dtype=np.int64).reshape(-1, query.n_answers)
    except OverflowError:
        raise unreadable("V105", EXACT, f"has a number that no count can be in {stated.name!r}") from None
    return ExactValues(stated, level, nodes, answers)


def _table_values(session: Session, number: int, stated: StatedExact, query: Query) -> Ints:
    """Read a table: the one that exact.json names, every node of the level once, in order, whole numbers from 0."""
    path, geocodes = _exact_table_path(number), session.tree.geocodes[session.tree.names.index(stated.level)]
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
    rows = max(ANSWERS_PER_GROUP // max(query.n_answers, 8), 1)
    table = ParquetTable(session.root, path, "V105", TableForm(kind, _COLUMNS, stamps), len(geocodes), most)
    if table.rows != min(rows, table.n_rows):
        raise unreadable("V200", path, "has other row groups than its kind is written in")
    out, row = np.empty((len(geocodes), query.n_answers), dtype=np.int64), 0
    for batch in table.batches(rows):
        here = geocodes.slice(row, batch.num_rows)
        if len(here) < batch.num_rows:
            break
        out[row : row + len(here)] = _batch_answers(path, batch, here, row, query.n_answers)
        row += len(here)
    if row != len(geocodes) or table.n_rows != row:
        raise unreadable("V105", path, f"does not hold every area of {stated.level} once")
    return out


def _batch_answers(path: str, batch: Any, geocodes: pa.Array, row: int, width: int) -> Ints:
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
            raise _wrong_row(path, what, row + int(np.flatnonzero(~right)[0]))
    answers: Ints = values.to_numpy().astype(np.int64).reshape(-1, width)
    if (answers < 0).any():
        raise _wrong_row(path, "number", row + int(np.flatnonzero((answers < 0).any(axis=1))[0]))
    return answers


def _wrong_row(path: str, what: str, row: int) -> UnreadableError:
    why = "exact statistics were changed, removed, added or put in another order"
    return UnreadableError(Finding("V105", f"{path} has the wrong {what}", path, row + 1, why=why))


ANSWERS_AT_ONCE = 1 << 20


def check_exact(session: Session, out: Findings) -> str:
    """Compare each exact statistic with the microdata: reproduced or not; files can show no more."""
    values = stated_exact(session)
    stated = [(v.name, v.level, v.query) for v in values]
    wanted = [(e.name, e.level, e.query) for e in session.plan.rules.exact]
    if stated != wanted:
        text = "exact.json does not hold the plan's exact statistics, in order"
        shown = (", ".join(n for n, _, _ in wanted)[:200], ", ".join(n for n, _, _ in stated)[:200])
        out.add(Finding("V105", text, EXACT, None, None, *shown))
        return "the exact statistics are not those of the plan"
    listed = exact_values(session)
    for value in values:
        if not any(at.stated is value for at in listed):
            text = (
                f"{value.name!r} does not list every node of {value.level} once, in order, with its answers"
            )
            out.add(Finding("V105", text, file=EXACT))
    session.check_sections("exact statistics", out)
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} reproduced"
    return f"{out.n_failed:,} of {out.n_checked:,} not reproduced"


def check_exact_areas(session: Session, areas: Areas, out: Findings) -> None:
    """Compare exact statistics of some areas with their records."""
    for at in exact_values(session):
        level = at.level - areas.top
        if not 0 <= level < areas.n_levels:
            continue
        query, first = areas.plan.queries[at.stated.query], areas.first[level]
        p, q = np.searchsorted(at.nodes, (first, first + len(areas.tree.geocodes[level])))
        keys, counts = areas.population.answers(areas.tree, query, level)
        step = max(ANSWERS_AT_ONCE // query.n_answers, 1)
        for start in range(int(p), int(q), step):
            here = slice(start, min(start + step, int(q)))
            key = (at.nodes[here, None] - first) * query.n_answers + np.arange(query.n_answers)
            found = values_at(keys, counts, key)
            out.n_checked += key.size
            for wrong in out.failures(np.flatnonzero(found != at.answers[here])):
                row, i = divmod(wrong, query.n_answers)
                node = areas.tree.code(level, int(at.nodes[start + row]) - first)
                text = f"{at.stated.name!r} is not reproduced in {node} ({answer_label(query, i)})"
                why = "the microdata do not add up to a statistic that was promised to be exact"
                shown = str(int(at.answers[start + row, i])), str(int(found[row, i]))
                out.kept.append(Finding("V105", text, areas.persons, None, node, *shown, why))


def check_zeros(session: Session, out: Findings) -> str:
    """Find records where public facts, or definitions, allow none."""
    session.check_sections("zeros", out)
    if out.ok:
        return f"nobody in {out.n_checked:,} places and kinds of cells that must be empty"
    return f"{out.n_failed:,} rows where nobody can be"


def check_zeros_areas(_: Session, areas: Areas, out: Findings) -> None:
    """Look at the records of some leaves."""
    if not areas.has_leaves:
        return
    plan, tree, population = areas.plan, areas.tree, areas.population
    for rule in (*plan.rules.closing_somewhere, *plan.rules.closing_everywhere):
        closed = rule.closed(tree.facts, tree.n_leaves)
        out.n_checked += int(closed.sum())
        cells = plan.schema.select(rule.cells)
        for row in out.failures(np.flatnonzero(cells[population.cell] & closed[population.leaf])):
            node, found = tree.code(-1, int(population.leaf[row])), str(int(population.count[row]))
            text = f"{node} has records that {rule.name!r} rules out"
            why = "public facts leave no room for these records"
            out.kept.append(Finding("V106", text, areas.persons, row + 1, node, "0", found, why))


def check_bounds(session: Session, out: Findings) -> str:
    """Compare every bound with the microdata, at the leaves and at every inner node."""
    session.check_sections("bounds", out)
    kind = "bounds" if any(rule.is_most for rule in session.plan.rules.bounds) else "lower bounds"
    if out.ok:
        return f"{out.n_checked:,} of {out.n_checked:,} {kind} met"
    return f"{out.n_failed:,} of {out.n_checked:,} {kind} broken"


def check_bounds_areas(_: Session, areas: Areas, out: Findings) -> None:
    """Compare the bounds of some areas with their records."""
    rules, tree = areas.plan.rules, areas.tree
    for rule in rules.bounds:
        cells = areas.plan.schema.select(rule.cells)
        bounds = bounds_by_level(tree, rule)
        if bounds is None:
            out.add(Finding("V110", f"the bounds of {rule.name!r} are too large to add up", file="plan.json"))
            continue
        for level, bound in enumerate(bounds):
            out.n_checked += len(bound)
            have = areas.population.totals(tree, level, cells)
            for asked, wrong, end, says, why in (
                (rule.is_least, have < bound, "at least", "fewer records than {!r} demands", "demand more"),
                (
                    rule.is_most,
                    have > bound,
                    "at most",
                    "more records than {!r} allows",
                    "leave less room for",
                ),
            ):
                for node in out.failures(np.flatnonzero(wrong)) if asked else ():
                    code = tree.code(level, node)
                    text = f"{tree.names[level]} {code} has {says.format(rule.name)}"
                    shown = f"{end} {int(bound[node])}", str(int(have[node]))
                    why = f"public facts {why} records here"
                    out.kept.append(Finding("V107", text, areas.persons, None, code, *shown, why))


def _stated_comparisons(session: Session) -> Comparisons:
    """Return what solve.json says about soft rules; UnreadableError (V120) if it says nothing."""
    stated = load_solved(session).comparisons
    if isinstance(stated, UnsetType):
        raise unreadable("V120", FILE, "says nothing about soft rules")
    return stated


def check_comparisons(session: Session, out: Findings) -> str:
    """Compare both sides of every soft rule at every leaf; a leaf that breaks one must be listed as such."""
    tree, stated = session.tree, _stated_comparisons(session)
    if [level.level for level in stated.levels] != list(tree.names):
        out.add(Finding("V122", "solve.json does not compare the plan's levels in order", file=FILE))
    rules = {rule.name for rule in session.plan.rules.soft}
    named = [(r.node, r.constraints) for r in stated.repairs] + [
        (b.node, b.constraints) for b in stated.broken
    ]
    asked = pa.array([node for node, _ in named], TEXT)
    leaves = set(tree.geocodes[-1].filter(pc.is_in(tree.geocodes[-1], value_set=asked)).to_pylist())
    for node, names in named:
        if node not in leaves or not set(names) <= rules:
            text = "solve.json speaks of a leaf or a soft rule that does not exist"
            out.add(Finding("V122", text, FILE, node=node))
    session.check_sections("comparisons", out)
    n_broken = out.counts["broken"]
    if n_broken:
        out.warnings.append(f"{n_broken:,} soft rules at leaves could not be kept; solve.json lists them")
    if not out.ok:
        return f"{out.n_failed:,} of {out.n_checked:,} soft rules are not as solve.json says"
    kept = f"{out.n_checked - n_broken:,} of {out.n_checked:,} soft rules kept"
    return kept + (f", {len(stated.repairs):,} leaves repaired" if stated.repairs else "")


def check_comparisons_areas(session: Session, areas: Areas, out: Findings) -> None:
    """Compare the sides of soft rules at some leaves."""
    rules = areas.plan.rules.soft
    if not rules or not areas.has_leaves:
        return
    tree, population, stated = areas.tree, areas.population, _stated_comparisons(session)
    place = {code: i for i, code in enumerate(tree.geocodes[-1].to_pylist())}
    for rule in rules:
        sides = {name: areas.plan.schema.select(cells) for name, cells in rule.sides.items()}
        held = {name: population.totals(tree, areas.n_levels - 1, cells) for name, cells in sides.items()}
        out.n_checked += tree.n_leaves
        over = rule.broken(held)
        named = [place[b.node] for b in stated.broken if b.node in place and rule.name in b.constraints]
        listed = np.zeros(tree.n_leaves, dtype=bool)
        listed[named] = True
        out.counts["broken"] += int((over & listed).sum())
        for leaf in out.failures(np.flatnonzero(over != listed)):
            node = tree.code(-1, leaf)
            says = (
                f"breaks {rule.name!r}, which is not reported"
                if over[leaf]
                else f"keeps {rule.name!r} after all"
            )
            why = "soft rules are kept, or named where no population could keep them"
            out.kept.append(Finding("V112", f"{node} {says}", areas.persons, None, node, why=why))
