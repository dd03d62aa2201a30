"""Measure: confidential records in, noisy answers and exact statistics out, charged once and only once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path

from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.inputs import MemoryTable, TableSource
from topdown.measure.children import draw_in_children
from topdown.measure.confidential import load_records
from topdown.measure.draw import (
    LevelDrawer,
    PartPlan,
    choose_children,
    encode_part,
    has_form_of_part,
    layout_hash,
    level_drawer,
    part_size,
    plan_parts,
)
from topdown.measure.records import control_totals, records_form
from topdown.measure.run_ledger import ledger_location, planned_spend
from topdown.measure.truth import Truth, exact_bytes, records_digest
from topdown.plan import Plan, PreparedRun, PublicContext, plan_file, read_plan, write_public
from topdown.plan.release_chain import BaseFiles, check_same_base
from topdown.privacy import AesBits, BitSource
from topdown.privacy.ledger import (
    REAL_DISK,
    Disk,
    Journal,
    Ledger,
    LedgerLocation,
    MeasuredPart,
    NoiseCharge,
    PartSize,
    is_committed,
    run_charged,
)
from topdown.progress import Report, silent


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
    disk.replace(out / "plan.json", plan_file(context.plan))


def _copy_base(out: Path, prepared: PreparedRun, base: BaseFiles, disk: Disk) -> None:
    check_same_base(prepared.plan, base)
    for path, data in base.bytes_of().items():
        disk.make_folder((out / path).parent)
        disk.replace(out / path, data)


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
        parts: taken one by one, see `ChargedWork.draw`.
        n_children: forked processes that draw; 0: this one does.

    Raises:
        InternalError: see `draw_in_children`.

    """
    if n_children:
        yield from draw_in_children(lambda: drawer(AesBits()), parts, n_children)
    else:
        yield from map(drawer(AesBits()).file_of, parts)


TryExact = Callable[[dict[str, Ints]], None]
"""Gets the exact statistics by name, after the records are read and before anything is charged, and raises what would
fail of them later. They are to be published; nothing else of the records is told."""


@dataclass(frozen=True)
class MeasureResult:
    """What a measurement cost and made.

    Args:
        folder: the measurements.
        loss, loss_name: charged for this release, all attempts together.
        n_attempts: intents charged; 1 without a crash.
        drawn: SHA-256 of the parts drawn now, by path in the folder.
        n_adopted: parts kept from before: all, if it was complete already.

    """

    folder: Path
    loss: Fraction
    loss_name: str
    n_attempts: int
    drawn: Mapping[str, str]
    n_adopted: int

    @property
    def n_drawn(self) -> int:
        """Parts drawn now."""
        return len(self.drawn)


def measure(
    prepared: PreparedRun,
    out: Path,
    report: Report = silent,
    *,
    again: bool = False,
    records: MemoryTable | None = None,
    workers: int = 1,
    try_exact: TryExact = lambda values: None,
    disk: Disk = REAL_DISK,
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
        try_exact: see `TryExact`.
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
    people = prepared.records_path if records is None else records
    work = _measurement(prepared, out, people, workers, disk, try_exact)
    receipt = run_charged(work, again=again, report=report, disk=work.disk)
    return MeasureResult(
        folder=work.folder,
        loss=receipt.loss,
        loss_name=prepared.plan.loss_name,
        n_attempts=len(receipt.charges),
        drawn=receipt.drawn,
        n_adopted=len(work.parts) - len(receipt.drawn),
    )


def is_measured(prepared: PreparedRun, out: Path, *, again: bool = False) -> bool:
    """Tell whether `out` holds the whole measurement of a plan; refuse what `measure` would refuse without records.

    Args, Raises: as `measure`.
    """
    work = _measurement(prepared, out, prepared.records_path, 1, REAL_DISK, lambda values: None)
    return is_committed(work, again=again, disk=work.disk)


def _measurement(
    prepared: PreparedRun,
    out: Path,
    records: TableSource,
    workers: int,
    disk: Disk,
    try_exact: TryExact,
) -> _Measurement:
    context = prepared.context
    _refuse_other_plan(out, context.plan)
    plans = plan_parts(context)
    context.release_derived()  # of what the parts were derived from: the records need the room
    return _Measurement(
        prepared, out, records, plans, choose_children(context, plans, workers), disk, try_exact
    )


@dataclass(frozen=True, eq=False)
class _Measurement:
    """The measurement of a plan as a charged run; see `ChargedWork`."""

    prepared: PreparedRun
    out: Path
    records: TableSource
    plans: tuple[PartPlan, ...]
    n_children: int
    disk: Disk
    try_exact: TryExact

    @property
    def location(self) -> LedgerLocation:
        return ledger_location(self.prepared)

    @property
    def folder(self) -> Path:
        return self.out / "measurements"

    @property
    def binds(self) -> dict[str, str]:
        return {"plan_hash": self.prepared.plan.plan_hash, "layout": layout_hash(self.plans)}

    @cached_property
    def parts(self) -> list[MeasuredPart]:
        return [plan.part for plan in self.plans]

    @cached_property
    def _part_plans(self) -> dict[MeasuredPart, PartPlan]:
        return {plan.part: plan for plan in self.plans}

    def charge(self, so_far: Fraction) -> NoiseCharge:
        return self._spend

    @cached_property
    def _spend(self) -> NoiseCharge:
        return planned_spend(self.prepared)

    @cached_property
    def truth(self) -> Truth:
        """True counts: the records are opened where they are first asked for."""
        context, run = self.prepared.context, self.prepared.run
        records = load_records(
            self.records, context, records_form(run), totals=control_totals(run), units=True
        )
        return Truth(context, records)

    def open_records(self) -> None:
        found = self.truth.contradiction()
        if found is not None:
            raise found.error()

    def preflight(self, journal: Journal | None, ledger: Ledger) -> None:
        _refuse_other_plan(self.out, self.prepared.plan)
        self.try_exact(self.truth.exact)
        self.prepared.context.release_derived()
        write_public_side(self.out, self.prepared, self.disk)

    def exact(self) -> bytes:
        return exact_bytes(self.prepared.context, self.truth.exact, self.folder, self.disk)

    def digest(self, key: bytes) -> str:
        return records_digest(self.truth.leaves, key)

    def size(self, part: MeasuredPart) -> PartSize:
        plan = self._part_plans[part]
        under_way = self.n_children + 1
        return PartSize(len(plan.nodes), 4 * part_size(self.prepared.context, plan) * under_way)

    def has_form(self, part: MeasuredPart, data: bytes) -> bool:
        return has_form_of_part(self.prepared.context, self._part_plans[part], data)

    def draw(self, parts: Iterator[MeasuredPart], drawn: Callable[[MeasuredPart], bytes]) -> Generator[bytes]:
        drawer = partial(PartDrawer, self.prepared.context, self.truth, self.plans)
        return draw_files(drawer, parts, self.n_children)


def _refuse_other_plan(out: Path, plan: Plan) -> None:
    path = out / "plan.json"
    if path.exists() and read_plan(path).plan_hash != plan.plan_hash:
        raise ConfigError(
            f"{out} holds a release of another plan",
            code="C070",
            file=str(path),
            fix="write to another folder; noise of one plan is never used for another",
        )
