"""Publish other records under the measurements of a release, with everything else made anew to match."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from topdown.model.histogram import Histogram
from topdown.plan.prepare import load_context
from topdown.publish.certified import certified_privacy
from topdown.publish.publish import publish
from topdown.solve.digest import records_sha256
from topdown.solve.solve import write_document


def forge(release: Path, out: Path, leaves: Histogram) -> Path:
    """Copy a release with other microdata: tables, digests, certificate and manifest are those of a true one.

    Raises:
        CertificateError: the records break what `verify` looks at.
    """
    shutil.copytree(release, out)
    document = json.loads((out / "solve.json").read_text())
    write_document(out / "solve.json", document | {"records_sha256": records_sha256(leaves)})
    context = load_context(out)
    ledger = out.with_suffix(".jsonl")
    ledger.write_bytes((out / "ledger.jsonl").read_bytes())
    publish(out, context, leaves, ledger, privacy=certified_privacy(context.plan))
    return out


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
