"""Checks `whole numbers`, `hierarchy` and `tables`: known places and cells, sums, and what the microdata say."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.formats.verify_documents import Finding
from topdown.verify.exact_arithmetic import differences, sums_fit, tally, value_at
from topdown.verify.findings import Findings
from topdown.verify.plan_reader import table_path
from topdown.verify.query_labels import Query
from topdown.verify.released_records import Areas, Table, answer_label
from topdown.verify.session import Session
from topdown.verify.strict_reader import NotAvailableError, UnreadableError, open_inside, unreadable

CSV = "microdata/persons.csv.gz"
_BLOCK = 2**20
_GZIP_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # no name, comment, time, nor system
_MESSAGE = "what no reader shows could be a message"
_MAX_RATIO = 1100  # deflate cannot shrink further than 1032 to 1


def check_csv(session: Session) -> None:
    """Compare byte for byte what the file unpacks to; UnreadableError (V108) at the first difference."""
    n_bytes, expected = 0, hashlib.sha256()
    most = _MAX_RATIO * _csv_size(session) + _BLOCK
    for line, times in _csv_lines(session):
        n_bytes += len(line) * times
        if times < 0 or n_bytes > most:
            raise unreadable("V108", CSV, "is too short for the records of the microdata")
        while times > 0:
            expected.update(line * min(times, _BLOCK))
            times -= _BLOCK
    found = hashlib.sha256()
    try:
        with open_inside(session.root, CSV) as file:
            for block in _unpacked(file):
                n_bytes -= len(block)
                if n_bytes < 0:
                    break
                found.update(block)
    except (OSError, ValueError, zlib.error) as error:
        raise unreadable("V108", CSV, f"cannot be unpacked ({type(error).__name__})") from None
    if n_bytes != 0 or found.digest() != expected.digest():
        raise unreadable("V108", CSV, "does not hold the records of the microdata, in order")


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Yield what a gzip file holds: one member, whose header says nothing, and no byte after it."""
    if file.read(len(_GZIP_HEADER)) != _GZIP_HEADER:
        raise unreadable("V202", CSV, "has a gzip header that says more than that it is one", _MESSAGE)
    member, crc, size, data = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0, b""
    while not member.eof:
        data = member.unconsumed_tail or file.read(_BLOCK)
        block = member.decompress(data, _BLOCK)
        if not data and not block:
            raise ValueError("it ends too early")
        crc, size = zlib.crc32(block, crc), size + len(block)
        yield block
    due = crc.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
    if member.unused_data + file.read(len(due) + 1) != due:
        problem = "has bytes after its rows, or another checksum than that of its rows"
        raise unreadable("V202", CSV, problem, _MESSAGE)


def _csv_size(session: Session) -> int:
    try:
        with open_inside(session.root, CSV) as file:
            return os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        raise unreadable("V108", CSV, f"cannot be opened ({type(error).__name__})") from None


def _csv_lines(session: Session) -> Iterator[tuple[bytes, int]]:
    schema = session.plan.schema
    names = ["geocode", *(a.name for a in schema.attributes)]
    yield (",".join(_csv_quoted(text) for text in names) + "\n").encode("utf-8"), 1
    labels = [[_csv_quoted(label) for label in a.group_labels] for a in schema.attributes]
    for areas in session.sections():
        population, geocodes = areas.population, areas.tree.geocodes[-1].to_pylist()
        values = [population.value[a.name].tolist() for a in schema.attributes]
        leaves, counts = population.leaf.tolist(), population.count.tolist()
        for row, (leaf, count) in enumerate(zip(leaves, counts, strict=True)):
            rest = ",".join(texts[value[row]] for texts, value in zip(labels, values, strict=True))
            yield f"{_csv_quoted(geocodes[leaf])},{rest}\n".encode(), count


def _csv_quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


TOO_LARGE = "the counts are too large to add up"


def check_whole_numbers(session: Session, out: Findings) -> str:
    """Check counts, geocodes, labels, order and repetition of every row."""
    session.check_sections("whole numbers", out)
    if out.counts["too large"] or out.counts["records"] > 2**61:
        if not out.counts["too large"]:
            out.add(Finding("V110", TOO_LARGE, file=session.persons))
        return TOO_LARGE
    if out.ok:
        return f"{out.counts['records']:,} records in {out.n_checked:,} rows, no count below one"
    return f"{out.n_failed} of {out.n_checked:,} rows are not whole people in known places"


def check_whole_numbers_areas(_: Session, areas: Areas, out: Findings) -> None:
    """Check the rows of some leaves."""
    if not areas.has_leaves:
        return
    population, schema = areas.raw_population, areas.plan.schema
    out.n_checked = len(population.count)
    _report_bad_rows(
        areas, out, population.count <= 0, "V101", "a count that is not above zero", population.count
    )
    leaf = "no leaf" if areas.number is None else "no leaf of this section"
    _report_bad_rows(areas, out, population.leaf < 0, "V102", f"a geocode that is {leaf}")
    for name, value in population.value.items():
        _report_bad_rows(areas, out, value < 0, "V102", f"a label of {name} that the schema does not know")
    key = population.leaf * schema.n_cells + population.cell
    step = np.diff(key, prepend=np.int64(-1))
    again = (step <= 0) & (population.cell >= 0)
    _report_bad_rows(areas, out, again, "V103", "a leaf and cell out of order, or given twice")
    if not sums_fit(population.count):
        out.add(Finding("V110", TOO_LARGE, file=areas.persons))
        out.counts["too large"] += 1
        return
    out.counts["records"] += int(population.count.sum())


def _report_bad_rows(
    areas: Areas, out: Findings, bad: NDArray[np.bool_], code: str, what: str, count: Ints | None = None
) -> None:
    leaf = areas.raw_population.leaf
    for row in out.failures(np.flatnonzero(bad)):
        text, node = f"row {row + 1} of the microdata has {what}", None
        if leaf[row] >= 0:
            node = areas.tree.code(-1, int(leaf[row]))
        found = "" if count is None else str(int(count[row]))
        out.kept.append(Finding(code, text, areas.persons, row + 1, node, found=found))


def check_hierarchy(session: Session, out: Findings) -> str:
    """Compare each inner node with the sum of its children in every table, and every table with `total`."""
    session.check_sections("hierarchy", out)
    if out.ok:
        n = len(session.plan.workload)
        return f"{out.n_checked:,} of {out.n_checked:,} areas add up in {n} tables"
    return f"{out.n_failed:,} of {out.n_checked:,} areas do not add up"


def check_hierarchy_areas(session: Session, areas: Areas, out: Findings) -> None:
    """Compare the tables of some areas; pass those of a section's highest level on to the level above."""
    names, workload = session.tree.names, session.plan.workload
    failed: set[tuple[int, int]] = set()
    total = workload[0]
    for query in workload:
        for level in range(areas.n_levels):
            here = areas.table(query, level)
            if level == 0 and areas.up is not None:
                areas.passed[query.name] = _sums_above(query, here, areas.up)
            below = _sums_below(areas, query, level)
            if below is not None:
                what = f"the sum of its {names[areas.top + level + 1]}s"
                failed |= _compare_sums(areas, out, query, level, here, below, what)
            if query is not total:
                sums = tally(here.key // query.n_answers, here.count)
                plain = areas.table(total, level)
                failed |= _compare_sums(areas, out, total, level, plain, sums, f"the sum over {query.name}")
    out.n_checked = sum(len(geocodes) for geocodes in areas.tree.geocodes)
    out.n_failed = len(failed)


def _sums_below(areas: Areas, query: Query, level: int) -> tuple[Ints, Ints] | None:
    """Return the sums of the areas below those of a level; None at the leaves."""
    if level + 1 < areas.n_levels:
        return _sums_above(query, areas.table(query, level + 1), areas.tree.parent[level + 1])
    return None if areas.below is None else areas.below[query.name]


def _sums_above(query: Query, table: Table, up: Ints) -> tuple[Ints, Ints]:
    """Add a table up to the level above."""
    return tally(
        up[table.key // query.n_answers] * query.n_answers + table.key % query.n_answers, table.count
    )


def _compare_sums(
    areas: Areas, out: Findings, query: Query, level: int, table: Table, sums: tuple[Ints, Ints], what: str
) -> set[tuple[int, int]]:
    wrong = differences(table.key, table.count, *sums)
    for key in out.failures(wrong, 0):
        code, answer, row, *shown = _named(areas, query, level, table, sums, key)
        text = f"{areas.tree.names[level]} {code} is not {what} ({answer})"
        out.kept.append(Finding("V104", text, table.path, row, code, *shown))
    return {(level, node) for node in np.unique(wrong // query.n_answers).tolist()}


def _named(
    areas: Areas, query: Query, level: int, table: Table, truth: tuple[Ints, Ints], key: int
) -> tuple[str, str, int | None, str, str]:
    """Return area and answer of a key, its row in a table, what was expected there, and what was found."""
    (found, row), (expected, _) = value_at(table.key, table.count, key), value_at(*truth, key)
    code, answer = areas.tree.code(level, key // query.n_answers), answer_label(query, key % query.n_answers)
    return code, answer, row, str(expected), str(found)


def check_tables(session: Session, out: Findings) -> str:
    """Recompute every table from the microdata and compare all answers; no other table may be there."""
    session.check_sections("tables", out)
    found = set()
    with suppress(OSError):  # there may be none; unlike os.walk, this follows no symlink to it
        for folder, _, names, _ in os.fwalk(session.root / "tables"):
            prefix = os.path.relpath(folder, session.root)
            found |= {f"{prefix}/{name}" for name in names}
    for path in sorted(found - table_paths(session)):
        text = f"{path} is no table of this plan"
        out.add(Finding("V108", text, file=path, why="it was not made by publish"))
    if os.path.lexists(session.root / CSV):
        out.n_checked += 1
        try:
            check_csv(session)
        except UnreadableError as error:
            out.add(error.finding)
    if out.ok:
        return f"{out.n_checked} of {out.n_checked} agree with the microdata"
    return f"{out.n_failed} of {out.n_checked} differ from the microdata"


def table_paths(session: Session) -> set[str]:
    """Return the path of every table file that the release has."""
    names, cuts = session.tree.names, session.cuts
    return {
        path
        for query in session.plan.workload
        for level, name in enumerate(names)
        for path in cuts.paths(table_path(query, name), level)
    }


def check_tables_areas(session: Session, areas: Areas, out: Findings) -> None:
    """Recompute the tables of some areas from their records."""
    tree, population = areas.tree, areas.population
    for query in session.plan.workload:
        for level in range(areas.n_levels):
            out.n_checked += 1
            try:
                table = areas.table(query, level)
            except NotAvailableError as error:
                out.add(error.finding)
                continue
            _check_table(areas, out, query, level, table, population.answers(tree, query, level))
        population.forget(query)


def _check_table(
    areas: Areas, out: Findings, query: Query, level: int, table: Table, truth: tuple[Ints, Ints]
) -> None:
    wrong = differences(table.key, table.count, *truth)
    for key in out.failures(wrong, 1):
        code, answer, row, *shown = _named(areas, query, level, table, truth, key)
        text = f"{query.name} of {code} differs from the microdata ({answer})"
        out.kept.append(Finding("V108", text, table.path, row, code, *shown))
    if len(wrong):
        return
    if query.name == "total" and len(table.key) != len(areas.tree.geocodes[level]):
        out.add(Finding("V109", f"{table.path} does not have a row for every node", file=table.path))
    elif query.name != "total" and table.numbers is None and (table.count == 0).any():
        row = int(np.flatnonzero(table.count == 0)[0]) + 1
        out.add(Finding("V109", f"{table.path} lists a zero", file=table.path, row=row))
