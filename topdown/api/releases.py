"""Generate and extend: spend once, solve, publish, verify. To call them is to approve the plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from topdown.api.call import PathText, checked, held, on_this_machine, place, public
from topdown.api.planned import Planned, opened, opened_again, require_answers
from topdown.errors import ConfigError
from topdown.progress import Report, silent

if TYPE_CHECKING:
    from topdown.frames import ArrowTable, HeldTable
    from topdown.measure.measure import MeasureResult
    from topdown.run_result import GenerateResult
    from topdown.workers import Where

T = TypeVar("T")


class Measured(NamedTuple):
    """What a measurement made, and its seconds by stage."""

    result: MeasureResult
    seconds: dict[str, float]


@public
def generate(
    run: PathText | Planned,
    out: PathText,
    *,
    records: ArrowTable | None = None,
    leaves: ArrowTable | None = None,
    workers: Where = 1,
    csv: bool = False,
    again: bool = False,
    resume: bool = False,
    final: bool = False,
    report: Report = silent,
) -> GenerateResult:
    """Spend the budget once and write a verified release. Nobody is asked: the call is the approval.

    Everything that can fail without noise is tried before anything is spent. The folder is held from the first file
    to the last. In the main thread SIGTERM and SIGHUP raise KeyboardInterrupt while it runs, as Ctrl-C does, once the
    part under way is whole. Once it has begun, every error carries a note that says what this run has spent; with
    `resume` the same call goes on with the same noise.

    Args:
        run: run file, plan.json that `topdown plan` saved, or what `topdown.plan` returned.
        out: new or empty folder.
        records: the confidential records as a data frame, or anything with an Arrow C stream; the file that the run
            file names if None. They are read as that file would be; nothing of them is written.
        leaves: see `plan`; not with what `topdown.plan` returned.
        workers: processes for solving, 1 or more, or "ray": the machines of the Ray cluster that RAY_ADDRESS names, or
            one started here (docs/how-to/cluster.md). The release does not depend on it.
        csv: also write one row a record.
        again: spend a second time on a release or plan that the ledger holds already, in another folder.
        resume: go on with an interrupted run of this plan in `out`.
        final: refuse answers that only a person can give and that are still open.
        report: called with each `Event`; or a class of bars such as `tqdm.auto.tqdm`, which gets a bar for each stage.

    Raises:
        ConfigError: C085-C087 `out` holds something else, C132 it would hold a file the run needs, C173 another run
            holds it, C082 plan.json is no longer the plan of its run file, C230-C234 Ray, C250 `records` or `leaves`
            are no table, C005 `leaves` for a plan that is made; or as `topdown.plan`.
        DataError: the records break a rule, D050 the disk refuses.
        BudgetError: the ledger refuses.
        InfeasibleError: the constraints contradict each other.
        CertificateError: V900 the finished release fails its own verification; do not publish it.
    """
    workers, people = checked(workers), held(records, "records")
    planned = _planned(run, leaves)
    target = _started(planned, out, None, resume=resume, final=final)
    return _spend(planned, target, workers, csv, again, people, report)


@public
def measure(
    run: PathText | Planned,
    out: PathText,
    *,
    base: PathText | None = None,
    records: ArrowTable | None = None,
    leaves: ArrowTable | None = None,
    workers: int = 1,
    again: bool = False,
    resume: bool = False,
    final: bool = False,
    report: Report = silent,
) -> Measured:
    """Do the part of `generate` that opens the records: spend the budget once, and write the noisy answers.

    `generate` with `resume` goes on from there, anywhere, and needs the records no more; so does `extend` where `base`
    is given. All else is as for them.

    Args:
        base: folder of the published release that `run` extends.
        workers: processes of this machine that draw, 1 or more, each with a key of its own.
        run, out, records, leaves, again, resume, final, report: see `generate`.

    Returns:
        what was charged and drawn, and wall seconds by stage.

    Raises:
        TopdownError: as `generate`, up to there.
    """
    from topdown import pipeline

    below = None if base is None else place(base, "base")
    open_it = opened_again if below is None else partial(opened, base=below)
    n_workers = on_this_machine(workers)
    planned, people = _planned(run, leaves, open_it), held(records, "records")
    target = _started(planned, out, below, resume=resume, final=final)
    return _noted(
        planned,
        lambda: Measured(
            *pipeline.measure(
                planned.prepared,
                target,
                base=below,
                workers=n_workers,
                again=again,
                records=people,
                report=report,
            )
        ),
    )


def _planned(
    run: PathText | Planned, leaves: ArrowTable | None, open_it: Callable[..., Planned] = opened_again
) -> Planned:
    """Return a plan, made with leaves in memory if there are any; ConfigError C005 if it is made already."""
    if not isinstance(run, Planned):
        return open_it(place(run, "run"), leaves=held(leaves, "leaves"))
    if leaves is not None:
        raise ConfigError(
            "this plan was made with the leaves it has", code="C005", fix="use topdown.plan(run, leaves=...)"
        )
    return run


def _started(planned: Planned, out: PathText, below: Path | None, *, resume: bool, final: bool) -> Path:
    """Check the folder of a run, and that it was planned with the release that it extends, if it extends one."""
    if below is None and planned.base is not None:
        raise ConfigError("this plan extends a release", code="C097", fix="use topdown.extend")
    if below is not None and (planned.base is None or planned.base.resolve() != below.resolve()):
        raise ConfigError(
            f"the plan was not made with the base {below}",
            code="C005",
            fix="plan it with: topdown.plan(run, base=...)",
        )
    target = place(out, "out")
    check_start(planned, target, resume=resume, final=final)
    return target


@public
def extend(
    run: PathText | Planned,
    base: PathText,
    out: PathText,
    *,
    records: ArrowTable | None = None,
    leaves: ArrowTable | None = None,
    workers: Where = 1,
    csv: bool = False,
    again: bool = False,
    resume: bool = False,
    final: bool = False,
    report: Report = silent,
) -> GenerateResult:
    """Extend a published release by new attributes and keep its table. Nobody is asked: the call is the approval.

    The base must pass its own verification, and the same ledger must have paid for it. Nothing is spent if some area
    cannot be extended. All else is as for `generate`.

    Args:
        run: run file with a table [base], or what `topdown.plan` returned for it and this base.
        base: folder of the published release.
        out, records, leaves, workers, csv, again, resume, final, report: see `generate`.

    Raises:
        ConfigError: C005 `run` was planned with another base, C122 the base is a simulation; or as `generate`.
        CertificateError: V164 the base fails its verification.
        BudgetError: B020 the ledger did not pay for the base.
        InfeasibleError: I020 an area cannot be extended.
        DataError: as `generate`.
    """
    below = place(base, "base")
    planned, people = _planned(run, leaves, partial(opened, base=below)), held(records, "records")
    target = _started(planned, out, below, resume=resume, final=final)
    return _spend(planned, target, checked(workers), csv, again, people, report)


def check_start(
    planned: Planned, out: Path, *, resume: bool, final: bool, go_on: str = "resume=True"
) -> None:
    """Refuse what can be refused before anybody is asked; errors as `generate`.

    Args:
        planned, out, resume, final: see `generate`.
        go_on: what a person does to go on with the run that is there.
    """
    from topdown.api.out_folder import check_out

    require_answers(planned, final=final)
    check_out(planned.prepared, out, resume=resume, command=go_on)


def _spend(
    planned: Planned,
    out: Path,
    workers: Where,
    csv: bool,
    again: bool,
    records: HeldTable | None,
    report: Report,
) -> GenerateResult:
    from topdown import pipeline

    base = planned.base
    make = pipeline.generate if base is None else partial(pipeline.extend, base=base)
    return _noted(
        planned,
        lambda: make(
            planned.prepared,
            out=out,
            workers=workers,
            csv=csv,
            again=again,
            records=records,
            report=report,
        ),
    )


def _noted(planned: Planned, run: Callable[[], T]) -> T:
    """Run what may spend; an error carries a note that says what was spent."""
    from topdown.api.spent import note_spent, spent_so_far
    from topdown.interrupt import stops_interrupt

    before = spent_so_far(planned.prepared)
    try:
        with stops_interrupt():
            return run()
    except BaseException as error:
        note_spent(planned.prepared, error, before)
        raise
