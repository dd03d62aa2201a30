"""Write a release: counts, measurements, certificate, ledger, and a manifest that seals them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgsr.documents import VERSION, head
from pgsr.groups import Sizes
from pgsr.hierarchy import Hierarchy, Ints

if TYPE_CHECKING:
    from pgsr.budget import Calibration
    from pgsr.ledger import Spend
    from pgsr.make import Release
    from pgsr.mechanism import Mechanism
    from pgsr.vectors import Kind

COUNTS, MEASUREMENTS = "counts.parquet", "measurements.parquet"
CERTIFICATE, LEDGER, MANIFEST = "certificate.json", "ledger.jsonl", "manifest.json"


def write_release(made: Release, folder: Path | None, charge: Spend | None) -> None:
    """Write all files of a release and commit its charge; with no folder, only commit.

    Args:
        made: the release.
        folder: new or empty folder.
        charge: open intent; None for a simulation.
    """
    if folder is None:
        if charge is not None:
            charge.commit(hashlib.sha256(made.noisy.tobytes()).hexdigest())
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_cells(folder / MEASUREMENTS, made.hierarchy, made.sizes, made.noisy, "answer", made.stamp)
    write_cells(folder / COUNTS, made.hierarchy, made.sizes, made.counts, "count", made.stamp)
    write_json(folder / CERTIFICATE, certificate(made))
    if charge is not None:
        digest = sha256(folder / MEASUREMENTS)
        (folder / LEDGER).write_bytes(charge.commit(digest))
    files = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    write_json(
        folder / MANIFEST,
        {
            **head("manifest"),
            "release": made.is_release,
            "stamp": made.stamp,
            "files": {path.name: {"sha256": sha256(path), "bytes": path.stat().st_size} for path in files},
        },
    )


def plan_sections(
    hierarchy: Hierarchy,
    sizes: Sizes,
    total: int,
    public: Mapping[str, int],
    mechanism: Mechanism,
    kind: Kind,
    calibration: Calibration,
    privacy: dict[str, Any],
) -> dict[str, Any]:
    """Return the sections of the certificate that are decided before noise is drawn, public all of them.

    Args:
        hierarchy, sizes, total, public: the regions, the range of sizes, G, and public numbers of groups.
        mechanism, kind, calibration: what is measured, with which noise, and how it is estimated.
        privacy: what is promised (see `statement`).
    """
    from pgsr.intervals import half_width

    levels, plan = hierarchy.geography.levels, calibration
    return {
        "mechanism": {
            "name": mechanism.name,
            "measures": kind,
            "claim": mechanism.claim,
            "consistent": mechanism.keeps,
        },
        "privacy": privacy,
        "total": total,
        "public_totals": dict(public),
        "sizes": {"smallest": sizes.smallest, "n_sizes": sizes.n_sizes, "too_large": sizes.too_large},
        "levels": [
            {
                "name": level.name,
                "parameter": str(p),
                "sensitivity": s,
                "half_width_95": half_width(plan.noise, p, accumulates=kind != "histogram"),
            }
            for level, p, s in zip(levels, plan.parameters, plan.sensitivities, strict=True)
        ],
        "regions": [
            [code, level.name, "" if i == 0 else levels[i - 1].codes[up]]
            for i, level in enumerate(levels)
            for code, up in zip(level.codes, level.parent.tolist(), strict=True)
        ],
    }


def hash_of(plan: dict[str, Any]) -> str:
    """Return the SHA-256 of the sections that `plan_sections` returns, as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def certificate(made: Release) -> dict[str, Any]:
    """Return the certificate document: everything public that a checker needs."""
    proof = made.estimate.certificate
    return {
        **head("certificate"),
        "release": made.is_release,
        "stamp": made.stamp,
        "truth": None if made.origin is None else made.origin.to_document(),
        "plan_hash": made.plan_hash,
        "journal": made.journal,
        **made.plan,
        "optimality": None
        if proof is None
        else {
            "optimal": proof.optimal,
            "largest_gain": proof.largest_gain,
            "n_checks": proof.n_checks,
            "model": "exchange on Model 1",
            "of_measurements": made.mechanism.name == "M_H^dp",
        },
    }


def write_cells(path: Path, hierarchy: Hierarchy, sizes: Sizes, values: Ints, name: str, stamp: str) -> None:
    """Write one row a region and size: region, level, size, value; regions in node order."""
    import pyarrow as pa
    from pyarrow import parquet

    n_sizes, n_nodes = values.shape
    tree = hierarchy.tree
    region = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.arange(n_nodes, dtype=np.int32), n_sizes)), pa.array(hierarchy.regions)
    )
    level = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(tree.level_of.astype(np.int32), n_sizes)), pa.array(hierarchy.level_names)
    )
    size = np.tile(np.arange(n_sizes, dtype=np.int32) + sizes.smallest, n_nodes)
    table = pa.table({"region": region, "level": level, "size": size, name: values.T.reshape(-1)})
    notes = {"type": f"pgsr.{path.stem}", "version": str(VERSION), "stamp": stamp}
    parquet.write_table(table.replace_schema_metadata(notes), path, compression="zstd")


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document, UTF-8, ending with a newline."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
