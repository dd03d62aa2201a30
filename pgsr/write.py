"""Files of a release as bytes, and how they get into its folder: each whole or not at all, the manifest last."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pgsr.budget import Calibration
from pgsr.documents.certificate import VERSION
from pgsr.documents.manifest import Manifest, SealedFile
from pgsr.documents.shared import Stamp
from pgsr.folder import (
    ANSWER,
    CERTIFICATE,
    COUNT,
    COUNTS,
    LEDGER,
    LOWER,
    MANIFEST,
    UPPER,
    part_file,
    release_files,
)
from pgsr.hierarchy import Hierarchy, Ints
from pgsr.intervals import MEANING, OF_MODEL, OF_NOISE, half_width
from pgsr.plan import Plan
from pgsr.prepared import Prepared, Release
from pgsr.statement import privacy
from topdown import __version__
from topdown.canonical import json_bytes
from topdown.ledger.durable import Disk
from topdown.made_up import WARNING

TABLE_VERSION = "1"
NO_RELEASE = b"""NOT-A-RELEASE
This folder holds a simulation: its noise was drawn from a known seed, on made-up or public groups, and nothing was
charged for it. It protects nobody.
"""


def contents(made: Release, ledger: bytes = b"") -> dict[str, bytes]:
    """Return what estimation makes of the noisy answers: the files that `publish` writes before the manifest.

    Args:
        made: the release.
        ledger: of the data set, up to the commit of this release; none for a simulation.
    """
    plan = made.prepared
    found = {
        COUNTS: cells(
            plan, dict(zip((COUNT, LOWER, UPPER), (made.counts, *made.bounds), strict=True)), made.stamp
        ),
        CERTIFICATE: json_bytes(certificate(made)),
    }
    if made.is_release:
        return found | {LEDGER: ledger}
    levels = range(len(plan.hierarchy.level_names))
    return (
        {WARNING: NO_RELEASE}
        | found
        | {
            part_file(plan.hierarchy.level_names[i]): answers_of(plan, made.noisy, i, made.stamp)
            for i in levels
        }
    )


def publish(made: Release, folder: Path, files: Mapping[str, bytes], disk: Disk) -> None:
    """Write the files of a release, and last the manifest that seals them; the same bytes each time.

    Args:
        made: the release.
        folder: held by this run; the noisy answers of a release lie in it already.
        files: what `contents` returned.
        disk: how files are written.
    """
    if disk.read(folder / MANIFEST) is not None:
        disk.remove(folder / MANIFEST)
        disk.sync_folder(folder)
    for name, data in files.items():
        disk.make_folder((folder / name).parent)
        disk.replace(folder / name, data)
    listed = release_files(made.prepared.hierarchy.level_names, is_release=made.is_release)
    entries = {name: files[name] if name in files else disk.read(folder / name) or b"" for name in listed}
    disk.replace(folder / MANIFEST, json_bytes(manifest(entries, made.is_release, made.stamp)))


def manifest(files: Mapping[str, bytes], is_release: bool, stamp: Stamp) -> Manifest:
    """Return the manifest of a release's other files."""
    sealed = {
        name: SealedFile(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
        for name, data in files.items()
    }
    return Manifest(engine=__version__, release=is_release, stamp=stamp, files=sealed)


def plan_sections(plan: Plan, hierarchy: Hierarchy, total: int, noise: Calibration) -> dict[str, Any]:
    """Return the sections of the certificate that are decided before noise is drawn, public all of them.

    Args:
        plan: what is released, and how it is measured.
        hierarchy: the regions.
        total: public number of groups G.
        noise: of every level.
    """
    levels, mechanism, sizes = hierarchy.geography.levels, plan.post_processing, plan.sizes
    accumulates = plan.kind != "histogram"
    return {
        "mechanism": {
            "name": mechanism.name,
            "measures": plan.kind,
            "claim": mechanism.claim,
            "consistent": mechanism.keeps,
        },
        "privacy": privacy(plan, hierarchy.tree, noise),
        "total": total,
        "public_totals": dict(plan.public),
        "sizes": {"smallest": sizes.smallest, "n_sizes": sizes.n_sizes, "too_large": sizes.too_large},
        "levels": [
            {
                "name": level.name,
                "parameter": str(p),
                "sensitivity": s,
                "half_width_95": half_width(noise.noise, p, accumulates=accumulates),
            }
            for level, p, s in zip(levels, noise.parameters, noise.sensitivities, strict=True)
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
    proof, plan = made.estimate.certificate, made.prepared
    return {
        "type": "pgsr.certificate",
        "version": VERSION,
        "engine": __version__,
        "release": made.is_release,
        "stamp": made.stamp,
        "truth": None if made.origin is None else made.origin.to_document(),
        "plan_hash": plan.plan_hash,
        "journal": made.journal,
        **plan.sections,
        **_choice(made),
        "intervals": {
            "method": OF_NOISE if made.estimate.half_widths is None else OF_MODEL,
            "meaning": MEANING,
        },
        "optimality": None
        if proof is None
        else {
            "optimal": proof.optimal,
            "largest_gain": proof.largest_gain,
            "n_checks": proof.n_checks,
            "model": "exchange on Model 1",
            "of_measurements": plan.mechanism.name == "M_H^dp",
        },
    }


def _choice(made: Release) -> dict[str, list[tuple[int, int]]]:
    """Return how many columns and rows each region was measured by, if there are rows."""
    public = made.prepared.sideways
    if public is None:
        return {}
    choice = public.choice(made.noisy)
    return {"choice": list(zip(choice.columns.tolist(), choice.rows.tolist(), strict=True))}


def answers_of(plan: Prepared, noisy: Ints, level: int, stamp: str) -> bytes:
    """Return the file of the noisy answers of one level.

    Args:
        plan: regions and sizes.
        noisy: [size][node] of all levels.
        level: position of the level.
        stamp: NOT-A-RELEASE, or empty.
    """
    return cells(plan, {ANSWER: noisy}, stamp, plan.hierarchy.tree.columns(level))


def cells(plan: Prepared, values: Mapping[str, Ints], stamp: str, nodes: slice = slice(None)) -> bytes:
    """Return a Parquet file with one row a region and size: region, level, size, values; regions in node order."""
    import pyarrow as pa
    from pyarrow import parquet

    tree, n_sizes = plan.hierarchy.tree, plan.sizes.n_sizes
    chosen = np.arange(tree.n_nodes, dtype=np.int32)[nodes]
    region = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(chosen, n_sizes)), pa.array(plan.hierarchy.regions)
    )
    level = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(tree.level_of.astype(np.int32)[nodes], n_sizes)),
        pa.array(plan.hierarchy.level_names),
    )
    size = np.tile(np.arange(n_sizes, dtype=np.int32) + plan.sizes.smallest, len(chosen))
    columns = {name: value[:, nodes].T.reshape(-1) for name, value in values.items()}
    table = pa.table({"region": region, "level": level, "size": size, **columns})
    kind = "pgsr.counts" if COUNT in values else "pgsr.measurements"
    sink = io.BytesIO()
    with parquet.ParquetWriter(
        sink, table.schema, compression="zstd", store_schema=False, write_page_checksum=True
    ) as writer:
        writer.write_table(table)
        stamps = {"stamp": stamp} if stamp else {}
        writer.add_key_value_metadata({"type": kind, "version": TABLE_VERSION} | stamps)
    return sink.getvalue()
