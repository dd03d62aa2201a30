"""The files of a release as a checker reads them: strictly, from their formats only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgsr.write import CERTIFICATE, COUNTS, MEASUREMENTS

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Files:
    """Contents of a release.

    Args:
        folder: where it is.
        manifest, certificate: documents.
        counts, answers: released counts and noisy answers, [size][region].
        parent: region of each region's parent, -1 at the root.
        level: level of each region.
    """

    folder: Path
    manifest: dict[str, Any]
    certificate: dict[str, Any]
    counts: Ints
    answers: Ints
    parent: Ints
    level: Ints


def load(place: Path, manifest: dict[str, Any]) -> Files:
    """Read all files of a release; ValueError, KeyError, TypeError or OSError if one is not what its format says."""
    certificate = read_json(place / CERTIFICATE)
    regions = certificate["regions"]
    index = {code: i for i, (code, _, _) in enumerate(regions)}
    names = [level["name"] for level in certificate["levels"]]
    parent = np.array([index[up] if up else -1 for _, _, up in regions], dtype=np.int64)
    level = np.array([names.index(name) for _, name, _ in regions], dtype=np.int64)
    read = [
        _cells(place / name, column, certificate)
        for name, column in ((COUNTS, "count"), (MEASUREMENTS, "answer"))
    ]
    return Files(place, manifest, certificate, read[0], read[1], parent, level)


def _cells(path: Path, column: str, certificate: dict[str, Any]) -> Ints:
    """Return the values [size][region]; every region and size exactly once, in the certificate's order."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    regions = [code for code, _, _ in certificate["regions"]]
    sizes = certificate["sizes"]
    n_sizes, n_regions = int(sizes["n_sizes"]), len(regions)
    found = table.column("region").combine_chunks().dictionary_decode().to_numpy(zero_copy_only=False)
    if len(found) != n_sizes * n_regions or not np.array_equal(
        found[::n_sizes], np.array(regions, dtype=object)
    ):
        raise ValueError("regions")
    if not np.array_equal(found.reshape(n_regions, n_sizes)[:, 0], found.reshape(n_regions, n_sizes)[:, -1]):
        raise ValueError("regions")
    expected = np.tile(np.arange(n_sizes) + int(sizes["smallest"]), n_regions)
    if not np.array_equal(table.column("size").to_numpy(), expected):
        raise ValueError("sizes")
    values = table.column(column).to_numpy()
    if values.dtype != np.int64:
        raise ValueError("not whole numbers")
    return np.ascontiguousarray(values.reshape(n_regions, n_sizes).T)


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON document that is an object."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise TypeError("not an object")
    return document
