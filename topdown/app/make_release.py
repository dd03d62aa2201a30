"""Generate, measure and extend: spend once, solve, publish, verify. To call them is to approve the plan.

An output folder that has something else in it is refused before anything is opened or spent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.app import pipeline
from topdown.app.calls import (
    PathText,
    checked_language,
    checked_workers,
    leaves_in_memory,
    on_this_machine,
    path_of,
    public_function,
)
from topdown.app.pipeline import RunOptions
from topdown.app.planned import Planned, opened, opened_again, require_answers
from topdown.app.preflight import PREFLIGHT_FOLDER
from topdown.app.screens import figures
from topdown.errors import ConfigError
from topdown.formats.caps import PLAN_BYTES, read_json
from topdown.formats.command_documents import GenerateResult, Measure
from topdown.measure import ledger_location
from topdown.output_paths import names_in_run
from topdown.plan import PreparedRun
from topdown.privacy.ledger.charged_run import spend_note
from topdown.process import signals_as_interrupt
from topdown.progress import Report, silent

if TYPE_CHECKING:
    from topdown.inputs import ArrowTable, MemoryTable
    from topdown.workers import ExecutorChoice


@public_function
def generate(
    run: PathText | Planned,
    out: PathText,
    *,
    records: ArrowTable | None = None,
    leaves: ArrowTable | None = None,
    workers: ExecutorChoice = 1,
    csv: bool = False,
    language: str | None = "en",
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

    >>> import topdown
    >>> topdown.generate(topdown.plan("town/run.toml"), "release")
    GenerateResult('release', 400 records, 16 of 16 checks)

    Args:
        run: run file, plan.json that `topdown plan` saved, or what `topdown.plan` returned.
        out: new or empty folder.
        records: the confidential records as a data frame, or anything with an Arrow C stream; the file that the run
            file names if None. They are read as that file would be; nothing of them is written.
        leaves: see `plan`; not with what `topdown.plan` returned.
        workers: processes for solving, 1 or more, or "ray": the machines of the Ray cluster that RAY_ADDRESS names, or
            one started here (docs/how-to/cluster.md). The release does not depend on it.
        csv: also write one row a record.
        language: of report.html, the release for people to read: "en" or "de"; None leaves it out.
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
    people, speaks = _records_in_memory(run, records), checked_language(language)
    options = RunOptions(checked_workers(workers), csv, speaks, again, people, report)
    with _started(run, None, leaves, out, resume=resume, final=final) as (prepared, target):
        return pipeline.generate_release(prepared, target, options)


@public_function
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
) -> Measure:
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
    below = None if base is None else path_of(base, "base")
    people = _records_in_memory(run, records)
    options = RunOptions(on_this_machine(workers), again=again, records=people, report=report)
    with _started(run, below, leaves, out, resume=resume, final=final) as (prepared, target):
        return pipeline.measure_release(prepared, target, options, base=below)


def _opened_plan(run: PathText | Planned, base: Path | None, leaves: ArrowTable | None) -> Planned:
    """Return a plan, made with leaves in memory if there are any; ConfigError C005 if it is made already."""
    if not isinstance(run, Planned):
        path, table = path_of(run, "run"), leaves_in_memory(leaves, "leaves")
        return opened_again(path, table) if base is None else opened(path, base, table)
    if leaves is not None:
        raise ConfigError(
            "this plan was made with the leaves it has", code="C005", fix="use topdown.plan(run, leaves=...)"
        )
    return run


def _records_in_memory(run: PathText | Planned, records: ArrowTable | None) -> MemoryTable | None:
    """Return the records that a call or its plan gives as a table; None where the run file names them.

    Raises: ConfigError C340 a plan of values that has no files yet, and so no ledger.
    """
    if isinstance(run, Planned) and not run.prepared.path.is_file():
        raise ConfigError(
            "a plan that was made of values has no ledger yet",
            code="C340",
            fix='write its files first: planned = planned.write("office")',
        )
    given = leaves_in_memory(records, "records")
    return run.records if given is None and isinstance(run, Planned) else given


@contextmanager
def _started(
    run: PathText | Planned,
    base: Path | None,
    leaves: ArrowTable | None,
    out: PathText,
    *,
    resume: bool,
    final: bool,
) -> Iterator[tuple[PreparedRun, Path]]:
    """Open the plan and the folder of a run, checked, for work whose errors say what was spent.

    Args:
        base: release that it extends, if it extends one. run, leaves, out, resume, final: see `generate`.
    """
    planned = _opened_plan(run, base, leaves)
    if base is None and planned.base is not None:
        raise ConfigError("this plan extends a release", code="C097", fix="use topdown.extend")
    if base is not None and (planned.base is None or planned.base.resolve() != base.resolve()):
        raise ConfigError(
            f"the plan was not made with the base {base}",
            code="C005",
            fix="plan it with: topdown.plan(run, base=...)",
        )
    target = path_of(out, "out")
    check_start(planned, target, resume=resume, final=final)
    with spending(planned):
        yield planned.prepared, target


@public_function
def extend(
    run: PathText | Planned,
    base: PathText,
    out: PathText,
    *,
    records: ArrowTable | None = None,
    leaves: ArrowTable | None = None,
    workers: ExecutorChoice = 1,
    csv: bool = False,
    language: str | None = "en",
    again: bool = False,
    resume: bool = False,
    final: bool = False,
    report: Report = silent,
) -> GenerateResult:
    """Extend a published release by new attributes and keep its table. Nobody is asked: the call is the approval.

    The base must pass its own verification, and the same ledger must have paid for it. Nothing is spent if some area
    cannot be extended. All else is as for `generate`.

    >>> import topdown
    >>> planned = topdown.plan("land/more.toml", base="land/base")
    >>> topdown.extend(planned, "land/base", "extended").checks.ok
    True

    Args:
        run: run file with a table [base], or what `topdown.plan` returned for it and this base.
        base: folder of the published release.
        out, records, leaves, workers, csv, language, again, resume, final, report: see `generate`.

    Raises:
        ConfigError: C005 `run` was planned with another base, C122 the base is a simulation; or as `generate`.
        CertificateError: V164 the base fails its verification.
        BudgetError: B020 the ledger did not pay for the base.
        InfeasibleError: I020 an area cannot be extended.
        DataError: as `generate`.
    """
    below = path_of(base, "base")
    people, speaks = _records_in_memory(run, records), checked_language(language)
    options = RunOptions(checked_workers(workers), csv, speaks, again, people, report)
    with _started(run, below, leaves, out, resume=resume, final=final) as (prepared, target):
        return pipeline.generate_release(prepared, target, options, base=below)


def check_start(
    planned: Planned, out: Path, *, resume: bool, final: bool, go_on: str = "resume=True"
) -> None:
    """Refuse what can be refused before anybody is asked; `out` is new or empty, or with `resume` holds this run.

    Args:
        planned, out, resume, final: see `generate`.
        go_on: what a person does to go on with the run that is there.

    Raises: ConfigError: C085, C086, C087 and C132, as `generate`; H001 answers are open.
    """
    require_answers(planned, final=final)
    prepared = planned.prepared
    registry = prepared.run.ledger.registry
    needed = (*prepared.needed, *([prepared.path.parent / registry] if registry else []))
    there = names_in_run(out, needed, resume=resume)
    if out.is_dir() and any(path.is_symlink() for path in out.rglob("*")):
        raise ConfigError(
            f"{out} holds a link; a release is written below one folder",
            code="C132",
            fix="remove the link, or give --out a new folder; nothing was written",
        )
    names = [] if _is_unstarted(out) else there
    found = run_in_folder(out)
    mine = prepared.plan.plan_hash
    if resume and found not in (None, mine):
        raise ConfigError(
            f"{out} holds a run of plan {str(found)[:8]}, not of {mine[:8]}",
            code="C085",
            fix="resume with the plan of that run, or give --out a new folder",
        )
    if not resume and found == mine:
        raise ConfigError(
            f"{out} holds a run of this very plan, {mine[:8]}",
            code="C086",
            details=(("go on", go_on),),
            fix="add --resume to keep its noise; another folder would spend the budget again",
        )
    if names and found is None:
        raise ConfigError(
            f"{out} is not empty and holds no run of this engine ({', '.join(names[:3])})",
            code="C085",
            fix="give --out a new or empty folder; nothing in it was touched",
        )
    if found is not None and found != mine:
        raise ConfigError(
            f"{out} holds a run of another plan, {found[:8]}", code="C085", fix="give --out a new folder"
        )


@contextmanager
def spending(planned: Planned) -> Iterator[None]:
    """Run what may spend; whatever ends it carries a note that says what was spent."""
    plan = planned.plan

    def words(spent: Fraction) -> str:
        loss = figures.loss(plan.loss_name, spent, plan.delta_of(spent))
        return f"{loss}; finished noise is kept: --resume"

    with spend_note(ledger_location(planned.prepared), plan.plan_hash, words), signals_as_interrupt():
        yield


_UNSTARTED = re.compile(
    re.escape(PREFLIGHT_FOLDER)
    + r"/.*|public/(geography|leaves)\.parquet(\.tmp)?|plan\.json\.tmp"
    + r"|(base/)+(public/)?[a-z]+(/part-[0-9]+)?\.(json|parquet)(\.tmp)?"
)


def _is_unstarted(out: Path) -> bool:
    """Tell whether a folder holds nothing but what a run leaves behind that was killed before it had a plan there."""
    files = [p.relative_to(out).as_posix() for p in out.rglob("*") if not p.is_dir()]
    return run_in_folder(out) is None and all(_UNSTARTED.fullmatch(name) for name in files)


def run_in_folder(out: Path) -> str | None:
    """Return the plan hash of the run whose files lie in a folder, None if there is none."""
    for name in ("plan.json", "measurements/journal.json"):
        try:
            found = read_json(out / name, PLAN_BYTES)["plan_hash"]
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            continue
        if isinstance(found, str):
            return found
    return None
