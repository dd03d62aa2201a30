"""What is true of the records: counts of the leaves and of levels above, and the statistics that policy keeps exact.

Exact statistics are written so that a crash leaves all of them or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np

from topdown.arrays import Ints
from topdown.formats.caps import parse_json
from topdown.measure.confidential import Confidential
from topdown.measure.record_counts import AggregatedCounts, LeafCounts
from topdown.model import Contradiction, Counts, Exact, Histogram, find_contradiction
from topdown.plan import PublicContext, exact_table, exact_table_names, read_exact_table
from topdown.plan.exact_statistics import EXACT_FILE, exact_document
from topdown.privacy.ledger import Disk, keyed_digest, records_changed


def exact_values(context: PublicContext, level: Callable[[int], Histogram]) -> dict[str, Ints]:
    """Return the answers of every exact invariant at every node of its level, (n_nodes, n_answers), by name.

    Args:
        context: plan and public facts.
        level: gives the true counts of a level from its index.

    """
    plan = context.plan
    return {
        exact.name: level(context.geography.index(exact.level)).answers(plan.query(exact.query))
        for exact in plan.invariants.exact
    }


def exact_bytes(context: PublicContext, values: dict[str, Ints], folder: Path, disk: Disk) -> bytes:
    """Return the content of exact.json, after every table that it names is on the disk.

    Tables that an earlier attempt wrote are kept, whatever version of Arrow wrote them.

    Args:
        context: plan and public facts.
        values: as from `exact_values`.
        folder: of the measurements.
        disk: how files are written.

    Raises:
        DataError: an earlier attempt wrote other values (D037).

    """
    plan, tables, stated = (
        context.plan,
        exact_table_names(context.plan),
        _stated_hashes(disk.read(folder / EXACT_FILE)),
    )
    sha256: dict[str, str] = {}
    for exact in plan.invariants.exact:
        if exact.name not in tables:
            continue
        path, answers = folder / tables[exact.name], values[exact.name]
        if stated is not None and _is_same_table(
            context, exact, answers, disk.read(path), stated.get(exact.name)
        ):
            sha256[exact.name] = stated[exact.name]
            continue
        data = exact_table(context, exact, answers)
        sha256[exact.name] = hashlib.sha256(data).hexdigest()
        if stated is not None and stated.get(exact.name) != sha256[exact.name]:
            raise records_changed(path)
        disk.replace(path, data)
    return exact_document(context, values, sha256)


def _is_same_table(
    context: PublicContext, exact: Exact, answers: Ints, there: bytes | None, sha256: str | None
) -> bool:
    """Tell whether the table there is the one that exact.json names, with the same answers."""
    if there is None or hashlib.sha256(there).hexdigest() != sha256:
        return False
    try:
        return np.array_equal(read_exact_table(there, context, exact), answers)
    except ValueError:
        return False


def _stated_hashes(data: bytes | None) -> dict[str, str] | None:
    """Return the SHA-256 of each table that an exact.json names, by statistic; None if there is no such file."""
    if data is None:
        return None
    try:
        return {value["name"]: value["sha256"] for value in parse_json(data)["values"] if "sha256" in value}
    except (ValueError, KeyError, TypeError):
        return {}  # the bytes are compared next, and refused


def records_digest(leaves: LeafCounts, key: bytes) -> str:
    """Return the HMAC-SHA256 of records under a key, from their counts: the order of the rows does not matter."""
    parts = np.ascontiguousarray(leaves.key, dtype="<i8"), np.ascontiguousarray(leaves.count, dtype="<i4")
    return keyed_digest(key, (part.data for part in parts))


class Truth:
    """The true counts of the leaves and the exact statistics; shows nothing of itself, and is sent nowhere."""

    stays_in_its_process = True  # `workers.tasks` asks for it

    def __init__(self, context: PublicContext, records: Confidential) -> None:
        self._context = context
        self.leaves = records.open_counts()
        self.exact = exact_values(context, self._level)

    def __reduce__(self) -> NoReturn:
        raise TypeError("true counts are not copied or pickled")

    def counts(self, depth: int) -> Counts:
        """Return the counts of one level, which are added up where they are asked for."""
        tree = self._context.geography
        return self.leaves if depth == len(tree.levels) - 1 else AggregatedCounts(tree, self.leaves, depth)

    def _level(self, depth: int) -> Histogram:
        return self.counts(depth).between(0, len(self._context.geography.levels[depth]))

    def contradiction(self) -> Contradiction | None:
        """Hold the exact statistics against each other and the public facts, before anything is charged."""
        context = self._context
        if context.support is not None:  # no statistic of its own is exact; `find_patterns` checks the rest
            return None
        plan = context.plan
        return find_contradiction(
            plan.schema, context.geography, plan.invariants, context.facts, self.exact, rules=context.rules
        )
