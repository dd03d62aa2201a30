"""The exact statistics of a release, read from exact.json and the tables it names."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from topdown.caps import PLAN_BYTES, read_json, read_plain
from topdown.model.constraint import Exact
from topdown.plan.exact_files import EXACT, FOLDER, most_bytes, read_exact_table, tables_of_exact
from topdown.plan.prepare import Context
from topdown.solve.groups import Ints
from topdown.solve.row_groups import damaged


def read_exact(release: Path, context: Context) -> dict[str, Ints]:
    """Return the answers that are exact by policy: invariant name to int64 of shape (n_nodes, n_answers).

    Nodes are all nodes of the invariant's level, in the geography's order.

    Args:
        release: its folder.
        context: plan and public facts.

    Raises:
        CertificateError: exact.json, or a table it names, is missing, altered or of another plan (V020).
    """
    plan, path = context.plan, release / FOLDER / EXACT
    try:
        document = read_json(path, PLAN_BYTES)
        stated = {value["name"]: value for value in document["values"]}
        head = (document["type"], document["version"], document["plan_hash"])
        sound = head == ("topdown.exact", 1, plan.measured_hash)
        if not sound or list(stated) != [e.name for e in plan.invariants.exact]:
            raise damaged(path)
        out = {}
        for exact in plan.invariants.exact:
            if name := tables_of_exact(plan).get(exact.name):
                out[exact.name] = _from_table(path.with_name(name), context, exact, stated[exact.name])
            else:
                out[exact.name] = _listed(context, exact, stated[exact.name])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise damaged(path) from None
    return out


def _listed(context: Context, exact: Exact, stated: dict[str, Any]) -> Ints:
    """Return the answers that exact.json lists itself (ValueError: of other nodes)."""
    nodes = context.geography.levels[context.geography.index(exact.level)].codes
    answers = np.array(stated["answers"], dtype=np.int64)
    shape = (len(nodes), context.plan.query(exact.query).n_answers)
    if tuple(stated["nodes"]) != nodes or answers.shape != shape:
        raise ValueError("it lists other areas")
    return answers


def _from_table(path: Path, context: Context, exact: Exact, stated: dict[str, Any]) -> Ints:
    """Return the answers of the table that exact.json names."""
    if stated["file"] != path.name:
        raise ValueError("it names another file")
    try:
        data = read_plain(path, most_bytes(context, exact))
        if hashlib.sha256(data).hexdigest() != stated["sha256"]:
            raise damaged(path)
        return read_exact_table(data, context, exact)
    except (OSError, ValueError):
        raise damaged(path) from None
