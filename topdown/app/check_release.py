"""Verify and evaluate: look at a finished release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import convert, to_builtins

from topdown import app
from topdown.app.calls import (
    PathText,
    checked_workers,
    path_of,
    public_function,
    records_source,
    require_release,
)
from topdown.app.verify_by_solving import report_checks
from topdown.errors import ConfigError
from topdown.formats.accuracy_documents import Convergence, Evaluation
from topdown.formats.caps import read_json
from topdown.formats.release_documents import Solve
from topdown.inputs.sources import MemoryTable, containing_file, locate_table
from topdown.measure.evaluation import evaluate as compare
from topdown.measure.evaluation import write_evaluation
from topdown.measure.records import RecordsForm, records_form
from topdown.measure.released import damaged_file_error
from topdown.output_paths import refuse_existing, refuse_needed
from topdown.plan import load_run_file
from topdown.progress import Report, silent
from topdown.publish.publish_release import verified_in
from topdown.verify import is_choice
from topdown.verify.run_checks import verify as check

if TYPE_CHECKING:
    from topdown.inputs import ArrowTable
    from topdown.verify import VerifyResult
    from topdown.workers import ExecutorChoice


@public_function
def verify(
    release: PathText, *, solve: bool = False, workers: ExecutorChoice = 1, report: Report = silent
) -> VerifyResult:
    """Check a release from its files alone; needs no confidential data.

    >>> import topdown
    >>> [check.name for check in topdown.verify("release").checks if not check.ok]
    []

    Args:
        release: folder of a release, or of a choice.
        solve: also solve again what was measured, and compare the records.
        workers: processes for the sections of a large release and for solving, 1 or more; for solving "ray", too, see
            `generate`.
        report: see `generate`.

    Returns:
        every check with its findings; `ok` says whether all passed. A failed check is no error.

    Raises:
        ConfigError: C088 the folder is no release, C122 it holds a simulation, C005 no worker, C230-C234 Ray.
        InternalError: X046 a worker was killed too often.
    """
    folder = path_of(release, "release")
    if is_choice(folder):
        if solve:
            raise ConfigError("a choice is not solved", code="C005", fix="leave out solve")
        return check(folder)
    require_release(folder)
    if solve:
        return app.verify_and_solve(folder, workers=checked_workers(workers), report=report)
    n_workers = checked_workers(workers)
    return check(folder, verified_in(n_workers if isinstance(n_workers, int) else 1), report_checks(report))


@public_function
def evaluate(
    release: PathText,
    truth: PathText | ArrowTable,
    *,
    out: PathText | None = None,
    force: bool = False,
    ignore: Sequence[str] = (),
    count: bool = True,
    columns: Mapping[str, str] | None = None,
    run: PathText | None = None,
) -> Evaluation:
    """Compare a release with the confidential records. The result is CONFIDENTIAL: it is about real errors.

    >>> import topdown
    >>> topdown.evaluate("release", "town/persons.csv.gz")
    Evaluation('made-up'): CONFIDENTIAL - DO NOT PUBLISH; its errors are in .levels

    Args:
        release: folder.
        truth: the records it was made from: a file, KIND:FILE?table=NAME, a data frame, or anything with an Arrow C
            stream.
        out: file for the result, readable by its owner only; None writes nothing.
        force: replace that file.
        ignore: columns of the records that are not read.
        count: whether the records have a column `count`; else each row is one record.
        columns: what columns are called in the records, where that is another name.
        run: run file whose table [input] says how the records are read: ignore, count, columns, and with values what
            their values mean; beside it `ignore` and `columns` add to it.

    Returns:
        errors by level and query, how often each invariant holds, and how many splits missed the solver's target.

    Raises:
        ConfigError: C088 the folder is no release, C080 or C132 `out` may not be written, C250 `truth` is no table.
        CertificateError: the microdata or solve.json are damaged.
        DataError: the records are not those of this geography and schema; no value of them is shown.
    """
    folder, given = path_of(release, "release"), records_source(truth, "truth")
    records = locate_table(given) if isinstance(given, Path) else given
    file = None if isinstance(records, MemoryTable) else containing_file(records)
    target = None if out is None else path_of(out, "out")
    require_release(folder)
    if target is not None:
        refuse_needed(target, "--out", () if file is None else (file,))
        refuse_existing(target, force=force)
    solver = to_builtins(solver_report(folder))
    form = RecordsForm(tuple(ignore), count, dict(columns or {}))
    if run is not None:
        said = records_form(load_run_file(path_of(run, "run")))
        form = RecordsForm(
            (*said.ignored, *form.ignored),
            said.has_count and count,
            {**said.called, **form.called},
            said.values,
        )
    document = compare(folder, records, form) | {"solver": solver}
    if target is not None:
        write_evaluation(document, target, folder, truth=file, force=force)
    return convert(document, Evaluation)


def solver_report(folder: Path) -> Convergence:
    """Return how many splits of a release missed the solver's target, and how far the worst is from its optimum.

    Raises:
        CertificateError: V090 solve.json is damaged.
    """
    path = folder / "solve.json"
    try:
        solved = convert(read_json(path), Solve)
    except (OSError, ValueError) as error:
        raise damaged_file_error(path, type(error).__name__, "the solver's report") from None
    return Convergence(
        n_splits=sum(level.n_splits for level in solved.levels),
        n_unconverged=sum(level.n_unconverged for level in solved.levels),
        worst_persons=max((level.max_kkt_residual_persons for level in solved.levels), default=0.0),
        target_persons=solved.target_kkt_residual_persons,
    )
