"""What a solve was made from and what came out, as two SHA-256 (docs/format.md, solve.json)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from topdown.model.leaf_table import LeafTable
from topdown.plan.base import BaseFiles, sha256_of
from topdown.plan.plan import MEASURED_PLAN, Plan

OF_EVERY_RELEASE = (
    "plan.json",
    "public/geography.parquet",
    "public/leaves.parquet",
    "measurements/exact.json",
)


def inputs_sha256(release: Path, plan: Plan) -> str:
    """Return the digest of all files that a solve reads: the SHA-256 of what sha256sum prints for them, by path.

    Args:
        release: folder with plan, public facts, measurements, the copies of a base release if there is one, and the
            plan that was measured if it is another.
    """
    paths = [release / path for path in OF_EVERY_RELEASE]
    paths += BaseFiles.of_extension(release).copies.values() if plan.base is not None else []
    paths += [release / MEASURED_PLAN] if plan.measured is not None else []
    for level in plan.levels:
        paths += (release / "measurements" / level.name).glob("part-*.parquet")
    lines = sorted((path.relative_to(release).as_posix(), sha256_of(path)) for path in paths)
    return hashlib.sha256("".join(f"{digest}  {path}\n" for path, digest in lines).encode()).hexdigest()


def records_sha256(leaves: LeafTable) -> str:
    """Return the digest of the records of every leaf and cell, whatever file holds them.

    That is the SHA-256 of the line `records N`, where N counts entries, and of the numbers of their leaves, of their
    cells and their counts, each as little-endian int64, in order of leaf and cell.
    """
    digest = hashlib.sha256(f"records {leaves.n_entries}\n".encode())
    for column in ("node", "cell", "count"):
        for piece in leaves.pieces():
            digest.update(np.ascontiguousarray(getattr(piece, column), dtype="<i8").data)
    return digest.hexdigest()
