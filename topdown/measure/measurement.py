"""Measure: confidential records in, noisy answers and exact statistics out, charged once and only once."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path

from topdown.errors import ConfigError, DataError
from topdown.inputs import MemoryTable, TableSource
from topdown.measure.children import draw_in_children
from topdown.measure.confidential import load_records
from topdown.measure.draw import (
    LevelDrawer,
    PartPlan,
    choose_children,
    encode_part,
    layout_hash,
    level_drawer,
    part_size,
    plan_parts,
)
from topdown.measure.records import records_form
from topdown.measure.run_ledger import ledger_location, planned_spend
from topdown.measure.truth import Truth, exact_bytes
from topdown.plan import Plan, PreparedRun, PublicContext, plan_from_document, write_public
from topdown.plan.release_chain import BaseFiles, check_same_base, read_plan_document
from topdown.privacy import AesBits, BitSource
from topdown.privacy.ledger import (
    Commit,
    Disk,
    Entry,
    Intent,
    Journal,
    Ledger,
    MeasuredPart,
    NoiseCharge,
    check_new_charge,
    open_journal,
    open_ledger,
    publish_committed,
    run_charged,
    start_journal,
)
from topdown.process import interrupt_between_parts
from topdown.progress import Event, Report, silent


def write_public_side(out: Path, prepared: PreparedRun, disk: Disk) -> None:
    """Write plan.json, public/ and what an extension carries of its base, durably, before anything is spent."""
    context = prepared.context
    disk.make_folder(out / "public")
    write_public(out / "public", context.geography, context.facts)
    for name in disk.names(out / "public"):
        disk.sync(out / "public" / name)
    disk.sync_folder(out / "public")
    if prepared.base is not None:
        _copy_base(out, prepared, prepared.base, disk)
    document = context.plan.to_document()
    head = {"type": document.pop("type"), "version": document.pop("version")}
    text = json.dumps(head | document | {"plan_hash": context.plan.plan_hash}, ensure_ascii=False, indent=1)
    part = out / "plan.json.tmp"
    disk.write_new(part, (text + "\n").encode())
    disk.rename(part, out / "plan.json")
    disk.sync_folder(out)


def _copy_base(out: Path, prepared: PreparedRun, base: BaseFiles, disk: Disk) -> None:
    check_same_base(prepared.context.plan, base)
    for path, data in base.bytes_of().items():
        disk.make_folder((out / path).parent)
        part = out / f"{path}.tmp"
        disk.write_new(part, data)
        disk.rename(part, out / path)
        disk.sync_folder((out / path).parent)


class PartDrawer:
    """Draws the parts of a plan from one source of bits; one a process.

    Args:
        context: plan and public facts.
        truth: true counts.
        plans: the parts.
        bits: where all noise is from.

    """

    def __init__(
        self, context: PublicContext, truth: Truth, plans: Sequence[PartPlan], bits: BitSource
    ) -> None:
        self.bits = bits
        self._context, self._truth, self._plans = context, truth, {plan.part: plan for plan in plans}
        self._level: tuple[int, LevelDrawer] | None = None

    def file_of(self, part: MeasuredPart) -> bytes:
        """Return the file of a part, with fresh noise."""
        plan = self._plans[part]
        if self._level is None or self._level[0] != plan.depth:
            counts = self._truth.counts(plan.depth)
            self._level = plan.depth, level_drawer(self._context, plan.depth, counts, self.bits)
        return encode_part(self._context, plan, self._level[1].draw(plan.nodes))


def draw_files(
    drawer: Callable[[BitSource], PartDrawer], parts: Iterator[MeasuredPart], n_children: int
) -> Generator[bytes]:
    """Yield the files of parts in their order; none of them is drawn twice.

    Args:
        drawer: makes what draws, from a source of bits.
        parts: taken one by one, see `ledger.protocol.Work`.
        n_children: forked processes that draw; 0: this one does.

    Raises:
        InternalError: see `drawn_in_children`.

    """
    if n_children:
        yield from draw_in_children(lambda: drawer(AesBits()), parts, n_children)
    else:
        yield from map(drawer(AesBits()).file_of, parts)


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
    prepared: PreparedRun,
    out: Path,
    report: Report = silent,
    *,
    again: bool = False,
    records: MemoryTable | None = None,
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


def is_measured(prepared: PreparedRun, out: Path, *, again: bool = False) -> bool:
    """Tell whether `out` holds the whole measurement of a plan; refuse what `measure` would refuse without records.

    Args, Raises: as `measure`.
    """
    run = _start_run(prepared, out, silent, Disk())
    with run.ledger() as ledger:
        return run.begun(ledger, again=again)[1] is not None


def _measure(
    prepared: PreparedRun,
    out: Path,
    report: Report,
    again: bool,
    records: TableSource,
    disk: Disk,
    workers: int,
) -> MeasureResult:
    context, plan = prepared.context, prepared.context.plan
    run = _start_run(prepared, out, report, disk)
    with run.ledger() as ledger:  # what it refuses is refused before the records are read
        journal, made = run.begun(ledger, again=again)
        if journal is not None and made is not None:
            publish_committed(journal, ledger, run.parts, made, run.disk)
            report(Event("ledger", 2, 2, "committed before; nothing is spent again"))
            return run.result(journal, ledger, 0)
    truth = Truth(context, load_records(records, context, records_form(prepared.run)))
    found = truth.contradiction()
    if found is not None:
        raise found.error()
    with run.ledger() as ledger:
        _refuse_other_plan(out, plan)  # again: until the ledger was locked, another run could write here
        journal, _ = run.begun(ledger, again=again)
        write_public_side(out, prepared, disk)
        disk.make_folder(run.folder)
        journal = journal or start_journal(run.folder, run.binds, disk)
        with interrupt_between_parts() as check:
            check()
            work = _Measuring(run, truth, check, workers)
            run_charged(journal, ledger, run.parts, run.spend, work, disk)
        report(Event("ledger", 2, 2, "commit written; the confidential file is closed"))
        return run.result(journal, ledger, work.n_drawn)


def _start_run(prepared: PreparedRun, out: Path, report: Report, disk: Disk) -> _MeasurementRun:
    context = prepared.context
    _refuse_other_plan(out, context.plan)
    parts = plan_parts(context)
    context.let_go()  # of what the parts were derived from: the records need the room
    return _MeasurementRun(prepared, out / "measurements", parts, report, disk)


@dataclass(frozen=True, eq=False)
class _MeasurementRun:
    """One call of `measure`: what stays the same from step to step."""

    prepared: PreparedRun
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
            check_new_charge(self.spend, ledger, again=again)
            return None, None
        return journal, ledger.book.commit_of(journal.id)

    def ledger(self) -> AbstractContextManager[Ledger]:
        """Open the data set's ledger."""
        return open_ledger(ledger_location(self.prepared), self.disk)

    @cached_property
    def spend(self) -> NoiseCharge:
        """What it charges."""
        return planned_spend(self.prepared)

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

    def __init__(self, run: _MeasurementRun, truth: Truth, check: Callable[[], None], workers: int) -> None:
        self._run, self._check, self._context = run, check, run.prepared.context
        self._truth = truth
        self._plans = {plan.part: plan for plan in run.part_plans}
        self._n_children = choose_children(self._context, run.part_plans, workers)
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
        return draw_files(drawer, parts, self._n_children)

    def done(self, part: MeasuredPart, drawn: bool) -> None:
        self.n_drawn += drawn
        self._n_seen += len(self._plans[part].nodes)
        self._run.report(Event("measure", self._n_seen, self._n_nodes, part.level))

    def _check_room(self, plan: PartPlan) -> None:
        """Refuse to begin a part that the disk has no room for, with those under way: a torn one costs a new charge."""
        under_way = self._n_children + 1
        n_bytes = 4 * part_size(self._context, plan) * under_way + SPARE_BYTES
        if shutil.disk_usage(self._run.folder).free < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._run.folder))


def _refuse_other_plan(out: Path, plan: Plan) -> None:
    path = out / "plan.json"
    if path.exists() and plan_from_document(read_plan_document(path)).plan_hash != plan.plan_hash:
        raise ConfigError(
            f"{out} holds a release of another plan",
            code="C070",
            file=str(path),
            fix="write to another folder; noise of one plan is never used for another",
        )
