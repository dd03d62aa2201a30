"""Measure: confidential records in, noisy answers and exact statistics out, charged once and only once."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path

from topdown.errors import ConfigError, DataError
from topdown.frames import HeldTable, Source
from topdown.interrupt import interrupt_between_parts
from topdown.ledger.book import Entry
from topdown.ledger.durable import Disk
from topdown.ledger.journal import Journal, MeasuredPart, open_journal, start_journal
from topdown.ledger.ledger import Ledger, open_ledger
from topdown.ledger.protocol import Spend, carry_out, check_new, finish
from topdown.ledger.records import Commit, Intent
from topdown.measure.confidential import load_records
from topdown.measure.draw import PartPlan, children_for, layout_hash, numbers_of, plan_parts
from topdown.measure.drawing import PartDrawer, files_drawn
from topdown.measure.exact import exact_bytes
from topdown.measure.public_side import write_public_side
from topdown.measure.records import form_of
from topdown.measure.run_ledger import place_of, spend_of
from topdown.measure.truth import Truth
from topdown.plan.bases import read_plan_document
from topdown.plan.plan import Plan, plan_from_document
from topdown.plan.prepare import Prepared
from topdown.progress import Event, Report, silent

SPARE_BYTES = 1 << 20


@dataclass(frozen=True)
class MeasureResult:
    """What a measurement cost and made.

    Args:
        folder: the measurements.
        loss, loss_name: charged for this release, all attempts together.
        n_attempts: intents charged; 1 without a crash.
        n_drawn, n_adopted: parts drawn now, and parts kept from before: all, if it was complete already.
        ledger_head: SHA-256 of the ledger's last line, for the certificate.

    """

    folder: Path
    loss: Fraction
    loss_name: str
    n_attempts: int
    n_drawn: int
    n_adopted: int
    ledger_head: str


def measure(
    prepared: Prepared,
    out: Path,
    report: Report = silent,
    *,
    again: bool = False,
    records: HeldTable | None = None,
    workers: int = 1,
    disk: Disk | None = None,
) -> MeasureResult:
    """Draw the noise of a whole plan once, and write the noisy answers to `out/measurements`.

    Guarantees: nothing is charged or drawn before records, plan and ledger are checked; a charge is durable
    before the noise it pays for; no noise is drawn twice under one charge, whatever crashes; nothing has a
    name that readers know before the ledger holds the commit. Run again with the same `out` to go on after a
    crash; parts that are whole are kept. A second call after success opens no confidential file.

    Args:
        prepared: run file, plan and public facts.
        out: the release folder; created if missing.
        report: told about every intent, commit and part.
        again: measure although the ledger holds this release or plan already, in another folder.
        records: given in memory; those that the run file names if None.
        workers: forked processes of this machine that draw, where there is enough to draw; 1: this process does.
        disk: another model of the disk, for tests.

    Raises:
        ConfigError: `out` belongs to another plan, or is damaged.
        DataError: the records break a rule or are others than those of the parts there are, or the disk is full.
        InfeasibleError: exact statistics exclude each other or the public facts (I002).
        BudgetError: the ledger is missing, another one, in use, damaged, rolled back or refuses the loss; or it
            holds this release already and `again` is not given.
        CertificateError: committed files are missing or altered.
        KeyboardInterrupt: after the part under way was completed; going on later costs nothing more.

    Cost: 15 to 35 ns a number and nine syncs a part of 2 million; 30 MB beside the records and the libraries, for each
    process that draws.

    """
    disk = disk or Disk()
    try:
        return _measure(
            prepared,
            out,
            report,
            again,
            prepared.records_path if records is None else records,
            disk,
            workers,
        )
    except OSError as error:
        where = f" {error.filename}" if error.filename else f" {out}"
        raise DataError(
            f"cannot write{where}: {error.strerror}",
            code="D050",
            file=str(error.filename or out),
            fix="make room or correct the rights, then go on with --resume; whole parts are kept",
        ) from None


def is_measured(prepared: Prepared, out: Path, *, again: bool = False) -> bool:
    """Tell whether `out` holds the whole measurement of a plan; refuse what `measure` would refuse without records.

    Args, Raises: as `measure`.
    """
    run = _run(prepared, out, silent, Disk())
    with run.ledger() as ledger:
        return run.begun(ledger, again=again)[1] is not None


def _measure(
    prepared: Prepared, out: Path, report: Report, again: bool, records: Source, disk: Disk, workers: int
) -> MeasureResult:
    context, plan = prepared.context, prepared.context.plan
    run = _run(prepared, out, report, disk)
    with run.ledger() as ledger:  # what it refuses is refused before the records are read
        journal, made = run.begun(ledger, again=again)
        if journal is not None and made is not None:
            finish(journal, ledger, run.parts, made, run.disk)
            report(Event("ledger", 2, 2, "committed before; nothing is spent again"))
            return run.result(journal, ledger, 0)
    truth = Truth(context, load_records(records, context, form_of(prepared.run)))
    found = truth.contradiction()
    if found is not None:
        raise found.error()
    with run.ledger() as ledger:
        _check_same_plan(out, plan)  # again: until the ledger was locked, another run could write here
        journal, _ = run.begun(ledger, again=again)
        write_public_side(out, prepared, disk)
        disk.make_folder(run.folder)
        journal = journal or start_journal(run.folder, run.binds, disk)
        with interrupt_between_parts() as check:
            check()
            work = _Measuring(run, truth, check, workers)
            carry_out(journal, ledger, run.parts, run.spend, work, disk)
        report(Event("ledger", 2, 2, "commit written; the confidential file is closed"))
        return run.result(journal, ledger, work.n_drawn)


def _run(prepared: Prepared, out: Path, report: Report, disk: Disk) -> _Run:
    context = prepared.context
    _check_same_plan(out, context.plan)
    parts = plan_parts(context)
    context.let_go()  # of what the parts were derived from: the records need the room
    return _Run(prepared, out / "measurements", parts, report, disk)


@dataclass(frozen=True, eq=False)
class _Run:
    """One call of `measure`: what stays the same from step to step."""

    prepared: Prepared
    folder: Path
    part_plans: tuple[PartPlan, ...]
    report: Report
    disk: Disk

    @property
    def parts(self) -> list[MeasuredPart]:
        return [p.part for p in self.part_plans]

    @property
    def binds(self) -> dict[str, str]:
        """What the journal of this run is bound to."""
        plan_hash = self.prepared.context.plan.plan_hash
        return {"plan_hash": plan_hash, "layout": layout_hash(self.part_plans)}

    def begun(self, ledger: Ledger, *, again: bool) -> tuple[Journal | None, Commit | None]:
        """Return the journal in the folder, if any, and its commit; refuse a new measurement that cannot be charged."""
        journal = open_journal(self.folder, self.binds, self.disk)
        if journal is None:
            check_new(self.spend, ledger, again=again)
            return None, None
        return journal, ledger.book.commit_of(journal.id)

    def ledger(self) -> AbstractContextManager[Ledger]:
        """Open the data set's ledger."""
        return open_ledger(place_of(self.prepared), self.disk)

    @cached_property
    def spend(self) -> Spend:
        """What it charges."""
        return spend_of(self.prepared)

    def result(self, journal: Journal, ledger: Ledger, n_drawn: int) -> MeasureResult:
        """Say what the measurement cost, all attempts together."""
        plan, intents = self.prepared.context.plan, ledger.book.of_journal(journal.id)
        return MeasureResult(
            folder=self.folder,
            loss=sum((i.loss for i in intents.values()), Fraction(0)),
            loss_name=plan.loss_name,
            n_attempts=len(intents),
            n_drawn=n_drawn,
            n_adopted=len(self.part_plans) - n_drawn,
            ledger_head=ledger.book.head,
        )


class _Measuring:
    """How the protocol's parts are made of confidential records; see `protocol.Work`."""

    def __init__(self, run: _Run, truth: Truth, check: Callable[[], None], workers: int) -> None:
        self._run, self._check, self._context = run, check, run.prepared.context
        self._truth = truth
        self._plans = {plan.part: plan for plan in run.part_plans}
        self._n_children = children_for(self._context, run.part_plans, workers)
        self._n_nodes = sum(len(plan.nodes) for plan in run.part_plans)
        self._n_seen = self.n_drawn = 0

    def charged(self, entry: Entry) -> None:
        if isinstance(entry.event, Intent):
            again = f" for {', '.join(entry.event.covers)}" if entry.event.attempt > 1 else ""
            self._run.report(Event("ledger", 1, 2, f"intent {entry.event.attempt} written{again}"))

    def exact(self) -> bytes:
        return exact_bytes(self._context, self._truth.exact, self._run.folder, self._run.disk)

    def digest(self, key: bytes) -> str:
        return self._truth.digest(key)

    def ready(self, part: MeasuredPart) -> None:
        self._check()
        self._check_room(self._plans[part])

    def draw(self, parts: Iterator[MeasuredPart]) -> Generator[bytes]:
        drawer = partial(PartDrawer, self._context, self._truth, self._run.part_plans)
        return files_drawn(drawer, parts, self._n_children)

    def done(self, part: MeasuredPart, drawn: bool) -> None:
        self.n_drawn += drawn
        self._n_seen += len(self._plans[part].nodes)
        self._run.report(Event("measure", self._n_seen, self._n_nodes, part.level))

    def _check_room(self, plan: PartPlan) -> None:
        """Refuse to begin a part that the disk has no room for, with those under way: a torn one costs a new charge."""
        under_way = self._n_children + 1
        n_bytes = 4 * numbers_of(self._context, plan) * under_way + SPARE_BYTES
        if shutil.disk_usage(self._run.folder).free < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._run.folder))


def _check_same_plan(out: Path, plan: Plan) -> None:
    path = out / "plan.json"
    if path.exists() and plan_from_document(read_plan_document(path)).plan_hash != plan.plan_hash:
        raise ConfigError(
            f"{out} holds a release of another plan",
            code="C070",
            file=str(path),
            fix="write to another folder; noise of one plan is never used for another",
        )
