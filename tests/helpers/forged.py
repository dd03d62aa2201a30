"""Releases solved from chosen measurements, and other records published under the measurements of a release."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.small_release import Small, build, certified, edit_table, write_journal, write_ledger
from tests.helpers.solved import solve_release
from topdown.formats import CertifiedPrivacy, json_bytes
from topdown.measure import read_microdata
from topdown.model import Histogram
from topdown.plan import PublicContext, load_context
from topdown.publish import certified_privacy, publish
from topdown.solve import records_sha256


def solved_release(folder: Path, answers: Callable[[dict[str, Any]], list[int]] | None = None) -> Small:
    """Build the small release of `small_release` with the records that follow from its measurements.

    Args:
        answers: noisy answers of a row of the measurement files, instead of those drawn at random.
    """
    small = build(folder)
    if answers is not None:
        for path in (small.folder / "measurements").glob("*/*.parquet"):
            edit_table(path, lambda rows: [row.update(answers=answers(row)) for row in rows] and None)
        write_journal(small.folder, small.context)
        write_ledger(small.ledger, small.context, small.folder)
    leaves, _ = solve_release(small.folder)
    publish(small.folder, small.context, leaves, small.ledger, privacy=certified())
    return Small(small.folder, small.context, leaves, small.ledger)


def microdata(release: Path) -> Histogram:
    """Read the published records of a release."""
    return read_microdata(release / "microdata" / "persons.parquet", load_context(release))


def forge(release: Path, out: Path, leaves: Histogram) -> Path:
    """Copy a release with other microdata: tables, digests, certificate and manifest are those of a true one.

    Raises:
        CertificateError: the records break what `verify` looks at.
    """
    shutil.copytree(release, out)
    document = json.loads((out / "solve.json").read_text())
    (out / "solve.json").write_bytes(json_bytes(document | {"records_sha256": records_sha256(leaves)}))
    context = load_context(out)
    ledger = out.with_suffix(".jsonl")
    ledger.write_bytes((out / "ledger.jsonl").read_bytes())
    publish(out, context, leaves, ledger, privacy=_privacy(context))
    return out


_KNOWN: dict[str, CertifiedPrivacy] = {}  # one plan is forged many times


def _privacy(context: PublicContext) -> CertifiedPrivacy:
    plan_hash = context.plan.plan_hash
    if plan_hash not in _KNOWN:
        _KNOWN[plan_hash] = certified_privacy(context.policy)
    return _KNOWN[plan_hash]


def move_one(leaves: Histogram, rng: np.random.Generator, *, between_leaves: bool) -> Histogram:
    """Move one record to another cell of its leaf, or to the same cell of another leaf."""
    at = int(rng.integers(len(leaves.node)))
    node, cell = int(leaves.node[at]), int(leaves.cell[at])
    if between_leaves:
        to_node, to_cell = int((node + rng.integers(1, leaves.n_nodes)) % leaves.n_nodes), cell
    else:
        to_node, to_cell = node, int((cell + rng.integers(1, leaves.n_cells)) % leaves.n_cells)
    return Histogram.build(
        leaves.n_nodes,
        leaves.n_cells,
        np.append(leaves.node, [node, to_node]),
        np.append(leaves.cell, [cell, to_cell]),
        np.append(leaves.count, [-1, 1]),
    )
