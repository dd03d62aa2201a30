"""The files of a release as a checker reads them: following no link, strictly, from their formats only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, convert
from numpy.typing import NDArray

from pgsr.documents.certificate import VERSION, Certificate
from pgsr.folder import ANSWER, CERTIFICATE, COUNT, COUNTS, LOWER, UPPER, part_file
from topdown.canonical import json_bytes
from topdown.errors import DataError
from topdown.publish.verify.reader import UnreadableError, open_inside, parse_json, read_bytes
from topdown.publish.verify.reader import sha256_of as digest_of

Ints = NDArray[np.int64]
KINDS = {COUNT: "pgsr.counts", ANSWER: "pgsr.measurements"}


@dataclass(frozen=True, eq=False)
class Files:
    """Contents of a release.

    Args:
        folder: where it is.
        certificate: the document.
        counts, lower, upper: released counts and the bounds beside them, [size][region].
        answers: noisy answers, [size][region].
        parent: region of each region's parent, -1 at the root.
        level: level of each region.
    """

    folder: Path
    certificate: dict[str, Any]
    counts: Ints
    lower: Ints
    upper: Ints
    answers: Ints
    parent: Ints
    level: Ints

    @property
    def level_names(self) -> list[str]:
        """Names of the levels, root first."""
        return [level["name"] for level in self.certificate["levels"]]


class OddFileError(ValueError):
    """A file is not what its format says; the text names it and says why."""


def load(place: Path, certificate: dict[str, Any]) -> Files:
    """Read counts and answers of a release whose certificate has the right form.

    Raises:
        OddFileError: a file is not what its format says.
    """
    regions, stamp = certificate["regions"], certificate["stamp"]
    names = [level["name"] for level in certificate["levels"]]
    index = {code: i for i, (code, _, _) in enumerate(regions)}
    try:
        parent = np.array([index[up] if up else -1 for _, _, up in regions], dtype=np.int64)
        level = np.array([names.index(name) for _, name, _ in regions], dtype=np.int64)
    except (KeyError, ValueError):
        raise OddFileError(f"{CERTIFICATE} names a parent or a level that is not listed") from None
    own = np.arange(len(regions))
    ordered = np.array_equal(level, np.sort(level)) and np.all(parent < own) and np.all(parent[1:] >= 0)
    nested = len(parent) == 1 or np.array_equal(level[parent[1:]] + 1, level[1:])
    if (
        len(index) != len(regions)
        or not ordered
        or not nested
        or set(level.tolist()) != set(range(len(names)))
    ):
        raise OddFileError(f"{CERTIFICATE} does not list its regions as a tree, level by level")
    released = _cells(place, COUNTS, (COUNT, LOWER, UPPER), certificate, slice(None), stamp)
    parts = []
    for i, name in enumerate(names):
        here = np.flatnonzero(level == i)
        nodes = slice(int(here[0]), int(here[-1]) + 1)
        parts += _cells(place, part_file(name), (ANSWER,), certificate, nodes, stamp)
    counts, lower, upper = released
    return Files(place, certificate, counts, lower, upper, np.concatenate(parts, axis=1), parent, level)


def read_certificate(place: Path) -> dict[str, Any]:
    """Return the certificate; OddFileError if it has another form, or is not written in its canonical form.

    Raises:
        DataError: it is one of another version (D138).
    """
    document = read_document(place, CERTIFICATE)
    if (
        document.get("type") == "pgsr.certificate"
        and type(document.get("version")) is int
        and document["version"] != VERSION
    ):
        raise DataError(
            f"{place} was written by another version of pgsr, whose certificate says less",
            code="D138",
            fix="check it with that version, or release again",
        )
    try:
        check_form(document, Certificate)
    except (ValueError, TypeError, RecursionError) as error:
        raise OddFileError(f"{CERTIFICATE} is not of its form: {str(error)[:120]}") from None
    return document


def check_form(document: dict[str, Any], form: type[Struct]) -> None:
    """Raise ValueError, in words that name the place, unless a document has exactly this form."""
    convert(document, form, strict=True)


def read_document(place: Path, path: str) -> dict[str, Any]:
    """Return a JSON object that is written in its canonical form; OddFileError otherwise."""
    data = read_file(place, path)
    try:
        document = parse_json(data, "", path)
        canonical = json_bytes(document)
    except UnreadableError as error:
        raise OddFileError(str(error)) from None
    except (ValueError, RecursionError):
        raise OddFileError(f"{path} is not JSON") from None
    if data != canonical:
        raise OddFileError(f"{path} is not written in its canonical form")
    return document


def read_file(place: Path, path: str) -> bytes:
    """Return the bytes of a plain file below a folder; OddFileError if it is missing, a link or something else."""
    try:
        return read_bytes(place, path, "")
    except UnreadableError as error:
        raise OddFileError(str(error)) from None


def sha256_of(place: Path, path: str) -> str:
    """Return the SHA-256 of a plain file below a folder; OSError or ValueError if it is none."""
    with open_inside(place, path) as file:
        return digest_of(file)


def _cells(
    place: Path, path: str, values: tuple[str, ...], certificate: dict[str, Any], nodes: slice, stamp: str
) -> list[Ints]:
    """Return columns, [size][region] each; every region and size exactly once, in the certificate's order."""
    import pyarrow as pa

    from topdown.publish.verify.parquet_file import TEXT, WHOLE, ParquetTable

    regions, sizes = certificate["regions"][nodes], certificate["sizes"]
    n_sizes, n_rows = int(sizes["n_sizes"]), int(sizes["n_sizes"]) * len(regions)
    columns = {"region": TEXT, "level": TEXT, "size": pa.int32(), **dict.fromkeys(values, WHOLE)}
    try:
        opened = ParquetTable(place, path, "", KINDS[values[0]], columns, n_rows, {"stamp": stamp})
        if opened.n_rows != n_rows:
            opened.close()
            raise OddFileError(f"{path} does not have one row a region and size")
        table = opened.read()
    except UnreadableError as error:
        raise OddFileError(str(error)) from None
    for name, place_in in (("region", 0), ("level", 1)):
        due = pa.array([row[place_in] for row in regions], pa.string()).take(
            pa.array(np.repeat(np.arange(len(regions)), n_sizes))
        )
        if not table.column(name).combine_chunks().cast(pa.string()).equals(due):
            raise OddFileError(f"{path} does not list every {name} in the certificate's order")
    expected = np.tile(np.arange(n_sizes) + int(sizes["smallest"]), len(regions))
    if not np.array_equal(table.column("size").to_numpy(), expected):
        raise OddFileError(f"{path} does not list every size")
    shape = len(regions), n_sizes
    return [np.ascontiguousarray(table.column(name).to_numpy().reshape(shape).T) for name in values]
