"""Verify and evaluate: look at a finished release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.api.call import PathText, checked, place, public, source
from topdown.errors import ConfigError
from topdown.progress import Report, silent

if TYPE_CHECKING:
    from topdown.documents.evaluation import Evaluation
    from topdown.frames import ArrowTable
    from topdown.publish.verify import VerifyResult
    from topdown.workers import Where


@public
def verify(
    release: PathText, *, solve: bool = False, workers: Where = 1, report: Report = silent
) -> VerifyResult:
    """Check a release from its files alone; needs no confidential data.

    Args:
        release: folder of a release, or of a choice.
        solve: also solve again what was measured, and compare the records.
        workers: processes for the sections of a large release and for solving, 1 or more; for solving "ray", too, see
            `generate`.
        report: told about the progress of solving, see `generate`.

    Returns:
        every check with its findings; `ok` says whether all passed. A failed check is no error.

    Raises:
        ConfigError: C088 the folder is no release, C122 it holds a simulation, C005 no worker, C230-C234 Ray.
        InternalError: X046 a worker was killed too often.
    """
    from topdown.api.release_folder import require_release
    from topdown.publish.verify.choice import is_choice, verify_choice

    folder = place(release, "release")
    if is_choice(folder):
        if solve:
            raise ConfigError("a choice is not solved", code="C005", fix="leave out solve")
        return verify_choice(folder)
    require_release(folder)
    if solve:
        from topdown.solved_again import verify_and_solve

        return verify_and_solve(folder, workers=checked(workers), report=report)
    from topdown.publish.in_workers import verified_in
    from topdown.publish.verify import verify as check

    n_workers = checked(workers)
    return check(folder, verified_in(n_workers if isinstance(n_workers, int) else 1))


@public
def evaluate(
    release: PathText,
    truth: PathText | ArrowTable,
    *,
    out: PathText | None = None,
    force: bool = False,
    ignore: Sequence[str] = (),
    count: bool = True,
    columns: Mapping[str, str] | None = None,
) -> Evaluation:
    """Compare a release with the confidential records. The result is CONFIDENTIAL: it is about real errors.

    Args:
        release: folder.
        truth: the records it was made from: a file, KIND:FILE?table=NAME, a data frame, or anything with an Arrow C
            stream.
        out: file for the result, readable by its owner only; None writes nothing.
        force: replace that file.
        ignore: columns of the records that are not read.
        count: whether the records have a column `count`; else each row is one record.
        columns: what columns are called in the records, where that is another name.

    Returns:
        errors by level and query, and how often each invariant holds.

    Raises:
        ConfigError: C088 the folder is no release, C080 or C132 `out` may not be written, C250 `truth` is no table.
        CertificateError: the microdata are damaged.
        DataError: the records are not those of this geography and schema; no value of them is shown.
    """
    from msgspec import convert

    from topdown.api.release_folder import require_release
    from topdown.documents.evaluation import Evaluation
    from topdown.frames import HeldTable
    from topdown.measure.evaluate import evaluate as compare
    from topdown.measure.evaluation_file import write_evaluation
    from topdown.measure.records import Form
    from topdown.outputs import refuse_existing, refuse_needed
    from topdown.stores.place import file_of, table_at

    folder, given = place(release, "release"), source(truth, "truth")
    records = table_at(given) if isinstance(given, Path) else given
    file = None if isinstance(records, HeldTable) else file_of(records)
    target = None if out is None else place(out, "out")
    require_release(folder)
    if target is not None:
        refuse_needed(target, "--out", () if file is None else (file,))
        refuse_existing(target, force=force)
    document = compare(folder, records, Form(tuple(ignore), count, dict(columns or {})))
    if target is not None:
        write_evaluation(document, target, folder, truth=file, force=force)
    return convert(document, Evaluation)
