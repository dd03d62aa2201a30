"""Files of a release as bytes, how they get into its folder, and one row a group made from them.

Each file is written whole or not at all, the manifest last.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import convert, to_builtins
from pyarrow import parquet

from pgsr.estimators import MEANING, OF_MODEL, OF_NOISE, half_width
from pgsr.formats import (
    ANSWER,
    CERTIFICATE,
    COUNT,
    COUNTS,
    LEDGER,
    MANIFEST,
    README,
    README_FORM,
    VERSION,
    Manifest,
    Microdata,
    Privacy,
    ReleaseDocument,
    SealedFile,
    bound_columns,
    part_file,
    release_files,
)
from pgsr.group_checks import verify
from pgsr.hierarchy import Hierarchy, Sizes
from pgsr.level_noise import Calibration
from pgsr.prepared_release import Prepared, Release
from pgsr.privacy_section import privacy_section
from pgsr.released_groups import load_files, read_certificate
from pgsr.run_settings import NAMELESS, Plan
from topdown import __version__
from topdown.arrays import Ints
from topdown.errors import ConfigError, DataError
from topdown.formats import json_bytes
from topdown.formats.common import EverythingReleased
from topdown.inputs import parquet_bytes
from topdown.made_up import WARNING_FILE
from topdown.output_paths import refuse_existing, refuse_release
from topdown.privacy.ledger import Disk, history_lines, read_book
from topdown.publish.ledger_statement import spent_statement

if TYPE_CHECKING:
    import pyarrow as pa


NO_RELEASE = b"""NOT-A-RELEASE
This folder holds a simulation: its noise was drawn from a known seed, on made-up or public groups, and nothing was
charged for it. It protects nobody.
"""


def release_contents(made: Release, ledger: bytes = b"") -> dict[str, bytes]:
    """Return what estimation makes of the noisy answers: the files that `publish` writes before the manifest.

    Args:
        ledger: of the data set, up to the commit of this release; none for a simulation.
    """
    plan, document = made.prepared, certificate_document(made, ledger)
    ends = [end for bounds in made.bounds for end in bounds]
    columns = dict(zip((COUNT, *bound_columns(plan.sections["coverage"])), (made.counts, *ends), strict=True))
    found = {COUNTS: table_bytes(plan, columns, made.stamp), CERTIFICATE: json_bytes(document)}
    if made.is_release:
        return found | {LEDGER: ledger, README: readme_text(document).encode()}
    levels = range(len(plan.hierarchy.level_names))
    return (
        {WARNING_FILE: NO_RELEASE}
        | found
        | {
            part_file(plan.hierarchy.level_names[i]): answers_bytes(plan, made.noisy, i, made.stamp)
            for i in levels
        }
    )


def publish_release(made: Release, folder: Path, files: Mapping[str, bytes], disk: Disk) -> None:
    """Write the files of a release, and last the manifest that seals them; the same bytes each time.

    Args:
        folder: held by this run; the noisy answers of a release lie in it already.
        files: what `contents` returned.
    """
    if disk.read(folder / MANIFEST) is not None:
        disk.remove(folder / MANIFEST)
        disk.sync_folder(folder)
    for name, data in files.items():
        disk.make_folder((folder / name).parent)
        disk.replace(folder / name, data)
    listed = release_files(made.prepared.hierarchy.level_names, is_release=made.is_release)
    entries = {name: files[name] if name in files else disk.read(folder / name) or b"" for name in listed}
    sealed = {
        name: SealedFile(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
        for name, data in entries.items()
    }
    disk.replace(
        folder / MANIFEST,
        json_bytes(Manifest(engine=__version__, release=made.is_release, stamp=made.stamp, files=sealed)),
    )


def plan_sections(plan: Plan, hierarchy: Hierarchy, total: int, noise: Calibration) -> dict[str, Any]:
    """Return the sections of the certificate that are decided before noise is drawn, public all of them.

    Args:
        total: public number of groups G.
    """
    levels, mechanism, sizes = hierarchy.geography.levels, plan.post_processing, plan.sizes
    accumulates = plan.kind != "histogram"
    return ({} if plan.names == NAMELESS else {"names": to_builtins(plan.names)}) | {
        "mechanism": {
            "name": mechanism.name,
            "measures": plan.kind,
            "claim": mechanism.claim,
            "consistent": mechanism.consistent,
        },
        "privacy": privacy_section(plan, hierarchy.tree, noise),
        "total": total,
        "public_totals": dict(plan.public),
        "sizes": {"smallest": sizes.smallest, "n_sizes": sizes.n_sizes, "too_large": sizes.too_large},
        "coverage": [str(coverage) for coverage in plan.coverages],
        "levels": [
            {
                "name": level.name,
                "parameter": str(p),
                "sensitivity": s,
                "half_widths": [
                    half_width(noise.noise, p, accumulates=accumulates, coverage=coverage)
                    for coverage in plan.coverages
                ],
            }
            for level, p, s in zip(levels, noise.parameters, noise.sensitivities, strict=True)
        ],
        "regions": [
            [code, level.name, "" if i == 0 else levels[i - 1].codes[up]]
            for i, level in enumerate(levels)
            for code, up in zip(level.codes, level.parent.tolist(), strict=True)
        ],
    }


def hash_sections(plan: dict[str, Any]) -> str:
    """Return the SHA-256 of the sections that `plan_sections` returns, as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def certificate_document(made: Release, ledger: bytes = b"") -> dict[str, Any]:
    """Return the certificate document: everything public that a checker needs.

    Args:
        ledger: see `release_contents`.
    """
    proof, plan = made.estimate.certificate, made.prepared
    method = OF_NOISE if made.estimate.posterior is None else OF_MODEL
    return {
        "type": "pgsr.certificate",
        "version": VERSION,
        "engine": __version__,
        "release": made.is_release,
        "stamp": made.stamp,
        "truth": None if made.origin is None else made.origin.to_document(),
        "plan_hash": plan.plan_hash,
        "journal": made.journal,
        "everything_released": to_builtins(spent_statement(read_book(ledger, Path(LEDGER))[0]))
        if ledger
        else None,
        **plan.sections,
        **_choice_section(made),
        "intervals": {"method": method, "meaning": MEANING[method]},
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


def release_document(made: Release) -> ReleaseDocument:
    """Return the result of a release or simulation as a document."""
    plan = made.prepared
    return ReleaseDocument(
        engine=__version__,
        release=made.is_release,
        stamp=made.stamp,
        folder=str(made.folder),
        mechanism=plan.mechanism.name,
        plan_hash=plan.plan_hash,
        n_regions=plan.hierarchy.tree.n_nodes,
        n_sizes=plan.sizes.n_sizes,
        total=plan.total,
        charged=str(made.charged),
        n_attempts=made.n_attempts,
        privacy=convert(plan.sections["privacy"], Privacy),
    )


def _choice_section(made: Release) -> dict[str, list[tuple[int, int]]]:
    """Return how many columns and rows each region was measured by, if there are rows."""
    public = made.prepared.rows_design
    if public is None:
        return {}
    choice = public.choice(made.noisy)
    return {"choice": list(zip(choice.columns.tolist(), choice.rows.tolist(), strict=True))}


COLUMNS = 112
TITLE = "Numbers of groups by size"


def readme_text(certificate: Mapping[str, Any]) -> str:
    """Return README.txt: whose release it is, what is said of privacy, what is exact, what each file holds.

    Args:
        certificate: certificate.json of a release, not of a simulation.
    """
    privacy, sizes, ledger = certificate["privacy"], certificate["sizes"], certificate["everything_released"]
    names = dict.fromkeys(("title", "agency", "contact", "licence"), "") | certificate.get("names", {})
    more = " or more" if sizes["too_large"] == "top-code" else ""
    said = [line for row in privacy["secrets"] for line in _lines_of(row)]
    said += [] if ledger is None else history_lines(convert(ledger, EverythingReleased))
    return README_FORM.format(
        title=names["title"] or TITLE,
        groups=certificate["total"],
        regions=len(certificate["regions"]),
        smallest=sizes["smallest"],
        largest=f"{sizes['smallest'] + sizes['n_sizes'] - 1}{more}",
        agency=names["agency"] or "agency not stated",
        contact=names["contact"] or "not stated",
        licence=names["licence"] or "not stated; ask who gave you the data",
        date="not stated" if ledger is None else ledger["up_to"]["date"],
        plan=certificate["plan_hash"][:8],
        unit=privacy["unit"],
        said="".join(fill(line, COLUMNS) + "\n" for line in said),
        exact=fill(f"Published without noise: {', '.join(privacy['conditional_on'])}.", COLUMNS),
        intervals=fill(f"An interval is {certificate['intervals']['meaning']}.", COLUMNS),
    )


def _lines_of(row: Mapping[str, Any]) -> list[str]:
    """Return what is said of one neighbour step: its sentence, with epsilon; or what discloses it."""
    if row["status"] == "disclosed":
        return [f"Not protected: {row['name']}, {row['sentence']}."]
    ((delta, (_, high)),) = row["epsilon"].items()
    at = "" if delta == "0" else f" at delta {delta}"
    return [row["sentence"], f"Epsilon is at most {high}{at} ({row['name']})."]


def answers_bytes(plan: Prepared, noisy: Ints, level: int, stamp: str) -> bytes:
    """Return the file of the noisy answers of one level.

    Args:
        plan: regions and sizes.
        noisy: [size][node] of all levels.
        level: position of the level.
        stamp: NOT-A-RELEASE, or empty.
    """
    return table_bytes(plan, {ANSWER: noisy}, stamp, plan.hierarchy.tree.columns(level))


def table_bytes(plan: Prepared, values: Mapping[str, Ints], stamp: str, nodes: slice = slice(None)) -> bytes:
    """Return a Parquet file with one row a region and size: region, level, size, values; regions in node order."""
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
    return parquet_bytes(kind, table, {"stamp": stamp} if stamp else {})


MOST_ROWS = 2**31
ROWS_A_TIME = 2**20


def write_groups(folder: Path | str, out: Path | str) -> tuple[Microdata, Sizes]:
    """Write one row for every released group of a leaf region: unit, region, size; regions and sizes in order.

    Units are numbers from 1 on that say nothing else. Any table of the rows agrees with the released counts; the
    members of a region are the sum over sizes s from 1 on of its groups of size s or more.

    Args:
        folder: a release.
        out: Parquet file to write; a new one.

    Returns:
        What was written, and the sizes of the release; where larger groups count as the last size, members are at
        least as many.

    Raises:
        DataError: no release (D137), one that fails its own checks (D140), or a file that cannot be written (D050).
        ConfigError: a simulation (C122), counts that are not whole numbers from 0 on (C186), too many groups (C158), or
            a file that is there (C080) or lies in a release (C132).
    """
    place, target = Path(folder), Path(out)
    refuse_existing(target, force=False)
    refuse_release(target, "--out")
    failed = [check.name for check in verify(place) if not check.ok]
    if failed:
        raise DataError(
            f"{ascii(str(place))[1:-1]} fails its checks: {', '.join(failed)}",
            code="D140",
            fix="see what pgsr verify finds; get the release again from its publisher",
        )
    document = read_certificate(place)
    if not document["mechanism"]["consistent"]:
        raise ConfigError(
            f"{document['mechanism']['name']} promises no counts from 0 on that add up: they are no groups",
            code="C186",
            fix="release with a consistent mechanism, such as posterior",
        )
    files = load_files(place, document)
    leaf = files.level == files.level.max()
    if int(document["total"]) > MOST_ROWS:
        raise ConfigError(
            f"{document['total']:,} groups are more rows than are written", code="C158", fix="use the counts"
        )
    sizes = Sizes(**document["sizes"])
    names = [code for (code, _, _), here in zip(document["regions"], leaf, strict=True) if here]
    counts = files.counts[:, leaf]
    _write_parquet(target, _group_rows(counts, names, sizes.smallest))
    labels = np.arange(sizes.n_sizes) + sizes.smallest
    made = Microdata(
        engine=__version__,
        folder=str(folder),
        file=str(out),
        groups=int(counts.sum()),
        members=int(labels @ counts.sum(axis=1)),
        members_exact=sizes.too_large == "refuse",
    )
    return made, sizes


def _group_rows(counts: Ints, names: list[str], smallest: int) -> Iterator[pa.Table]:
    """Yield rows region by region, some at a time, so that memory holds no more."""
    regions, before = pa.array(names, pa.string()), 0
    ends = np.cumsum(counts.T.reshape(-1))
    n_sizes = len(counts)
    while before < int(ends[-1]):
        unit = np.arange(before, min(before + ROWS_A_TIME, int(ends[-1])), dtype=np.int64)
        cell = np.searchsorted(ends, unit, side="right")
        region = pa.DictionaryArray.from_arrays(pa.array(cell // n_sizes, pa.int32()), regions)
        size = pa.array(cell % n_sizes + smallest, pa.int32())
        yield pa.table({"unit": pa.array(unit + 1), "region": region, "size": size})
        before += len(unit)


def _write_parquet(target: Path, tables: Iterator[pa.Table]) -> None:
    """Write a new Parquet file; what is not whole is removed."""
    region = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("unit", pa.int64()), ("region", region), ("size", pa.int32())])
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        file = os.fdopen(os.open(target, flags, 0o644), "wb")
    except OSError as error:
        raise _unwritten(target, error) from None
    try:
        with file, parquet.ParquetWriter(file, schema, compression="zstd", store_schema=False) as writer:
            for table in tables:
                writer.write_table(table)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritten(target, error) from None
        raise


def _unwritten(target: Path, error: OSError) -> DataError:
    return DataError(
        f"cannot write {target}: {error.strerror or type(error).__name__}",
        code="D050",
        file=str(target),
        fix="make room, and give --out a new file in a folder that is there",
    )
