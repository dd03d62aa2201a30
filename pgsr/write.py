"""Write a release: counts, measurements, certificate, ledger, and a manifest that seals them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgsr.documents import VERSION, head
from pgsr.groups import Sizes
from pgsr.hierarchy import Hierarchy, Ints

if TYPE_CHECKING:
    from pgsr._engine import Spend
    from pgsr.make import Release

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


def certificate(made: Release) -> dict[str, Any]:
    """Return the certificate document: everything public that a checker needs."""
    plan, proof = made.calibration, made.estimate.certificate
    levels = made.hierarchy.geography.levels
    return {
        **head("certificate"),
        "release": made.is_release,
        "stamp": made.stamp,
        "truth": None if made.origin is None else made.origin.to_document(),
        "plan_hash": made.plan_hash,
        "journal": made.journal,
        "mechanism": {
            "name": made.mechanism.name,
            "measures": made.kind,
            "claim": made.mechanism.claim,
            "consistent": made.mechanism.keeps,
        },
        "privacy": privacy(made),
        "total": made.total,
        "sizes": {
            "smallest": made.sizes.smallest,
            "n_sizes": made.sizes.n_sizes,
            "too_large": made.sizes.too_large,
        },
        "levels": [
            {"name": level.name, "parameter": str(p), "sensitivity": s, "half_width_95": h}
            for level, p, s, h in zip(
                levels, plan.parameters, plan.sensitivities, half_widths(made), strict=True
            )
        ],
        "regions": [
            [code, level.name, "" if i == 0 else levels[i - 1].codes[up]]
            for i, level in enumerate(levels)
            for code, up in zip(level.codes, level.parent.tolist(), strict=True)
        ],
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


def half_widths(made: Release) -> list[int]:
    """Return the half width of each level's 95 % noise interval of a count (see `intervals`)."""
    from pgsr.intervals import half_width

    plan = made.calibration
    return [half_width(plan.noise, p, accumulates=made.kind != "histogram") for p in plan.parameters]


def privacy(made: Release) -> dict[str, Any]:
    """Return what is protected and what it costs, exact numbers as text."""
    from pgsr import _engine
    from pgsr.make import DELTA
    from pgsr.vectors import RELATION_TEXT

    plan = made.calibration
    found: dict[str, Any] = {
        "unit": "one user (at most one unit of quantity)",
        "relations": list(plan.relations),
        "neighbours": [RELATION_TEXT[relation] for relation in plan.relations],
        "noise": plan.noise,
        "calibration": plan.name,
        "claimed": str(plan.claimed),
        "loss_name": "epsilon" if plan.noise == "geometric" else "rho",
        "loss": str(plan.loss),
        "private_as_claimed": plan.private,
        "public_by_policy": "the number of groups G",
    }
    if plan.noise == "gaussian":
        low, high = _engine.gaussian_epsilon(plan, DELTA)
        found["epsilon"] = {"1e-10": [f"{float(low):.9f}", f"{float(high):.9f}"]}
    return found


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
