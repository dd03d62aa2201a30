"""The release that an extension builds on: read its public files, copy what the extension must carry."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.errors import CertificateError, ConfigError
from topdown.model.geography import Geography
from topdown.model.histogram import Histogram
from topdown.model.public import Rules
from topdown.model.schema import Schema
from topdown.model.sections import files_at, part_path
from topdown.model.support import Support, base_labels
from topdown.plan.code_columns import code_column
from topdown.plan.plan import Base, Plan

FOLDER, PLAN = "base", "plan.json"
COPIES = {  # inside an extension: inside the base release
    PLAN: PLAN,
    "manifest.json": "manifest.json",
    "persons.parquet": "microdata/persons.parquet",
}
LEAVES = "public/leaves.parquet"  # beside the plan, in a release and where it is carried


@dataclass(frozen=True, eq=False)
class BaseFiles:
    """The files of a base release that an extension needs, wherever they lie: in it, or copied.

    Args:
        plan, manifest, table: paths; that of the table as it is in a release of one section.
    """

    plan: Path
    manifest: Path
    table: Path

    @staticmethod
    def of_release(release: Path) -> BaseFiles:
        """Return the files of a release itself."""
        return BaseFiles(*(release / path for path in COPIES.values()))

    @staticmethod
    def of_extension(release: Path) -> BaseFiles:
        """Return the copies inside an extension."""
        return BaseFiles(*(release / FOLDER / name for name in COPIES))

    @property
    def copies(self) -> dict[str, Path]:
        """The files, by where an extension of them has them."""
        tables, name = files_at(self.table), f"{FOLDER}/persons.parquet"
        parted = tables != [self.table]
        out = {f"{FOLDER}/{PLAN}": self.plan, f"{FOLDER}/manifest.json": self.manifest}
        return out | {part_path(name, i) if parted else name: path for i, path in enumerate(tables)}

    @property
    def table_sha256(self) -> str:
        """SHA-256 of the table, in hex; of one in parts, of the lines `hash  part-000.parquet`, in order."""
        tables = files_at(self.table)
        if tables == [self.table]:
            return sha256_of(self.table)
        lines = (f"{sha256_of(path)}  {path.name}\n" for path in tables)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def bytes_of(self) -> dict[str, bytes]:
        """Return what an extension carries of its base, by path inside it."""
        out = {name: path.read_bytes() for name, path in self.copies.items()}
        folder, depth = self.plan.parent, 1
        while (folder / PLAN).is_file():  # the base, what it extends itself, and so on
            for path in carried(depth):
                out[path] = (folder / Path(path).relative_to(f"{FOLDER}/" * depth)).read_bytes()
            folder, depth = folder / FOLDER, depth + 1
        return out


def carried(depth: int) -> tuple[str, str]:
    """Return where an extension carries plan and public facts of its base (1), of the base of that (2), and so on."""
    return f"{FOLDER}/" * depth + PLAN, f"{FOLDER}/" * depth + LEAVES


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_same_base(plan: Plan, files: BaseFiles) -> None:
    """Refuse files that are not those a plan was made from (CertificateError V160)."""
    base = plan.base
    there = all(path.is_file() for path in files.copies.values())
    for path, found, wanted in (
        (files.manifest, sha256_of(files.manifest) if there else "", base.manifest_sha256 if base else "-"),
        (files.table, files.table_sha256 if there else "", base.table_sha256 if base else "-"),
    ):
        if found != wanted:
            raise CertificateError(
                f"{path} is not the file of the base release that the plan names",
                code="V160",
                file=str(path),
                fix="give the base release the plan was made from",
            )


def check_same_plan(base: Base, plan_hash: str, path: Path) -> None:
    """Refuse a plan that is not the one an extension names (CertificateError V160)."""
    if plan_hash != base.plan_hash:
        raise CertificateError(
            f"{path} is not the plan of {base.release}, the release that is extended",
            code="V160",
            file=str(path),
            fix="give the base release the plan was made from",
        )


def describe_base(there: Plan, files: BaseFiles, support: Support, plan: Plan, names: dict[str, str]) -> Base:
    """Return what the plan of an extension says of its base release.

    Args:
        there: plan of the base release.
        files: of the base release.
        support: what its table leaves open.
        plan: of the extension.
        names: see `base_labels`.
    """
    queries = [tuple(support.query(m.query) for m in level.measurements) for level in plan.levels]
    return Base(
        release=there.release.id,
        plan_hash=there.plan_hash,
        manifest_sha256=sha256_of(files.manifest),
        table_sha256=files.table_sha256,
        map=tuple((a.name, names.get(a.name, a.name)) for a in there.schema.attributes),
        n_numbers=tuple(int(support.lengths(i, q).sum()) for i, q in enumerate(queries)),
    )


def read_support(
    schema: Schema, rules: Rules, geography: Geography, base: Schema, names: dict[str, str], table: Path
) -> Support:
    """Read the microdata of a base release and say what they leave open at every node.

    Args:
        schema, rules, geography: of the extension.
        base: schema of the base release.
        names: see `base_labels`.
        table: microdata of the base release (`BaseFiles.table`).

    Raises:
        ConfigError: C093 the schemas do not fit together, C094 the base release has other leaves.
        CertificateError: V160 the microdata cannot be read as documented.
    """
    leaves = geography.leaves.codes
    try:
        columns = ["geocode", *(a.name for a in base.attributes), "count"]
        read = pa.concat_tables(_read(path, columns) for path in files_at(table))
        leaf = _positions(read.column("geocode"), leaves)
        values = tuple(_positions(read.column(a.name), a.labels) for a in base.attributes)
        count = read.column("count").cast(pa.int64()).to_numpy().astype(np.int64)
        sound = not any((v < 0).any() for v in values) and bool((count > 0).all())
    except (pa.ArrowException, OSError, KeyError, ValueError):
        sound = False
    if not sound:
        raise CertificateError(
            f"{table} is not the microdata of a release",
            code="V160",
            file=str(table),
            fix="check the base release with topdown verify; get it again if a check fails",
        )
    if (leaf < 0).any():
        raise ConfigError(
            "the base release has records in areas that this geography lacks",
            code="C094",
            fix="use the geography of the base release",
        )
    found = Histogram.build(len(leaves), base.n_cells, leaf, base.cells(values), count)
    return Support(schema, rules, base_labels(schema, base, names), found.at_every_level(geography))


def _read(path: Path, columns: list[str]) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read(columns=columns)


def _positions(column: pa.ChunkedArray, labels: Sequence[str]) -> NDArray[np.int64]:
    found = pc.index_in(column.cast(pa.string()), value_set=code_column(labels))
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def refuse_resolved(there: Plan) -> None:
    """Refuse to extend a release that solves the measurement of another one (ConfigError C253)."""
    if there.measured is not None:
        raise ConfigError(
            f"{there.release.id} solves the measurement of {there.measured.release}: no ledger was charged for it",
            code="C253",
            fix=f"extend {there.measured.release}",
        )
