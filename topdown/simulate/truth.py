"""The truth of a simulation: made-up or public records, shown to be so before a row is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from topdown.errors import ConfigError
from topdown.frames import HeldTable
from topdown.made_up import Origin, check_reason, origin_of, refuse_simulation
from topdown.measure.confidential import load_records
from topdown.measure.records import PLAIN, Form
from topdown.measure.truth import Truth
from topdown.model.sections import files_at
from topdown.plan.bases import read_plan_document
from topdown.plan.prepare import Context
from topdown.publish.microdata import PERSONS


def open_truth(
    path: Path | HeldTable, context: Context, reason: str = "", form: Form = PLAIN
) -> tuple[Origin, Truth]:
    """Read the records a simulation takes for true.

    Args:
        path: a table, as file or in memory, or the folder of a release, whose microdata are read.
        context: plan and public facts; the records must meet its rules.
        reason: why the table is public; needed where it is neither marked nor a release.
        form: columns of a table; those of a release are known.

    Returns:
        where they come from, without a digest if they are in memory, and the records.

    Raises:
        ConfigError: C121 the records are not known to be made up or public, C122 they are a simulation's.
        DataError: they are not of this schema and geography, or break a rule.
        InfeasibleError: exact statistics exclude each other.
    """
    table, parts = path, list[Path]()
    if isinstance(path, HeldTable):
        origin = _held(reason)
    elif path.is_dir():
        origin, table, form = _release(path, reason), path / PERSONS, PLAIN
        parts = [part for part in files_at(table) if pq.read_metadata(part).num_rows]
    else:
        origin = origin_of(path, reason)
    truth = Truth(context, load_records(table, context, form, list_errors=False, parts=parts))
    found = truth.contradiction()
    if found is not None:
        raise found.error()
    return origin, truth


def _held(reason: str) -> Origin:
    """Refuse a table in memory of which nobody says why it is public (ConfigError C121): it carries no mark."""
    if not check_reason(reason):
        raise ConfigError(
            "records given as a data frame carry no mark that they are made up; noise that is not charged is drawn on "
            "made-up or public records only",
            code="C121",
            fix="say where they come from: truth_is_public=REASON, or give the marked file; nothing was drawn",
        )
    return Origin("public", "data frame", "", check_reason(reason))


def _release(folder: Path, reason: str) -> Origin:
    from topdown.publish.verify import verify

    reason = check_reason(reason)
    refuse_simulation(folder)
    checks = verify(folder)
    if not checks.ok:
        failed = ", ".join(check.name for check in checks.checks if not check.ok)
        raise ConfigError(
            f"{folder} is no release that passes its verification ({failed})",
            code="C121",
            file=str(folder),
            fix=f"see: topdown verify {folder}; simulate on a published release or on made-up records; "
            "nothing was drawn",
        )
    release = read_plan_document(folder / "plan.json")["release"]
    name = str(release["id"]) if isinstance(release, dict) else folder.name
    from topdown.plan.base import sha256_of

    return Origin("release", name, sha256_of(folder / "manifest.json"), reason)
