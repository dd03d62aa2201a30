"""Make one release of group sizes, or one simulation: check, rehearse, then charge and run, or draw seeded noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pgsr import _engine
from pgsr.budget import Calibration, calibrate
from pgsr.charge import tells_what_was_spent
from pgsr.facts import refuse_unkept, refuse_unknown, with_listed_units
from pgsr.folder import MEASUREMENTS, check_folder
from pgsr.groups import check_totals
from pgsr.hierarchy import Hierarchy, Ints
from pgsr.ledger import LedgerFile, ledger_place, refuse_unnamed
from pgsr.plan import Plan
from pgsr.policy import Policy
from pgsr.prepared import Prepared, Release, check_shape
from pgsr.read import origin_of_groups
from pgsr.rehearse import refuse_unverifiable
from pgsr.rows import all_answers
from pgsr.run import run_release
from pgsr.source import Source
from pgsr.statement import refuse_empty_promise
from pgsr.write import contents, hash_of, plan_sections, publish
from topdown.errors import ConfigError, DataError
from topdown.held import held
from topdown.ledger.durable import Disk
from topdown.outputs import refuse_inside, refuse_needed
from topdown.progress import Event, Report, silent

OWN_LEDGER, OWN_POLICY = LedgerFile(), Policy()


@tells_what_was_spent
def release(
    plan: Plan,
    source: Source,
    out: Path | str,
    ledger: LedgerFile = OWN_LEDGER,
    policy: Policy = OWN_POLICY,
    *,
    report: Report = silent,
    disk: Disk | None = None,
) -> Release:
    """Release the number of groups of every size in every region of a hierarchy.

    The data are checked completely before the ledger is opened; the ledger holds a durable intent before the
    first bit of noise is drawn, the hash of every noisy part before it may be read, and a commit before anything is
    made of them (see `run.run_release`).

    Args:
        plan: what is released, and how it is measured.
        source: the groups, confidential, and their regions.
        out: folder to write; what is paid for must outlive a crash.
        ledger: that of the data set, which must exist (see `new_ledger`).
        policy: what may be charged.
        report: called with progress.
        disk: another model of the disk, for tests.

    Raises:
        TopdownError: its details say what this run has spent: nothing, unless noise may have been drawn.
        KeyboardInterrupt: between two parts; its note says what is spent.
    """
    regions, noise = _measured(plan, source)
    if noise.name == "published":
        raise ConfigError(
            f"the published calibration claims {noise.claimed} but costs {noise.loss}: it is not private",
            code="C162",
            fix="use the correct calibration; to reproduce the paper add a simulation seed (--simulate 1)",
        )
    folder = Path(out)
    check_folder(folder, resumable=True)
    prepared, leaves = _checked(plan, source, regions, noise, report)
    place = ledger_place(source.file, plan.binding(source.data_set), ledger)
    refuse_unnamed(place)
    refuse_inside(folder, "out", (place.path, place.witness_folder, *source.files))
    refuse_needed(place.path, "ledger", source.files)
    refuse_unverifiable(prepared)
    return run_release(prepared, prepared.truth(leaves), place, folder, policy, report, disk or Disk())


@tells_what_was_spent
def simulate(
    plan: Plan,
    source: Source,
    seed: int,
    out: Path | str | None = None,
    *,
    truth_is_public: str = "",
    report: Report = silent,
) -> Release:
    """Draw seeded noise, which protects nobody and is not charged; stamped NOT-A-RELEASE.

    Args:
        plan: as for `release`; its calibration may be the published one, which is not private as claimed.
        source: made-up groups (a file marked by `pgsr synth`) or public ones only.
        seed: of the noise.
        out: folder to write; None keeps the result in memory.
        truth_is_public: why groups without a mark are public; stamped on the result.
        report: called with progress.

    Raises:
        TopdownError: C121 if the groups are not known to be made up or public.
    """
    regions, noise = _measured(plan, source)
    folder = None if out is None else Path(out)
    if folder is not None:
        check_folder(folder, resumable=False)
    origin = origin_of_groups(source.groups, truth_is_public)
    prepared, leaves = _checked(plan, source, regions, noise, report)
    report(Event("measure", 0, 1))
    truth = prepared.truth(leaves)
    noisy = all_answers(_engine.NoiseSource(seed), truth, noise, regions.tree, prepared.sideways)
    report(Event("measure", 1, 1))
    made = prepared.made_of(noisy, seed=seed, origin=origin)
    report(Event("solve", 1, 1))
    return made if folder is None else _written(made, folder)


def _measured(plan: Plan, source: Source) -> tuple[Hierarchy, Calibration]:
    """Return the regions and the noise of a plan, if it promises anything in them."""
    regions = source.regions()
    check_shape(regions, plan.sizes)
    refuse_unkept(plan, regions)
    noise = calibrate(plan.kind, regions.tree, plan.sizes, plan.budget, plan.steps)
    refuse_empty_promise(plan, regions.tree)
    return regions, noise


def _checked(
    plan: Plan, source: Source, regions: Hierarchy, noise: Calibration, report: Report
) -> tuple[Prepared, Ints]:
    """Return what is decided before noise is drawn, and the counts [size][leaf], which are confidential."""
    report(Event("check", 0, 1))
    leaves = source.leaves(regions, plan.sizes)
    total = check_totals(leaves, regions, plan.total, plan.public)
    plan = with_listed_units(plan, regions, leaves)
    refuse_unknown(plan, regions, total)
    report(Event("check", 1, 1))
    sections = plan_sections(plan, regions, total, noise)
    mechanism, kind = plan.post_processing, plan.kind
    prepared = Prepared(regions, plan.sizes, total, mechanism, kind, noise, sections, hash_of(sections))
    return prepared, leaves


def _written(made: Release, folder: Path) -> Release:
    disk = Disk()
    try:
        with held(folder, disk, MEASUREMENTS):
            publish(made, folder, contents(made), disk)
    except OSError as error:
        where = str(error.filename or folder)
        raise DataError(
            f"cannot write {where}: {error.strerror}",
            code="D050",
            file=where,
            fix="make room or correct the rights",
        ) from None
    return replace(made, folder=folder)
