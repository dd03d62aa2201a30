"""The statistics that policy keeps exact: counted, and written so that a crash leaves all of them or none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topdown.caps import parse_json
from topdown.ledger.durable import Disk
from topdown.ledger.same_records import changed
from topdown.model.constraint import Exact
from topdown.model.histogram import Histogram
from topdown.plan.exact_files import EXACT, exact_document, exact_table, read_exact_table, tables_of_exact
from topdown.plan.prepare import Context

Ints = NDArray[np.int64]


def exact_values(context: Context, level: Callable[[int], Histogram]) -> dict[str, Ints]:
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


def exact_bytes(context: Context, values: dict[str, Ints], folder: Path, disk: Disk) -> bytes:
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
    plan, tables, stated = context.plan, tables_of_exact(context.plan), _stated(disk.read(folder / EXACT))
    sha256: dict[str, str] = {}
    for exact in plan.invariants.exact:
        if exact.name not in tables:
            continue
        path, answers = folder / tables[exact.name], values[exact.name]
        if stated is not None and _is_kept(context, exact, answers, disk.read(path), stated.get(exact.name)):
            sha256[exact.name] = stated[exact.name]
            continue
        data = exact_table(context, exact, answers)
        sha256[exact.name] = hashlib.sha256(data).hexdigest()
        if stated is not None and stated.get(exact.name) != sha256[exact.name]:
            raise changed(path)
        disk.replace(path, data)
    return exact_document(context, values, sha256)


def _is_kept(context: Context, exact: Exact, answers: Ints, there: bytes | None, sha256: str | None) -> bool:
    """Tell whether the table there is the one that exact.json names, with the same answers."""
    if there is None or hashlib.sha256(there).hexdigest() != sha256:
        return False
    try:
        return np.array_equal(read_exact_table(there, context, exact), answers)
    except ValueError:
        return False


def _stated(data: bytes | None) -> dict[str, str] | None:
    """Return the SHA-256 of each table that an exact.json names, by statistic; None if there is no such file."""
    if data is None:
        return None
    try:
        return {value["name"]: value["sha256"] for value in parse_json(data)["values"] if "sha256" in value}
    except (ValueError, KeyError, TypeError):
        return {}  # the bytes are compared next, and refused
