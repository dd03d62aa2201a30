"""Tables in: groups as microdata, one row a group, or counts; regions; public numbers of groups.

Everything is checked before any budget is touched. Errors about confidential tables name the column and the rule, never
a value.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgsr.hierarchy import Hierarchy, Sizes, hierarchy_of
from topdown.arrays import Ints
from topdown.errors import ConfigError, DataError
from topdown.formats.caps import RAISE_TABLE
from topdown.inputs import (
    NO_TOTALS,
    ControlTotals,
    MemoryTable,
    TableColumn,
    TableProblem,
    TableReader,
    printable,
    read_header,
)
from topdown.inputs.table_reader import MISCOUNTED, MISCOUNTED_FIX, TOO_LARGE, check_header, toml_name_list
from topdown.made_up import Origin, check_reason, origin_of

GROUP_FORMS = {
    "microdata": ("user", "unit", "region", "quantity"),
    "groups": ("unit", "region", "size"),
    "counts": ("region", "size", "count"),
}


NUMBERS = ("quantity", "size", "count", "groups")
IDS = ("user", "unit")  # names that numbers may stand for
Table = Mapping[str, Sequence[Any]]
LARGEST_COUNT = 2**40
PRIVATE_ERRORS = "PRIVATE-input-errors.csv"


def form_of(header: list[str], ignored: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns of the one form of `FORMS` that a header has.

    Args:
        header: column names.
        ignored: names that may be there besides.

    Raises:
        DataError: D132 no form's columns are all there; D040 a column is not of the form.
    """
    forms = [columns for columns in GROUP_FORMS.values() if not set(columns) & set(ignored)]
    whole = [columns for columns in forms if set(columns) <= set(header)]
    if not whole:
        known = {name for columns in GROUP_FORMS.values() for name in columns}
        meant = [name for name in header if name not in known and name.strip().casefold() in known]
        raise DataError(
            "the groups lack a column" + (f" (they have {printable(meant[0])!r})" if meant else ""),
            code="D132",
            fix="give " + ", or ".join(", ".join(columns) for columns in GROUP_FORMS.values()),
        )
    fits = [columns for columns in whole if set(header) <= {*columns, *ignored}]
    chosen = (fits or whole)[0]
    check_columns(header, chosen, ignored)
    return chosen


def check_columns(header: list[str], needed: tuple[str, ...], ignored: Sequence[str] = ()) -> None:
    """Refuse a header that lacks a column, has one twice (D132), or one nobody asked for (D040)."""
    try:
        check_header(header, needed, ignored)
    except TableProblem as problem:
        raise _table_error(None, problem, needed) from None


def _table_error(
    path: Path | MemoryTable | None, problem: TableProblem, needed: tuple[str, ...]
) -> DataError:
    """Return what is wrong with a table, which may be confidential: columns and their types, nothing it holds."""
    column, near = printable(problem.column), printable(problem.near)
    file = None if path is None else str(path)
    match problem.kind:
        case "missing":
            return DataError(f"there is no file {path}", code="D130", fix="check the path")
        case "too large":
            return DataError(f"{path}: {TOO_LARGE}", code="D043", file=file, fix=RAISE_TABLE)
        case "miscounted":
            return DataError(f"{path}: {MISCOUNTED}", code="D042", fix=MISCOUNTED_FIX)
        case "missing column":
            text = f"the table has no column {column!r}" + (f"; it has {near!r}" if near else "")
            return DataError(text, code="D132", fix=f"give columns {', '.join(needed)}")
        case "column twice":
            return DataError(
                f"the table has two columns called {column!r}", code="D132", fix="keep one of them"
            )
        case "unread column":
            fix = f"rename it to {near!r} if it is that; " if near else ""
            fix += f"if it is not needed, say so in the run file: ignore = {toml_name_list(problem.unread)}"
            return DataError(f"the table has a column {column!r} that is not read", code="D040", fix=fix)
        case "wrong type":
            fix = "write numbers as integers, names as text with their leading zeros"
            return DataError(f"{path}: column {column!r} does not hold {problem.near}", code="D024", fix=fix)
        case "control totals":
            text, wrong = problem.text.replace("the records", "the groups"), problem.column
            details = (("control totals", wrong),) if wrong else ()
            return DataError(text, code=problem.code, file=file, fix=problem.fix, details=details)
        case "limit" | "database":
            return DataError(f"{path}: {problem.text}", code=problem.code, file=file, fix=problem.fix)
        case _:
            return DataError(f"{path} cannot be read as a table", code="D130", fix="give CSV or Parquet")


def refuse_other(check: Callable[[], None], path: Path | None) -> None:
    """Refuse groups that are not those of their control totals (DataError D080, D081, D082)."""
    try:
        check()
    except TableProblem as problem:
        raise _table_error(path, problem, ()) from None


def leaf_counts(
    table: Table,
    hierarchy: Hierarchy,
    sizes: Sizes,
    source: Path | None = None,
    ignored: Sequence[str] = (),
    totals: ControlTotals = NO_TOTALS,
) -> Ints:
    """Return the number of groups of every size in every leaf region, [size][leaf].

    Error messages carry the rule and the column only; the rows concerned are written to a private file beside
    `source`.

    Args:
        table: columns of one of the three forms in `FORMS`.
        source: file the table came from.
        ignored: columns that are not read; any other beside those of the form is refused.
        totals: what the owner of the groups says of them; people are the members of all groups, as they are listed.

    Raises:
        DataError: unknown region, bad size, a unit in two regions, a user twice, quantity not 0 or 1, other rows or
            people than the control totals say (D081).
    """
    columns = form_of(list(table), ignored)
    form = next(name for name, of in GROUP_FORMS.items() if of == columns)
    check_lengths(table, columns)
    check = _TableRules(source)
    region = check.regions(table["region"], hierarchy)
    if form == "counts":
        size, count = check.integers("size", table["size"]), check.integers("count", table["count"])
        check.refuse("count", count > LARGEST_COUNT, f"are above {LARGEST_COUNT}", "split the data")
    else:
        if form == "microdata":
            region, size = check.people(table, region)
        else:
            size = check.integers("size", table["size"])
            check.refuse("unit", _repeated(table["unit"]), "are listed twice", "give one row a unit")
        count = np.ones(len(size), dtype=np.int64)
    check.refuse(
        "size",
        size < sizes.smallest,
        "are 0 but the smallest size is 1",
        "set the smallest size to 0 (--smallest 0)",
    )
    if sizes.too_large == "refuse":
        fix = f"raise the number of sizes, or count them as {sizes.largest} or more (--too-large top-code)"
        check.refuse("size", size > sizes.largest, f"are past the last size {sizes.largest}", fix)
    people = sum(map(int.__mul__, size.tolist(), count.tolist()))  # whole numbers of any size
    refuse_other(lambda: totals.check_read(len(table[columns[0]]), people), source)
    counts = np.zeros((sizes.n_sizes, hierarchy.tree.n_leaves), dtype=np.int64)
    np.add.at(counts, (np.minimum(size, sizes.largest) - sizes.smallest, region), count)
    return counts


def check_lengths(table: Table, names: Sequence[str]) -> None:
    """Refuse columns in memory that are none, or differ in length (DataError D132)."""
    whole = all(isinstance(table[name], Sized) and not isinstance(table[name], str) for name in names)
    if not whole or len({len(table[name]) for name in names}) != 1:
        raise DataError(
            f"the columns {', '.join(names)} are no lists of one length",
            code="D132",
            fix="give whole columns",
        )


def check_totals(
    counts: Ints, hierarchy: Hierarchy, total: int | None, public: Mapping[str, int] | None
) -> int:
    """Return the public number of groups; refuse public facts that contradict each other or the data.

    Args:
        counts: [size][leaf].
        total: declared number of groups G, or None to declare the data's own.
        public: declared number of groups of some regions.

    Raises:
        DataError: contradiction. Public numbers are shown, confidential ones are not.
    """
    exact = int(counts.sum())
    facts = dict(public or {})
    root = hierarchy.regions[0]
    if total is not None:
        if facts.get(root, total) != total:
            raise DataError(
                f"G is {total} but the public facts give {facts[root]} for {root!r}",
                code="D136",
                fix="correct one of the two",
            )
        facts[root] = total
    by_node = hierarchy.tree.sums(counts.sum(axis=0, keepdims=True))[0]
    for region, value in facts.items():
        if region not in hierarchy.node_index:
            raise DataError(
                f"public facts name the unknown region {region!r}", code="D131", fix="correct its name"
            )
        if by_node[hierarchy.node_index[region]] != value:
            raise DataError(
                f"the data do not have the public number of groups, {value}, in region {region!r}",
                code="D136",
                fix="correct the public fact, or find the missing or extra groups",
                node=region,
            )
    return exact


class _TableRules:
    """Collects the rules that a confidential table must obey; a broken one names column and rule only."""

    def __init__(self, source: Path | None) -> None:
        self.source = source

    def refuse(self, column: str, wrong: NDArray[np.bool_], what: str, fix: str, code: str = "D133") -> None:
        rows = np.flatnonzero(wrong)
        if len(rows) == 0:
            return
        details = [("column", column)]
        if self.source is not None and self.source.name != PRIVATE_ERRORS:
            listed = self.source.with_name(PRIVATE_ERRORS)
            listed.unlink(missing_ok=True)
            handle = os.open(listed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["row", "column", "rule"])
                writer.writerows([int(row) + 2, column, what] for row in rows)
            details.append(("rows", f"listed beside the input, {PRIVATE_ERRORS} (mode 0600)"))
        raise DataError(
            f"some values of column {column!r} {what}",
            code=code,
            fix=f"{fix}; nothing was drawn or charged",
            details=tuple(details),
        )

    def regions(self, values: Sequence[Any], hierarchy: Hierarchy) -> Ints:
        leaf = hierarchy.leaf_index
        found = np.array([leaf.get(str(value), -1) for value in values], dtype=np.int64)
        self.refuse(
            "region",
            found < 0,
            "are not leaf regions of the hierarchy",
            "correct the regions, or add them to the hierarchy",
            "D131",
        )
        return found

    def integers(self, column: str, values: Sequence[Any]) -> Ints:
        read: Any = values  # int64 already if they come from a file
        done = isinstance(read, np.ndarray) and read.dtype == np.int64
        numbers: Ints = read if done else np.array([_whole(value) for value in values], dtype=np.int64)
        self.refuse(column, numbers < 0, "are not whole numbers from 0 on", "give integers")
        return numbers

    def people(self, table: Table, region: Ints) -> tuple[Ints, Ints]:
        """Return region and size of every unit of microdata."""
        quantity = self.integers("quantity", table["quantity"])
        bad = (quantity < 0) | (quantity > 1)
        fix = "one user may add at most one to a group's size (a quantity z would need z times the noise)"
        self.refuse("quantity", bad, "are not 0 or 1", fix, "D134")
        self.refuse(
            "user", _repeated(table["user"]), "are listed twice", "a user belongs to one unit", "D135"
        )
        _, first, unit = np.unique(np.array(table["unit"], dtype=str), return_index=True, return_inverse=True)
        home = region[first]
        self.refuse("unit", home[unit] != region, "lie in two regions", "a unit lies in one region", "D135")
        return home, np.bincount(unit, weights=quantity, minlength=len(first)).astype(np.int64)


def _whole(value: object) -> int:
    """Return a whole number from 0 on, -1 for anything else: no float, truth value or other spelling is one."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 18 else -1
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        return -1
    return int(value) if 0 <= value < 2**62 else -1


def _repeated(values: Sequence[Any]) -> NDArray[np.bool_]:
    names = np.array([str(value) for value in values])
    _, inverse, counts = np.unique(names, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] > 1)


def read_groups(path: Path | MemoryTable, ignored: Sequence[str] = ()) -> dict[str, Any]:
    """Read a table of groups in one of the forms of `groups.FORMS`; its own words are never in an error.

    Args:
        path: CSV(.gz) or Parquet, or a data frame in its box.
        ignored: columns that are there and are not read; any other is refused.

    Raises:
        DataError: unreadable file (D130, D042), columns missing (D132) or not asked for (D040), or of a type that
            holds no names or whole numbers (D024).
    """
    return _read_columns(path, lambda header: form_of(header, ignored))


def read_table(
    path: Path | MemoryTable, needed: tuple[str, ...], ignored: Sequence[str] = ()
) -> dict[str, Any]:
    """Read the named columns of a public table: numbers as int64, -1 where there is none; else text.

    Raises:
        DataError: as `read_groups`.
    """

    def check(header: list[str]) -> tuple[str, ...]:
        check_columns(header, needed, ignored)
        return needed

    return _read_columns(path, check)


def _read_columns(path: Path | MemoryTable, choose: Callable[[list[str]], tuple[str, ...]]) -> dict[str, Any]:
    """Read columns whose values are checked later: numbers are -1, names empty, where there is none."""
    try:
        names = choose(read_header(path))
        columns = [
            TableColumn(n, "whole" if n in NUMBERS else "text", most=2**63, integers=n in IDS) for n in names
        ]
        reader = TableReader(path, columns, ignored=None, may_be_empty=True)
        batches = list(reader.batches())
        reader.check("wrong type")
    except TableProblem as problem:
        raise _table_error(path, problem, ()) from None
    return {name: _joined([batch[name] for batch in batches]) for name in names}


def _joined(pieces: list[Any]) -> Any:
    """Return a column in one piece: numbers as int64, names as texts."""
    if isinstance(pieces[0], np.ndarray):
        return np.concatenate(pieces)
    return [value or "" for piece in pieces for value in piece.to_pylist()]


def read_hierarchy(path: Path | MemoryTable | Table, ignored: Sequence[str] = ()) -> Hierarchy:
    """Read a hierarchy table, or columns, region, parent, level.

    Raises:
        DataError: as `read_groups`, or a malformed tree.
    """
    needed = ("region", "parent", "level")
    if isinstance(path, Mapping):
        check_columns(list(path), needed, ignored)
        check_lengths(path, needed)
        table = path
    else:
        table = read_table(path, needed, ignored)
    return hierarchy_of(list(zip(table["region"], table["parent"], table["level"], strict=True)))


def public_totals(path: Path, ignored: Sequence[str] = ()) -> dict[str, int]:
    """Return public numbers of groups from a table with columns region, groups.

    Raises:
        DataError: see `read_table`; numbers that are not whole, or a region listed twice (D133).
    """
    table = read_table(path, ("region", "groups"), ignored)
    if (table["groups"] < 0).any():
        raise DataError(f"{path}: column groups is not whole numbers", code="D133", fix="give integers")
    if len(set(table["region"])) != len(table["region"]):
        raise DataError(f"{path}: a region is listed twice", code="D133", fix="keep one row a region")
    return dict(zip(table["region"], table["groups"].tolist(), strict=True))


def origin_of_groups(groups: Path | Table, reason: str) -> Origin:
    """Say why groups may be simulated on; columns in memory carry no mark, so they need a reason.

    Raises:
        ConfigError: C121 the groups are not known to be made up or public.
    """
    if not isinstance(groups, Mapping):
        return origin_of(groups, reason)
    reason = check_reason(reason)
    if not reason:
        raise ConfigError(
            "groups in memory carry no mark of made-up data; noise that is not charged is drawn on made-up or "
            "public groups only",
            code="C121",
            fix="say why they are public or made up (truth_is_public), or give a file written by pgsr synth",
        )
    text = json.dumps([[name, list(map(str, values))] for name, values in groups.items()])
    return Origin("public", "columns in memory", hashlib.sha256(text.encode()).hexdigest(), reason)
